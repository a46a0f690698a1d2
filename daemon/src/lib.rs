//! The parts that every Saline daemon shares: arguments, logging, pid file, signals, the limit of open descriptors,
//! what memory is given back, the lock that keeps a second instance from running, the notifications to the service manager, the
//! health, the metrics, switching to the daemon's user, and what the configuration names and the machine does not have; and two parts
//! that every other program uses too: the report of versions, and the options as they are shown.

mod absent_paths;
mod arguments;
mod descriptors;
mod folders_above;
mod health;
mod instance_lock;
mod large_memory;
pub mod logging;
mod metrics;
mod options_to_show;
mod own_user;
mod pid_file;
mod process_user;
mod reload;
#[cfg(feature = "chaos")]
pub mod sabotage;
mod service_manager;
mod signals;
mod startup_pages;
mod state_folder;
mod supervision;
mod unix_socket;
mod versions;

pub use absent_paths::{absent_file, absent_folder, absent_folder_of, absent_program};
pub use arguments::{Arguments, Task, command_line, parse};
pub use descriptors::{RESERVED_DESCRIPTORS, connection_descriptors, raise_descriptors};
pub use folders_above::{create_above, create_entered};
pub use health::{Health, HealthRequest, print_health};
pub use instance_lock::{InstanceLock, LockError};
pub use large_memory::give_large_memory_back;
pub use metrics::{
    DurationHistogram, MeasuredDurations, Measurement, Metrics, MetricsListenError, MetricsSource,
    check_metrics_address, serve_metrics,
};
pub use options_to_show::options_to_show;
pub use own_user::{OwnUser, OwnUserError};
pub use pid_file::{PidFile, PidFileError, check_pid_file};
pub use process_user::{BecomeError, become_user};
pub use reload::{Reloaded, reload};
pub use service_manager::ServiceManager;
pub use signals::{Signal, Signals};
pub use startup_pages::give_startup_pages_back;
pub use state_folder::{TakeOverError, take_over};
pub use supervision::{Question, Supervision};
pub use versions::versions_report;
