//! The command line.

use clap::{Parser, Subcommand};

use crate::http::HttpArguments;
use crate::runners::RunnersArguments;
use crate::system::SystemArguments;
use crate::targets::TargetsArguments;
use crate::transports::TransportsArguments;

/// Measures Saline.
#[derive(Debug, Parser)]
#[command(name = "saline-bench", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The measurement to make.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Each transport through the contract, beside the bare library doing the same work
    ///
    /// Requests: so many outstanding on one client, echoed, each awaited by a task of its own; beside
    /// it stands what a bare loop reaches that hands nobody a reply. Fan-out: one publisher, so many
    /// subscribers with a connection each; the publisher is never more than 512 messages ahead of
    /// the slowest, so that both sides deliver everything. Server and clients are two processes on
    /// loopback. Ours and bare take turns; medians are printed, as operations a second and as CPU
    /// time an operation (both processes together). The whole takes some minutes, at most.
    Transports(TransportsArguments),
    /// A whole system: a master, a swarm of minions, and the command line
    ///
    /// A master and minions that share processes run on this machine, under a temporary root. Measured
    /// are the command line's `test.ping` on all of them, jobs of one client, returns, the time until
    /// all are back after the master was killed, and memory. An object a line goes to the JSON.
    System(SystemArguments),
    /// Target expressions over the grains of many minions, as a master resolves them
    ///
    /// One process and one thread: the grains are in the master's table, and each expression is parsed, and
    /// decided for every minion.
    Targets(TargetsArguments),
    /// Runners that search a job store with many returns
    ///
    /// A store is filled under the folder for temporary files (about 200 MB for a million returns, and removed
    /// again). Then a master and an operator's client in this process run `jobs.list_jobs` with its filters, and
    /// others: the times are those of the client, for the whole run.
    Runners(RunnersArguments),
    /// The HTTP API: logins, job starts and events a second
    ///
    /// A master, a minion and saline-api run on this machine, under a temporary root; the clients are this process, over
    /// loopback. Measured are logins by two ways, requests by token, starts of jobs beside as many through saline-client, and
    /// events to listeners of /events. An object a line goes to the JSON.
    Http(HttpArguments),
    /// The clients' process of a measurement
    #[command(hide = true)]
    ClientProcess {
        /// The measurement and its endpoint.
        spec: String,
    },
}
