//! The command line of `saline-swarm`.

use std::path::PathBuf;

use clap::Parser;
use saline_protocol::transport::{HostPort, OptionValue, Registry};

use super::options::SwarmOptions;
use crate::Result;

/// Runs many minions in few processes, to load a master as a fleet does
///
/// Each is a whole minion, with keys, a spool and a session of its own. The master has to accept their
/// keys, as with auto_accept. They stop when the swarm is interrupted or terminated.
#[derive(Debug, Clone, Parser)]
#[command(name = "saline-swarm", version)]
pub(super) struct SwarmArguments {
    /// The number of minions
    #[arg(long, value_name = "N")]
    pub(super) minions: usize,
    /// The transport of the minions
    #[arg(long, value_name = "NAME", default_value = "tcp")]
    pub(super) transport: String,
    /// Where the master takes requests
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub(super) master: HostPort,
    /// The servers of NATS, where the transport is nats
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', value_parser = host_port)]
    pub(super) servers: Vec<HostPort>,
    /// What the subjects of the master begin with, where the transport is nats
    #[arg(long, value_name = "TEXT", default_value = "saline")]
    pub(super) subject: String,
    /// Keep keys and spools in this folder, and use those that are there; a temporary one otherwise
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
    /// The prefix of the minions' ids
    #[arg(long, value_name = "TEXT", default_value = "swarm-")]
    pub(super) name: String,
    /// The number in the first id
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) first: usize,
    /// Threads of the runtime, in each process
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) workers: usize,
    /// The minions of one process; as many as its limit of descriptors allows otherwise
    #[arg(long, value_name = "N")]
    pub(super) each: Option<usize>,
    #[command(flatten)]
    pub(super) options: SwarmOptions,
    /// This is a share of a larger swarm, and ends when its standard input does
    #[arg(long = "share", hide = true)]
    pub(super) is_share: bool,
}

/// The transport whose minions reach their master through servers.
pub(super) const NATS: &str = "nats";

fn host_port(text: &str) -> Result<HostPort, String> {
    let parsed = text.rsplit_once(':').and_then(|(host, port)| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok().filter(|&port: &u16| port > 0)?;
        (!host.is_empty()).then(|| HostPort::new(host, port))
    });
    parsed.ok_or_else(|| "a host and a port, as 127.0.0.1:4506".to_owned())
}

impl SwarmArguments {
    /// Returns the arguments, if they make sense.
    ///
    /// # Errors
    /// When the transport is not built in, or a number makes no sense.
    pub(super) fn check(self, registry: &Registry) -> Result<Self> {
        registry.get(&self.transport)?;
        if self.minions == 0 || self.workers == 0 || self.each == Some(0) {
            return Err("every number is at least 1".into());
        }
        self.options.check()?;
        if (self.transport == NATS) == self.servers.is_empty() {
            return Err(
                "--servers names the servers of NATS, and belongs to --transport nats".into(),
            );
        }
        Ok(self)
    }

    /// Returns the section of the transport in the file of a minion.
    pub(super) fn section(&self) -> Vec<(String, OptionValue)> {
        if self.transport != NATS {
            return Vec::new();
        }
        let servers = self.servers.iter().map(ToString::to_string).collect();
        vec![
            ("servers".to_owned(), OptionValue::List(servers)),
            (
                "subject".to_owned(),
                OptionValue::Text(self.subject.clone()),
            ),
        ]
    }

    /// Returns the id of minion `number`.
    pub(super) fn id(&self, number: usize) -> String {
        format!("{}{number:05}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_is_a_host_and_a_port() {
        assert_eq!(host_port("salt:4506"), Ok(HostPort::new("salt", 4506)));
        assert_eq!(host_port("[::1]:4506"), Ok(HostPort::new("::1", 4506)));
        for wrong in ["", "salt", "salt:", ":4506", "salt:0", "salt:70000"] {
            assert!(host_port(wrong).is_err(), "{wrong}");
        }
    }
}
