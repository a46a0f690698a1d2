//! From a command line to a running daemon.

use std::process::ExitCode;
use std::time::Duration;

use saline_config::MinionConfig;
use saline_daemon::{PidFile, Signal, Signals, logging, parse};
use saline_protocol::transport::Registry;
use tokio_util::sync::CancellationToken;

use super::Minion;
use crate::modules::Modules;

/// How long threads of the runtime that still run at the end may take.
const LAST: Duration = Duration::from_millis(500);

/// How long a thread that ran a function waits for the next one.
const THREAD_KEPT: Duration = Duration::from_secs(5);

/// The number of threads beside those for functions; names are looked up and files read on them.
const OTHER_THREADS: usize = 16;

/// Runs a minion with the transports of `registry`: the whole main of `saline-minion`. Reads the
/// command line of the process.
pub fn run(registry: Registry) -> ExitCode {
    let about = "Runs the jobs of its Saline master";
    let arguments = match parse("saline-minion", about, std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let schemes: Vec<&str> = registry.schemes().collect();
    let loaded = match MinionConfig::load(&arguments.config_dir, &schemes) {
        Ok(loaded) => loaded,
        Err(error) => return fail(&error),
    };
    if let Err(error) = loaded.check_daemon() {
        return fail(&error);
    }
    let mut config = loaded.config;
    if let Some(level) = arguments.log_level {
        config.logging.level = level;
    }
    if arguments.pid_file.is_some() {
        config.paths.pid_file = arguments.pid_file;
    }
    if let Err(error) = logging::start(&config.logging) {
        return fail(&error);
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    saline_daemon::give_large_memory_back();
    let threads = config.process_count_max.saturating_add(OTHER_THREADS);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(threads)
        .thread_keep_alive(THREAD_KEPT)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let code = runtime.block_on(daemon(config, &registry));
    runtime.shutdown_timeout(LAST);
    code
}

async fn daemon(config: MinionConfig, registry: &Registry) -> ExitCode {
    // Before anything else, so that no signal kills the minion.
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(&error),
    };
    let pid_file = config.paths.pid_file.clone();
    let minion = match Minion::new(config, registry, Modules::built_in()) {
        Ok(minion) => minion,
        Err(error) => return fail(&error),
    };
    // After the lock was taken: a second instance must not touch the file of the first.
    let _pid_file = match pid_file.as_deref().map(PidFile::write).transpose() {
        Ok(pid_file) => pid_file,
        Err(error) => return fail(&error),
    };
    let stop = CancellationToken::new();
    let mut serving = std::pin::pin!(std::sync::Arc::clone(&minion).serve(stop.clone()));
    loop {
        tokio::select! {
            () = &mut serving => return ExitCode::SUCCESS,
            signal = signals.next() => match signal {
                Signal::Report => minion.report(),
                _ => stop.cancel(),
            }
        }
    }
}

fn fail(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("saline-minion: {error}");
    ExitCode::FAILURE
}
