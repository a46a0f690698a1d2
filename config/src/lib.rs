//! Configuration files with Salt's option names, and Salt's YAML, which also reads the arguments of
//! a command line.

mod access_rules;
mod api;
mod argument;
mod assignments;
mod byte_size;
mod calls;
#[cfg(test)]
mod document;
mod error;
mod external_auth;
mod file_roots;
mod files;
mod given;
mod given_values;
mod load;
mod log_format;
mod logging;
mod master;
mod metrics_address;
mod mine;
mod minion;
mod minion_id;
mod options;
mod paths;
mod pattern;
mod pillar_sources;
mod reactor;
mod reload;
mod rest_cherrypy;
mod returners;
mod role;
pub mod salt_options;
mod salt_replacements;
#[cfg(test)]
mod sample;
mod schedule;
mod secrecy;
mod secret;
mod sections;
mod syntax_hints;
mod unread_files;

pub use access_rules::{
    AccessBlacklist, AccessRule, AccessRules, FunctionRule, RuleScope, Subject,
};
pub use api::ApiConfig;
pub use argument::{parse_argument, parse_arguments, parse_call, split_named};
pub use calls::parse_calls;
pub use error::ConfigError;
pub use external_auth::{ExternalAuth, LoginWay};
pub use file_roots::{BASE, Environments, FileOptions};
pub use load::Loaded;
pub use log_format::{Align, LogField, LogFormat, Piece, UnknownFormat};
pub use logging::{LogLevel, Logging, UnknownLevel};
pub use master::{JobStoreSize, ListenSection, MasterConfig};
pub use metrics_address::{MetricsAddress, NoMetricsAddress};
pub use mine::{MineConfig, MineFunction, MineRule, NoMineFunctions};
pub use minion::MinionConfig;
pub use paths::Paths;
pub use pillar_sources::{ExternalPillar, MERGING_STRATEGIES, PillarSources, ShownOptions};
pub use reactor::{Reaction, ReactionFile, ReactorConfig};
pub use reload::ChangedOption;
pub use rest_cherrypy::{ApiCertificate, CorsOrigins, RestCherrypyConfig};
pub use returners::{
    ExecutableReturner, HttpReturner, PostgresReturner, PostgresSchema, PostgresTls,
    ReturnerConfig, ReturnerName,
};
pub use role::{OptionDoc, TransportOptions};
pub use schedule::ScheduleConfig;
pub use secrecy::Secrecy;
pub use secret::Secret;
