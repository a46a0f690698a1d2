//! The metrics of a daemon: what its parts count, as text that Prometheus reads.
//!
//! Nothing is kept for them: a source reads the counters and tables of the daemon when somebody asks, so that metrics cost
//! nothing while nobody does, and cannot differ from what the daemon itself goes by.

mod histogram;
mod listener;
mod measured;
mod process;
mod server;

pub use histogram::{DurationHistogram, MeasuredDurations};
pub use listener::{MetricsListenError, check_metrics_address};
pub use measured::{Measurement, Metrics};
pub use server::{MetricsSource, serve_metrics};
