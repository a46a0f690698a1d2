//! The tables of the job store, and functions on a connection that read and write their rows.

pub(super) mod heard_heartbeats;
pub(super) mod minion_states;
pub(super) mod minions;
pub(super) mod reduction;
pub(super) mod return_parts;
pub(crate) mod rows;
pub(crate) mod schema;
