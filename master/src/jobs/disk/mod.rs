//! SQLite: the files of the store, the threads that own their connections, and how values stand in rows.

pub(super) mod connection_thread;
pub(super) mod partitions;
pub(super) mod reserve;
pub(super) mod rows;
pub(super) mod schema;
pub(super) mod thread;
pub(super) mod writer;
