//! Destinations outside of the master for what it has stored: jobs, returns and events.
//!
//! A [`Destination`] takes batches of [`Record`]s. The master delivers a record again until the destination has taken it, also
//! after a restart in between, so that each comes at least once; a destination that can recognise a record takes it once.
//!
//! | file | holds |
//! |---|---|
//! | `record.rs` | what is delivered |
//! | `destination.rs` | what a destination does, and how it fails |
//! | `open.rs` | makes the destination of a name out of the configuration |
//! | `local.rs` | a file with a line of JSON for each record |
//! | `sqlite3/` | a database of SQLite |
//! | `executable.rs` | a program that gets the records on its standard input |
//! | `http.rs` | a server that gets them in the body of a POST |
//! | `postgres/` | a database of PostgreSQL, with tables of ours or those of Salt's returner |
//! | `job_cache.rs` | reads jobs and returns back from either database |
//! | `blocking_delivery.rs` | runs deliveries to a disk, which may hang, one at a time |
//! | `columns.rs` | the fields of records as databases take them |
//! | `tls.rs` | the authorities whose certificates servers must have |

mod blocking_delivery;
mod cached_job;
mod columns;
mod destination;
mod executable;
mod http;
mod job_cache;
mod local;
mod open;
mod postgres;
mod record;
mod sqlite3;
#[cfg(test)]
mod tests;
mod tls;

pub use cached_job::{CachedJob, CachedReturn, NoValue};
pub use destination::{DeliveryError, Destination};
pub use job_cache::{JobCache, OpenJobCache};
pub use open::open;
pub use record::{Content, Record};
