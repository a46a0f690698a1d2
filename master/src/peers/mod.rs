//! Which peers are let in, which of them are here, and what ends when a key goes.

mod admission;
mod denied_peers;
mod ended_connections;
mod key_warnings;
mod key_watch;
mod local_users;
mod presence_reporter;
mod revocation;
mod waiting_polls;

pub use admission::{AdmissionControl, AdmissionDecision};
pub(crate) use denied_peers::DeniedPeers;
pub(crate) use ended_connections::EndedConnections;
pub(crate) use key_warnings::KeyWarnings;
pub(crate) use key_watch::KeyWatch;
pub(crate) use local_users::{groups_of_name, warn_of_unknown};
pub(crate) use presence_reporter::PresenceReporter;
pub(crate) use revocation::Revocation;
pub use waiting_polls::WaitingPolls;
