//! `saline-swarm`: many minions in few processes, to load a master as a fleet does.
//!
//! Each is a whole minion, with keys, a spool and a session of its own. What they share is the machine:
//! one runtime and the log. Their functions return at once.

mod arguments;
mod functions;
pub(crate) mod options;
mod processes;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use saline_config::{LogLevel, Logging, MinionConfig};
use saline_daemon::{Signal, Signals, logging};
use saline_messages::MinionId;
use saline_minion::Minion;
use saline_minion::modules::Modules;
use saline_protocol::transport::{Clock, Registry};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Result;
use arguments::SwarmArguments;
use saline_daemon::raise_descriptors;

/// Minions that are made at once: making one writes its keys.
const AT_ONCE: usize = 16;

/// How soon a minion whose key is not accepted asks again.
const ACCEPTANCE_WAIT: Duration = Duration::from_secs(1);

/// The whole of `saline-swarm`: reads `arguments` and runs minions over a transport of `registry` until
/// it is told to end.
pub fn main(arguments: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    let arguments = SwarmArguments::parse_from(arguments);
    match run(arguments, registry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("saline-swarm: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: SwarmArguments, registry: Registry) -> Result<()> {
    raise_descriptors()?;
    let arguments = arguments.check(&registry)?;
    let (_temporary, root) = match &arguments.root {
        Some(root) => (None, root.clone()),
        None => {
            let temporary = tempfile::Builder::new().prefix("saline-swarm-").tempdir()?;
            let root = temporary.path().to_owned();
            (Some(temporary), root)
        }
    };
    let _log = logging::start(&Logging {
        level: LogLevel::Error,
        ..Logging::default()
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(arguments.workers)
        .max_blocking_threads(AT_ONCE)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let shares = processes::shares(&arguments);
        match shares.len() {
            0 | 1 => serve(&arguments, &root, registry).await,
            _ => processes::run(&arguments, &root, &shares).await,
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// Runs the minions of this process until a signal, or the end of the process that started it.
async fn serve(
    arguments: &SwarmArguments,
    root: &std::path::Path,
    registry: Registry,
) -> Result<()> {
    let mut signals = Signals::new()?;
    let clock = Clock;
    let begin = clock.now();
    let registry = Arc::new(registry);
    let stop = CancellationToken::new();
    let mut serving = JoinSet::new();
    let mut making = JoinSet::new();
    let mut next = arguments.first;
    let end = arguments.first + arguments.minions;
    let pause = arguments
        .options
        .start_rate
        .map(|rate| Duration::from_secs_f64(1.0 / rate));
    let mut turn = begin;
    while next < end || !making.is_empty() {
        while next < end && making.len() < AT_ONCE {
            let config = config(arguments, root, next)?;
            let registry = Arc::clone(&registry);
            let modules = Modules::default().with("test", functions::TEST);
            making.spawn_blocking(move || Minion::new(config, &registry, modules));
            next += 1;
            if let Some(pause) = pause {
                turn += pause;
                clock.until(turn).await;
            }
        }
        if let Some(made) = making.join_next().await {
            serving.spawn(made??.serve(stop.clone()));
        }
    }
    // Who reads this may have seen enough, which is no reason to panic.
    let _ = writeln!(
        std::io::stdout(),
        "{} minions {} to {} run over {}, after {:.1} s",
        arguments.minions,
        arguments.id(arguments.first),
        arguments.id(end - 1),
        arguments.transport,
        (clock.now() - begin).as_secs_f64(),
    );
    let terminated = async { while signals.next().await != Signal::Terminate {} };
    tokio::select! {
        () = terminated => {}
        () = processes::parent_gone(), if arguments.is_share => {}
    }
    stop.cancel();
    while serving.join_next().await.is_some() {}
    Ok(())
}

/// Returns the configuration of minion `number`.
fn config(
    arguments: &SwarmArguments,
    root: &std::path::Path,
    number: usize,
) -> Result<MinionConfig> {
    let id = arguments.id(number);
    let mut config = MinionConfig::default();
    config.paths = config.paths.under(&root.join(&id));
    config.master_port = arguments.master.port;
    config.master = vec![arguments.master.clone()];
    config.transport = vec![arguments.transport.clone()];
    config
        .transport_options
        .insert(arguments.transport.clone(), arguments.section());
    config.id = Some(MinionId::parse(&id)?);
    config.acceptance_wait = ACCEPTANCE_WAIT;
    arguments.options.configure(&mut config);
    Ok(config)
}
