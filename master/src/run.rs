//! The daemon: arguments, configuration, log, signals.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use saline_config::{ConfigError, Loaded, MasterConfig};
use saline_daemon::logging::{self, Log};
use saline_daemon::{
    Arguments, InstanceLock, PidFile, Question, Signal, Signals, Supervision, Task,
};
use saline_exec::Program;
use saline_messages::ProtocolVersions;
use saline_protocol::transport::{Capabilities, Registry};
use tracing::Level;

use crate::absent_paths::absent_paths;
use crate::check::{check, own_user};
use crate::programs::Programs;
use crate::room;
use crate::runners::unknown_in_schedule;
use crate::server::{Master, take_locks};

/// How long a stopping master may take to answer the requests that it has taken.
const DRAIN: Duration = Duration::from_secs(10);

/// What the program does, with examples.
const ABOUT: &str = "\
Sends jobs to minions and stores their returns. systemd runs it in the foreground:

  saline-master --check                       whether it can start with this configuration
  saline-master -l info                       runs it, with every step of every job in its log
  saline-master --health                      how the running master is";

/// Returns the command line of `saline-master`, for what is written from it.
pub fn command_line() -> clap::Command {
    saline_daemon::command_line(PROGRAM, ABOUT)
}

/// The name of the program.
const PROGRAM: &str = "saline-master";

/// Runs a master with the transports of `registry` until it is told to end: the whole of a
/// `saline-master`'s main. Reads the command line of the process.
///
/// ```no_run
/// # use saline_protocol::transport::Registry;
/// # fn my_registry() -> Registry { Registry::new() }
/// fn main() -> std::process::ExitCode {
///     saline_master::run(my_registry())
/// }
/// ```
pub fn run(registry: Registry) -> ExitCode {
    run_with(registry, Program::beside_this_one())
}

/// As [`run`], for an executable that contains `saline-exec` and `saline-render`.
pub fn run_with(registry: Registry, program: Program) -> ExitCode {
    let arguments = match saline_daemon::parse(PROGRAM, ABOUT, &registry, std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let done = match arguments.task {
        Task::Run => start(&registry, program, &arguments).map(|()| ExitCode::SUCCESS),
        Task::Check => print_check(&registry, &arguments),
        Task::Health => print_health_of(&registry, &arguments),
    };
    done.unwrap_or_else(|error| {
        logging::print_line(Level::ERROR, PROGRAM, &error);
        ExitCode::FAILURE
    })
}

/// Carries out `--check`.
fn print_check(registry: &Registry, arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    for warning in check(
        registry,
        || load(registry, arguments),
        arguments.pid_file.as_deref(),
    )? {
        logging::print_line(Level::WARN, PROGRAM, &warning);
    }
    println!(
        "the configuration in {} is valid",
        arguments.config_dir.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Carries out `--health`.
fn print_health_of(registry: &Registry, arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let paths = load(registry, arguments)?.config.paths;
    Ok(saline_daemon::print_health(PROGRAM, &paths.sock_dir))
}

/// Reads the configuration, over which the arguments of the command line go.
fn load(registry: &Registry, arguments: &Arguments) -> Result<Loaded<MasterConfig>, ConfigError> {
    let schemes: Vec<&str> = registry.schemes().collect();
    let mut loaded = MasterConfig::load(&arguments.config_dir, &schemes)?;
    loaded.check_daemon(registry)?;
    loaded.read_assignments(&arguments.config_dir)?;
    loaded.options = saline_daemon::options_to_show(loaded.options, registry);
    loaded.config.options = loaded.options.clone();
    let unknown = unknown_in_schedule(&loaded.config.schedule.jobs);
    loaded.warnings.extend(unknown);
    loaded.warnings.extend(absent_paths(&loaded.config));
    arguments.override_logging(&mut loaded.config.logging);
    Ok(loaded)
}

fn start(
    registry: &Registry,
    program: Program,
    arguments: &Arguments,
) -> Result<(), Box<dyn Error>> {
    let mut loaded = load(registry, arguments)?;
    let programs = Programs::start(program, &loaded.config)?;
    // Before anything is made, so that all of it belongs to that user.
    let own_user = own_user(&loaded.config);
    own_user.switch()?;
    let unreadable = own_user.unreadable_again(|| load(registry, arguments));
    loaded.warnings.extend(unreadable);
    // Before the log: a second instance must not write into the log of the first.
    let locks = take_locks(&loaded.config)?;
    let log = logging::start(&loaded.config.logging)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    saline_daemon::give_large_memory_back();
    if let Err(error) = saline_daemon::raise_descriptors() {
        tracing::warn!("the limit of open files was not raised: {error}");
    }
    tracing::info!(
        "{}",
        room::told(
            &loaded.config,
            saline_daemon::connection_descriptors(),
            &network_transports(&loaded.config, registry)
        )
    );
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = loaded.config.worker_threads {
        runtime.worker_threads(threads);
    }
    runtime
        .enable_all()
        .build()?
        .block_on(serve(registry, programs, arguments, loaded, locks, &log))
}

/// Returns the transports that the master serves minions over, with what each can do.
fn network_transports(config: &MasterConfig, registry: &Registry) -> Vec<(String, Capabilities)> {
    let names = match config.transport.is_empty() {
        true => {
            let default = registry.network_default().ok();
            default.map(str::to_owned).into_iter().collect()
        }
        false => config.transport.clone(),
    };
    let able = |name: String| {
        let transport = registry.get(&name).ok()?;
        Some((name, transport.capabilities()))
    };
    names.into_iter().filter_map(able).collect()
}

async fn serve(
    registry: &Registry,
    programs: Programs,
    arguments: &Arguments,
    started: Loaded<MasterConfig>,
    locks: [InstanceLock; 2],
    log: &Log,
) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new()?;
    let pid_file = arguments.pid_file.clone();
    let pid_file = pid_file.or(started.config.paths.pid_file.clone());
    let versions = ProtocolVersions::OURS;
    // Before the log says that the master is up: who reads that may ask for its health.
    let mut supervision = Supervision::start(&started.config.paths.sock_dir);
    let master =
        Master::start_locked(started.config.clone(), registry, programs, versions, locks).await?;
    let mut loaded = started.clone();
    let _pid_file = pid_file.as_deref().map(PidFile::write).transpose()?;
    supervision.manager.ready();
    loop {
        let signal = tokio::select! {
            signal = signals.next() => signal,
            question = supervision.next() => {
                match question {
                    Question::Alive => supervision.tell_alive(master.is_alive()),
                    Question::Health(request) => supervision.answer(request, master.health()),
                    _ => {}
                }
                continue;
            }
        };
        match signal {
            Signal::Report => master.report().await,
            Signal::Reload => {
                supervision.manager.reloading();
                let read = load(registry, arguments);
                if let Some(mut new) = saline_daemon::reload(log, &started, &loaded, read) {
                    new.config.options = new.options_in_force(&started);
                    master.reload(&new.config);
                    loaded = new;
                }
                supervision.manager.ready();
            }
            Signal::Terminate => break,
            _ => {}
        }
    }
    supervision.manager.stopping();
    supervision.end().await;
    tracing::info!("stopping");
    master.shutdown(DRAIN).await;
    Ok(())
}
