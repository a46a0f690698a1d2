//! Several processes for one swarm, where one may not open enough descriptors.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Resource, getrlimit};
use saline_daemon::{Signal, Signals};
use saline_testing::Programs;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::arguments::SwarmArguments;
use crate::Result;

/// Descriptors of a process beside those of its minions.
const OTHERS: usize = 200;

/// A part of the swarm: its first minion and how many they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) first: usize,
    pub(super) minions: usize,
}

/// The descriptors of one minion: its locks, its spool, the one that stops functions, and its
/// connections. A libzmq socket has several, and while a minion reconnects it has those of both attempts.
fn descriptors_of(transport: &str) -> usize {
    match transport {
        "zeromq" => 32,
        _ => 8,
    }
}

/// Divides the swarm into processes.
pub(super) fn shares(arguments: &SwarmArguments) -> Vec<Share> {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let most = limit.saturating_sub(OTHERS) / descriptors_of(&arguments.transport);
    let each = arguments.each.unwrap_or(most).min(most).max(1);
    match arguments.is_share {
        true => Vec::new(),
        false => divide(arguments.first, arguments.minions, each),
    }
}

/// Divides `minions` from `first` on into shares of almost the same size, of at most `each`.
fn divide(first: usize, minions: usize, each: usize) -> Vec<Share> {
    let count = minions.div_ceil(each);
    let start = |share: usize| first + share * minions / count;
    (0..count)
        .map(|share| Share {
            first: start(share),
            minions: start(share + 1) - start(share),
        })
        .collect()
}

/// Runs a process for each share until a signal.
pub(super) async fn run(arguments: &SwarmArguments, root: &Path, shares: &[Share]) -> Result<()> {
    let mut signals = Signals::new()?;
    let started: Result<Vec<Child>> = shares
        .iter()
        .map(|share| Ok(start(arguments, root, *share, shares.len())?))
        .collect();
    let mut running = JoinSet::new();
    let mut inputs = Vec::new();
    for mut child in started? {
        inputs.push(child.stdin.take());
        running.spawn(async move { child.wait().await });
    }
    tokio::select! {
        ended = running.join_next() => {
            if let Some(ended) = ended {
                return Err(format!("a part of the swarm ended with {}", ended??).into());
            }
        }
        () = async { while signals.next().await != Signal::Terminate {} } => {}
    }
    // The end of their standard input ends them.
    drop(inputs);
    while let Some(ended) = running.join_next().await {
        let status = ended??;
        if !status.success() {
            return Err(format!("a part of the swarm ended with {status}").into());
        }
    }
    Ok(())
}

/// Starts the process of one share of so many.
fn start(
    arguments: &SwarmArguments,
    root: &Path,
    share: Share,
    shares: usize,
) -> std::io::Result<Child> {
    let mut command = Command::from(Programs::this()?.command("saline-swarm"));
    let mut options = arguments.options;
    options.start_rate = options
        .start_rate
        .map(|rate| u32::try_from(shares).map_or(rate, |shares| rate / f64::from(shares)));
    command.args(options.arguments());
    if !arguments.servers.is_empty() {
        let servers: Vec<String> = arguments.servers.iter().map(ToString::to_string).collect();
        command
            .args(["--servers", &servers.join(",")])
            .args(["--subject", &arguments.subject]);
    }
    command
        .args(["--share", "--transport", &arguments.transport])
        .args(["--master", &arguments.master.to_string()])
        .args(["--name", &arguments.name])
        .args(["--first", &share.first.to_string()])
        .args(["--minions", &share.minions.to_string()])
        .args(["--workers", &arguments.workers.to_string()])
        .arg("--root")
        .arg(root)
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// Resolves when the process that started this one has closed its standard input, or is gone.
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
pub(super) async fn parent_gone() {
    let mut buffer = [0; 64];
    let mut input = tokio::io::stdin();
    while matches!(input.read(&mut buffer).await, Ok(read) if read > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_the_swarm_once_and_none_is_too_large() {
        for (minions, each) in [(1, 1), (10, 3), (10_000, 3_300), (7, 100), (9, 3)] {
            let shares = divide(5, minions, each);
            let mut next = 5;
            for share in &shares {
                assert_eq!(share.first, next);
                assert!((1..=each).contains(&share.minions), "{share:?}");
                next += share.minions;
            }
            assert_eq!(next, 5 + minions);
        }
    }
}
