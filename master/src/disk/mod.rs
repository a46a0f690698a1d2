//! What the master has on the disk in SQLite: files that are opened, set aside and reserved, and the threads that own their
//! connections. The job store ([`jobs`](crate::jobs)) and the kept events (`events::durable`) are such stores; which tables
//! they have is their own. The audit file has a [thread] too.

pub(crate) mod columns;
pub(crate) mod connection_thread;
pub(crate) mod damaged;
mod error;
pub(crate) mod file;
pub(crate) mod partitions;
pub(crate) mod reserve;
pub(crate) mod set_aside;
pub(crate) mod thread;
pub(crate) mod writer;

pub use error::StoreError;
