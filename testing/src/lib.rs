//! What tests, `saline-chaos`, `saline-bench` and `saline-quickstart` share to run Saline: one way to start and end a
//! daemon process, one server of PostgreSQL, servers of NATS, one browser, one proxy that puts faults on a link, names that change places, and one master whose replies a test prescribes.

pub mod browser;
pub mod fleet;
pub mod links;
pub mod nats_server;
pub mod postgres;
pub mod processes;
pub mod scripted;
pub mod swapped_names;

pub use browser::Browser;
pub use fleet::{CommandOutput, Fleet, ended};
pub use nats_server::NatsServer;
pub use postgres::PostgresServer;
pub use processes::TIMEOUT as TEST_TIMEOUT;
pub use processes::{Daemon, Folders, Log, MinionFile, Ports, Process, Programs};
pub use swapped_names::SwappedNames;
