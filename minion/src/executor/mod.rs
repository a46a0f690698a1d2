//! Runs functions, apart from the runtime that serves heartbeats: each on a thread of its own.

mod pool;
mod running;
mod stop;

pub use pool::Pool;
pub use running::{Entered, Running, RunningJob};
pub use stop::{Stop, timespec};
