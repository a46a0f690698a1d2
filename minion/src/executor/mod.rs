//! Runs functions on threads of their own, apart from the runtime that serves heartbeats.

mod pool;
mod running;
mod stop;

pub use pool::Pool;
pub use running::{Entered, Running, RunningJob};
pub use stop::{Stop, timespec};
