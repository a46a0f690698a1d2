//! The destinations outside of the master that get what it stores, and their settings.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::Secret;

/// A destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReturnerName {
    /// A program.
    Executable,
    /// A server of HTTP.
    Http,
    /// A file on the master.
    Local,
    /// A database of PostgreSQL.
    Postgres,
    /// A database of SQLite on the master.
    Sqlite3,
}

impl ReturnerName {
    /// Every destination, by name.
    pub const ALL: [Self; 5] = [
        Self::Executable,
        Self::Http,
        Self::Local,
        Self::Postgres,
        Self::Sqlite3,
    ];

    /// Returns the name in the configuration and on the command line; Salt's, where Salt has such a returner.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Http => "http",
            Self::Local => "local",
            Self::Postgres => "postgres",
            Self::Sqlite3 => "sqlite3",
        }
    }

    /// Returns the destination of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    /// Whether jobs and returns can be read back from the destination.
    pub fn is_database(self) -> bool {
        match self {
            Self::Postgres | Self::Sqlite3 => true,
            Self::Executable | Self::Http | Self::Local => false,
        }
    }

    /// Returns the option without which the destination cannot be used.
    pub fn needed_option(self) -> &'static str {
        match self {
            Self::Executable => "returner.executable.command",
            Self::Http => "returner.http.url",
            Self::Local => "returner.local.file",
            Self::Postgres => "returner.postgres.host",
            Self::Sqlite3 => "returner.sqlite3.database",
        }
    }
}

impl fmt::Display for ReturnerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which destinations get what, and how they are reached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReturnerConfig {
    /// `ext_job_cache`: the destinations of every job and return.
    pub ext_job_cache: Vec<ReturnerName>,
    /// `master_job_cache`: the database in which jobs are looked up that the job store of the master has no more.
    pub master_job_cache: Option<ReturnerName>,
    /// `event_return`: the destinations of events.
    pub event_return: Vec<ReturnerName>,
    /// `event_return_whitelist`: globs of the tags of these events; none for all but those of runs and batches.
    pub event_return_whitelist: Vec<String>,
    /// `event_return_blacklist`: globs of the tags of events that are left out.
    pub event_return_blacklist: Vec<String>,
    /// `returner.local.file`: the file.
    pub local_file: Option<PathBuf>,
    /// `returner.sqlite3.database`: the file.
    pub sqlite3_database: Option<PathBuf>,
    /// `returner.executable.*`.
    pub executable: ExecutableReturner,
    /// `returner.http.*`.
    pub http: HttpReturner,
    /// `returner.postgres.*`.
    pub postgres: PostgresReturner,
}

impl ReturnerConfig {
    /// Returns the destinations that can be used, by name.
    pub fn configured(&self) -> Vec<ReturnerName> {
        let all = ReturnerName::ALL.into_iter();
        all.filter(|name| self.is_configured(*name)).collect()
    }

    /// Whether a destination gets every job and return.
    pub fn gets_every_job(&self, name: ReturnerName) -> bool {
        self.ext_job_cache.contains(&name) || self.master_job_cache == Some(name)
    }

    /// Whether a destination can be used: what it needs is set.
    pub fn is_configured(&self, name: ReturnerName) -> bool {
        match name {
            ReturnerName::Executable => !self.executable.command.is_empty(),
            ReturnerName::Http => !self.http.url.is_empty(),
            ReturnerName::Local => self.local_file.is_some(),
            ReturnerName::Postgres => !self.postgres.host.is_empty(),
            ReturnerName::Sqlite3 => self.sqlite3_database.is_some(),
        }
    }
}

/// A program that takes records.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutableReturner {
    /// The program and its arguments; empty when there is none.
    pub command: Vec<String>,
    /// How long it may take for a batch. 60 s
    pub timeout: Duration,
}

impl Default for ExecutableReturner {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            timeout: Duration::from_secs(60),
        }
    }
}

/// A server of HTTP that takes records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HttpReturner {
    /// The address; empty when there is none.
    pub url: String,
    /// The value of the header `Authorization`.
    pub authorization: Option<Secret>,
    /// The file with the authorities of its certificate; none for those of the system.
    pub authorities: Option<PathBuf>,
}

/// A database of PostgreSQL that takes records.
#[derive(Debug, Clone, PartialEq)]
pub struct PostgresReturner {
    /// The name or address of the server, or the folder of its Unix socket; empty when there is none.
    pub host: String,
    /// The port. 5432
    pub port: u16,
    /// The role. `salt`
    pub user: String,
    /// Its password.
    pub passwd: Option<Secret>,
    /// The database. `salt`
    pub db: String,
    /// Which tables are used: those of Saline, or those of Salt's returner.
    pub schema: PostgresSchema,
    /// Whether TLS is used; none for where it is needed.
    pub sslmode: Option<PostgresTls>,
    /// The file with the authorities of the server's certificate; none for those of the system.
    pub authorities: Option<PathBuf>,
}

impl PostgresReturner {
    /// Returns whether TLS is used. Without `sslmode` it is, but not over a Unix socket, and on this machine only where authorities
    /// are set.
    pub fn tls(&self) -> PostgresTls {
        let is_here = matches!(self.host.as_str(), "localhost" | "127.0.0.1" | "::1");
        let is_clear = self.host.starts_with('/') || is_here && self.authorities.is_none();
        self.sslmode.unwrap_or(match is_clear {
            true => PostgresTls::Disable,
            false => PostgresTls::VerifyFull,
        })
    }
}

impl Default for PostgresReturner {
    fn default() -> Self {
        Self {
            host: String::new(),
            port: 5432,
            user: "salt".to_owned(),
            passwd: None,
            db: "salt".to_owned(),
            schema: PostgresSchema::Saline,
            sslmode: None,
            authorities: None,
        }
    }
}

/// The tables in a database of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresSchema {
    /// Those of Saline.
    Saline,
    /// Those of Salt's returner.
    Salt,
}

/// Whether a session with PostgreSQL uses TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresTls {
    /// It does not.
    Disable,
    /// It does, and the server must have a certificate for its name.
    VerifyFull,
}
