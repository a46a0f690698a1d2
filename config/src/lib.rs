//! Configuration files with Salt's option names, and Salt's YAML, which also reads the arguments of
//! a command line.

mod argument;
#[cfg(test)]
mod document;
mod error;
mod files;
mod load;
mod logging;
mod master;
mod minion;
mod nearest;
mod options;
mod paths;
mod pattern;
pub mod salt_options;
mod scalar;
mod sections;
pub mod yaml;

pub use argument::{parse_argument, parse_arguments, parse_call};
pub use error::ConfigError;
pub use load::Loaded;
pub use logging::{LogLevel, Logging, UnknownLevel};
pub use master::MasterConfig;
pub use minion::MinionConfig;
pub use options::{OptionDoc, TransportOptions};
pub use paths::Paths;
