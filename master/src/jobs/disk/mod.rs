//! SQLite: the files of a store, the threads that own their connections, and how values stand in rows. The job store is one
//! such store, the kept events (`events/durable/`) are another.

pub(crate) mod connection_thread;
pub(crate) mod damaged;
pub(super) mod minion_states;
pub(crate) mod partitions;
pub(super) mod reduction;
pub(super) mod reserve;
pub(super) mod return_parts;
pub(crate) mod rows;
pub(crate) mod schema;
pub(super) mod set_aside;
pub(crate) mod thread;
pub(crate) mod writer;
