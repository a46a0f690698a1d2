//! Who is here: sessions, and the table of them. Presence is the table of live ones.

mod session;
mod table;

pub use session::{OwnNumber, Principal, Session, SessionState};
pub use table::{PresenceChange, Sessions, UNPROVEN, UNPROVEN_FOR};
