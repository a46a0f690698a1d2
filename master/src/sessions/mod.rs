//! The sessions of peers, and the table of them. A minion is present while its session in the table
//! lives.

mod connections;
mod presence;
mod running_time;
mod session;
mod sightings;
mod table;
mod unproven;

pub use connections::ConnectionId;
pub use presence::{Duplicate, MinionStart};
pub use session::{NewSession, OwnNumber, Principal, Session, SessionState};
pub use sightings::Sighted;
pub use table::{PresenceChange, Sessions, UNPROVEN_FOR};
pub use unproven::{Origin, UNPROVEN};
