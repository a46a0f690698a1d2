//! What requirements are written with: a world of their own, servers and clients that say clearly
//! what went wrong, and futures that are polled on purpose only so often.

mod caller;
mod descriptors;
mod host;
mod measure;
mod payload;
mod poll;
mod proxy;
mod raw;
mod script;
mod seed;
mod topics;
mod world;

pub use caller::{Caller, Listener};
pub(crate) use descriptors::enough_descriptors;
pub(crate) use host::admit;
pub use host::{Departed, Host, Inbox, echo};
pub use measure::{Growth, Usage};
pub(crate) use measure::{alive_tasks, within};
pub use payload::{number, numbered, payload};
pub use poll::{join_all, poll_at_most};
pub use proxy::Proxy;
pub use raw::{PACKET, PacketListener, Packets, RawTransport};
pub(crate) use raw::{Place, Raw, RawListener, connect_at_once, unconnected};
pub(crate) use script::{Script, recorded};
pub use seed::{Dice, seed};
pub(crate) use seed::{SEED, digest, nextest_run};
pub use topics::{exact, prefix, topic};
pub(crate) use world::{DEADLINE_SLACK, RawAt};
pub use world::{PING, TEST_TIMEOUT, World};
