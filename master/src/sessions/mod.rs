//! The sessions of peers, and the table of them. A minion is present while its session in the table
//! lives.
//!
//! Five files import each other: `connections`, `duplicates` and `last_seen` are parts of `Sessions` in `table`, whose one lock
//! keeps them consistent, and `session` takes the locked table as the proof that its state may be changed.

mod connections;
mod duplicates;
mod heartbeat_ages;
mod last_seen;
mod listener_kind;
mod presence;
mod running_time;
mod session;
mod table;
mod unproven;

pub use connections::ConnectionId;
pub use listener_kind::ListenerKind;
pub use presence::{FleetVersions, MinionStart};
pub use session::{NewSession, OwnNumber, Session, SessionState};
pub use table::{PresenceChange, Sessions, UNPROVEN_FOR};
pub use unproven::MAX_UNPROVEN;
