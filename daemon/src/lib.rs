//! What every Saline daemon does around its work, written once: arguments, logging, pid file,
//! signals, the lock that keeps a second instance out.

mod arguments;
mod instance_lock;
pub mod logging;
mod pid_file;
mod signals;

pub use arguments::{Arguments, parse};
pub use instance_lock::{InstanceLock, LockError};
pub use pid_file::{PidFile, PidFileError};
pub use signals::{Signal, Signals};
