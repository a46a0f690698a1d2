//! The sessions of peers, and the table of them. A minion is present while its session in the table
//! lives.

mod connections;
mod key_holders;
mod presence;
mod running_time;
mod session;
mod table;
mod unproven;

pub use connections::ConnectionId;
pub use key_holders::HeardHolder;
pub use presence::{Duplicate, MinionStart};
pub use session::{NewSession, OwnNumber, Principal, Session, SessionState};
pub use table::{PresenceChange, Sessions, UNPROVEN_FOR};
pub use unproven::{Origin, UNPROVEN};
