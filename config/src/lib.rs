//! Configuration files, with Salt's option names: the one loader. Also the one reader of YAML, which
//! reads the words of a command line too.

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

pub use error::ConfigError;
pub use load::Loaded;
pub use logging::{LogLevel, Logging, UnknownLevel};
pub use master::MasterConfig;
pub use minion::MinionConfig;
pub use options::{OptionDoc, TransportOptions};
pub use paths::Paths;
