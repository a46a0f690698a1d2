//! From a command line to a running daemon.

use std::process::ExitCode;
use std::time::Duration;

use saline_config::{ConfigError, Loaded, MinionConfig};
use saline_daemon::logging::{self, Log};
use saline_daemon::{
    Arguments, InstanceLock, PidFile, Question, Signal, Signals, Supervision, Task, parse,
    print_health,
};
use saline_exec::Program;
use saline_messages::ProtocolVersions;
use saline_protocol::transport::Registry;
use tokio_util::sync::CancellationToken;
use tracing::Level;

use super::Minion;
use super::check::{check, warnings};
use super::id_file::keep_host_name;
use super::parts::take_locks;
use crate::link::settings::ConnectionSettings;
use saline_modules::{Modules, job_process};

/// What the program does, with examples.
const ABOUT: &str = "\
Runs the jobs of its Saline master. systemd runs it in the foreground:

  saline-minion --check                       whether it can start with this configuration
  saline-minion -l info                       runs it, with every step of every job in its log
  saline-minion --health                      whether it has a session with its master";

/// Returns the command line of `saline-minion`, for what is written from it.
pub fn command_line() -> clap::Command {
    saline_daemon::command_line(PROGRAM, ABOUT)
}

/// The name of the program.
const PROGRAM: &str = "saline-minion";

/// How long threads of the runtime that still run at the end may take.
const LAST: Duration = Duration::from_millis(500);

/// How long a thread that ran a function waits for the next one.
const THREAD_KEPT: Duration = Duration::from_secs(5);

/// The number of threads beside those for functions; names are looked up and files read on them.
const OTHER_THREADS: usize = 16;

/// Runs a minion with the transports of `registry`: the whole main of `saline-minion`. Reads the
/// command line of the process. Commands are started by `saline-exec` in the folder of the running program.
pub fn run(registry: Registry) -> ExitCode {
    run_with(registry, Program::beside_this_one())
}

/// As [`run`], for an executable that contains `saline-exec` and what is started as it is.
pub fn run_with(registry: Registry, program: Program) -> ExitCode {
    let arguments = match parse(PROGRAM, ABOUT, &registry, std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let loaded = match load(&arguments, &registry) {
        Ok(loaded) => loaded,
        Err(error) => return fail(&error),
    };
    match arguments.task {
        Task::Run => {}
        Task::Check => return print_check(&loaded, &registry, &program, &arguments),
        Task::Health => return print_health(PROGRAM, &loaded.config.paths.sock_dir),
    }
    // Before the log: a second instance must not write into the log of the first.
    let locks = match take_locks(&loaded.config) {
        Ok(locks) => locks,
        Err(error) => return fail(&error),
    };
    // Until the end, so that everything is written.
    let log = match logging::start(&loaded.config.logging) {
        Ok(log) => log,
        Err(error) => return fail(&error),
    };
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    if let Err(error) = program.check() {
        tracing::error!("every command will fail: {error}");
    }
    let own_processes = program.check_named(job_process::PROGRAM);
    if let Err(error) = &own_processes {
        tracing::error!("commands and changes will end with the minion: {error}");
    }
    let own_processes = own_processes.is_ok();
    saline_daemon::give_large_memory_back();
    let threads = loaded
        .config
        .process_count_max
        .saturating_add(OTHER_THREADS);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(threads)
        .thread_keep_alive(THREAD_KEPT)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let code = runtime.block_on(daemon(
        &arguments,
        loaded,
        locks,
        &registry,
        (program, own_processes),
        &log,
    ));
    runtime.shutdown_timeout(LAST);
    code
}

/// Carries out `--check`.
fn print_check(
    loaded: &Loaded<MinionConfig>,
    registry: &Registry,
    program: &Program,
    arguments: &Arguments,
) -> ExitCode {
    if let Err(error) = check(&loaded.config, registry, program) {
        return fail(&*error);
    }
    for warning in &loaded.warnings {
        logging::print_line(Level::WARN, PROGRAM, &warning);
    }
    let folder = arguments.config_dir.display();
    println!("the configuration in {folder} is valid");
    ExitCode::SUCCESS
}

/// Reads the configuration, over which the arguments of the command line go.
fn load(arguments: &Arguments, registry: &Registry) -> Result<Loaded<MinionConfig>, ConfigError> {
    let schemes: Vec<&str> = registry.schemes().collect();
    let mut loaded = MinionConfig::load(&arguments.config_dir, &schemes)?;
    loaded.check_daemon(registry)?;
    loaded.warnings.extend(warnings(&loaded.config));
    arguments.override_logging(&mut loaded.config.logging);
    if let Some(path) = &arguments.pid_file {
        loaded.config.paths.pid_file = Some(path.clone());
    }
    Ok(loaded)
}

async fn daemon(
    arguments: &Arguments,
    started: Loaded<MinionConfig>,
    locks: [InstanceLock; 2],
    registry: &Registry,
    (program, own_processes): (Program, bool),
    log: &Log,
) -> ExitCode {
    // Before anything else, so that no signal kills the minion.
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(&error),
    };
    let mut config = started.config.clone();
    if config.id.is_none() {
        match keep_host_name(&arguments.config_dir) {
            Ok(id) => config.id = Some(id),
            Err(error) => return fail(&error),
        }
    }
    let pid_file = config.paths.pid_file.clone();
    let modules = Modules::of_this_machine().with_executables(config.all_module_dirs());
    let minion = match Minion::with_locks(
        config,
        registry,
        modules,
        program,
        ProtocolVersions::OURS,
        locks,
        own_processes,
    ) {
        Ok(minion) => minion,
        Err(error) => return fail(&error),
    };
    // After the lock was taken: a second instance must not touch the file of the first.
    let _pid_file = match pid_file.as_deref().map(PidFile::write).transpose() {
        Ok(pid_file) => pid_file,
        Err(error) => return fail(&error),
    };
    let mut loaded = started.clone();
    let stop = CancellationToken::new();
    let mut supervision = Supervision::start(&started.config.paths.sock_dir);
    supervision.manager.ready();
    let mut serving = std::pin::pin!(std::sync::Arc::clone(&minion).serve(stop.clone()));
    let mut settled = std::pin::pin!(minion.has_settled());
    let mut has_settled = false;
    loop {
        tokio::select! {
            () = &mut serving => {
                supervision.end().await;
                return ExitCode::SUCCESS;
            }
            () = &mut settled, if !has_settled => {
                has_settled = true;
                saline_daemon::give_startup_pages_back();
            }
            // Everything of the minion but its functions runs on this thread, so getting here shows that it is alive.
            question = supervision.next() => match question {
                Question::Alive => supervision.manager.alive(),
                Question::Health(request) => supervision.answer(request, std::future::ready(minion.health())),
                _ => {}
            },
            signal = signals.next() => match signal {
                Signal::Report => minion.report(),
                Signal::Reload => {
                    supervision.manager.reloading();
                    let read = load(arguments, registry).map_err(|error| error.to_string());
                    // Before anything is taken over: options of transports are judged here.
                    let read = read.and_then(|new| match ConnectionSettings::of(&new.config, registry) {
                        Ok(_) => Ok(new),
                        Err(error) => Err(error.to_string()),
                    });
                    if let Some(new) = saline_daemon::reload(log, &started, &loaded, read) {
                        if let Err(error) = minion.reload(&new.config, registry) {
                            tracing::error!("the connection stays as it was: {error}");
                        }
                        loaded = new;
                    }
                    supervision.manager.ready();
                }
                _ => {
                    supervision.manager.stopping();
                    stop.cancel();
                }
            }
        }
    }
}

fn fail(error: &dyn std::error::Error) -> ExitCode {
    logging::print_line(Level::ERROR, PROGRAM, &error);
    ExitCode::FAILURE
}
