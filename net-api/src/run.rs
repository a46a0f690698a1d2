//! The daemon: arguments, configuration, log, signals.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use saline_client::ParametersOf;
use saline_client::transport::{Clock, Context, Limits, Registry};
use saline_config::RestCherrypyConfig;
use saline_daemon::logging::{self, Log};
use saline_daemon::{
    Arguments, Health, InstanceLock, PidFile, Question, Reloaded, Signal, Signals, Supervision,
    Task, check_metrics_address, check_pid_file, serve_metrics,
};
use tracing::Level;

use crate::api::Api;
use crate::configuration::Configuration;
use crate::endpoints;
use crate::listener;
use crate::master_connection::MasterConnection;
use crate::settings;
use crate::tls::Certificate;

/// How long a stopping API goes on with the requests that it has begun. The three times together are less than the service
/// manager's `TimeoutStopSec`.
const DRAIN: Duration = Duration::from_secs(6);

/// How long a stopping API may take to end the logins of the requests that it did not answer.
const LOG_OUT: Duration = Duration::from_secs(2);

/// How long a stopping API may take to end what is left then.
const SHUTDOWN: Duration = Duration::from_secs(4);

/// What the program does, with examples.
const ABOUT: &str = "\
Serves the master's HTTP API, as rest_cherrypy of the configuration says. systemd runs it in the foreground:

  saline-api --check                          whether it can start with this configuration
  saline-api -l info                          runs it, with every request in its log
  saline-api --health                         how the running API is";

/// The name of the program.
const PROGRAM: &str = "saline-api";

/// Returns the command line of `saline-api`, for what is written from it.
pub fn command_line() -> clap::Command {
    saline_daemon::command_line(PROGRAM, ABOUT)
}

/// Runs the HTTP API with the transports of `registry` until it is told to end: the whole of a `saline-api`'s main. The arguments
/// of secret parameters are secret without being asked, of functions that `parameters_of` knows. Reads the command line of the
/// process.
pub fn run(registry: Registry, parameters_of: ParametersOf) -> ExitCode {
    let arguments = match saline_daemon::parse(PROGRAM, ABOUT, &registry, std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let done = match arguments.task {
        Task::Run => start(registry, parameters_of, &arguments).map(|()| ExitCode::SUCCESS),
        Task::Check => check(&registry, &arguments),
        Task::Health => Configuration::load(&registry, &arguments)
            .map(|loaded| saline_daemon::print_health(PROGRAM, &loaded.folder()))
            .map_err(Into::into),
    };
    done.unwrap_or_else(|error| {
        logging::print_line(Level::ERROR, PROGRAM, &error);
        ExitCode::FAILURE
    })
}

/// Carries out `--check`.
fn check(registry: &Registry, arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let loaded = Configuration::load(registry, arguments)?;
    for warning in loaded.warnings() {
        logging::print_line(Level::WARN, PROGRAM, &warning);
    }
    let own_user = loaded.own_user();
    let made_before = own_user.check()?;
    check_metrics_address(loaded.metrics_listen(), &loaded.folder())?;
    if let Some(path) = loaded.pid_file(arguments) {
        check_pid_file(&path, &made_before)?;
    }
    if let Some(warning) = own_user.unreadable_again(|| Configuration::load(registry, arguments)) {
        logging::print_line(Level::WARN, PROGRAM, &warning);
    }
    settings::address(loaded.listener())?;
    certificate(loaded.listener())?;
    println!(
        "the configuration in {} is valid",
        arguments.config_dir.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn certificate(
    config: Option<&RestCherrypyConfig>,
) -> Result<Option<Arc<Certificate>>, Box<dyn Error>> {
    let files = config.and_then(|config| config.ssl.clone());
    Ok(files.map(Certificate::read).transpose()?.map(Arc::new))
}

fn start(
    registry: Registry,
    parameters_of: ParametersOf,
    arguments: &Arguments,
) -> Result<(), Box<dyn Error>> {
    let loaded = Configuration::load(&registry, arguments)?;
    // Before anything is made, so that all of it belongs to that user.
    let own_user = loaded.own_user();
    own_user.switch()?;
    let unreadable = own_user.unreadable_again(|| Configuration::load(&registry, arguments));
    let lock = InstanceLock::take(&loaded.folder().join(".lock"))?;
    let log = logging::start(loaded.logging())?;
    for warning in loaded.warnings().iter().chain(&unreadable) {
        tracing::warn!("{warning}");
    }
    saline_daemon::give_large_memory_back();
    if let Err(error) = saline_daemon::raise_descriptors() {
        tracing::warn!("the limit of open files was not raised: {error}");
    }
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(serve(
            (registry, parameters_of),
            arguments,
            loaded,
            lock,
            &log,
        ))
}

async fn serve(
    (registry, parameters_of): (Registry, ParametersOf),
    arguments: &Arguments,
    loaded: Configuration,
    _lock: InstanceLock,
    log: &Log,
) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new()?;
    let listener_config = loaded.listener().cloned();
    let address = settings::address(listener_config.as_ref())?;
    let certificate = certificate(listener_config.as_ref())?;
    let listener_config = listener_config.ok_or(settings::SettingsError::Absent)?;
    let listener = listener::bind(address).await;
    let listener =
        listener.map_err(|error| format!("rest_cherrypy: cannot listen on {address}: {error}"))?;
    let bound = listener.local_addr()?;
    let context = Context::new(Limits::default());
    let master = MasterConnection::new(loaded.clone(), registry.clone());
    let api = Api::new(master, parameters_of, &listener_config, context.child());
    let api = Arc::new(api.map_err(|error| format!("rest_cherrypy: static: {error}"))?);
    let mut supervision = Supervision::start(&loaded.folder());
    let pid_file = loaded.pid_file(arguments);
    let _pid_file = pid_file.as_deref().map(PidFile::write).transpose()?;
    serve_metrics(loaded.metrics_listen(), &context, Arc::clone(&api) as _);
    let router = endpoints::router(Arc::clone(&api));
    let (accepting, connections) = (context.child(), context.child());
    let accepted = listener::accept(
        listener,
        certificate.clone(),
        router,
        accepting.clone(),
        connections.clone(),
    );
    accepting.spawn(accepted);
    let connecting = Arc::clone(&api);
    context.spawn(async move { connecting.master.keep_connecting(&connecting.context).await });
    let scheme = if certificate.is_some() {
        "https"
    } else {
        "http"
    };
    saline_daemon::notice!("the API is served at {scheme}://{bound}");
    supervision.manager.ready();
    let mut loaded = (loaded.clone(), loaded);
    loop {
        let signal = tokio::select! {
            signal = signals.next() => signal,
            question = supervision.next() => {
                match question {
                    Question::Alive => supervision.tell_alive(async { true }),
                    Question::Health(request) => {
                        supervision.answer(request, health(Arc::clone(&api)));
                    }
                    _ => {}
                }
                continue;
            }
        };
        match signal {
            Signal::Report => {
                tracing::warn!("{} clients listen to events", api.event_streams.count());
            }
            Signal::Reload => {
                supervision.manager.reloading();
                let read = Configuration::load(&registry, arguments);
                if let Some(new) = saline_daemon::reload(log, &loaded.0, &loaded.1, read) {
                    loaded.1 = new;
                }
                read_again(certificate.as_deref());
                supervision.manager.ready();
            }
            Signal::Terminate => break,
            _ => {}
        }
    }
    supervision.manager.stopping();
    supervision.end().await;
    tracing::info!("stopping");
    drain(&api, &accepting, &connections).await;
    end(&api, &[&context, &accepting, &connections]).await;
    Ok(())
}

fn read_again(certificate: Option<&Certificate>) {
    match certificate.map(Certificate::read_again) {
        Some(Ok(())) => tracing::info!("the certificate was read again"),
        Some(Err(error)) => tracing::error!("the certificate in force stays: {error}"),
        None => {}
    }
}

/// Accepts no more, ends the event streams, and waits for the answers to the requests that were begun, and for the ends of the
/// logins of those that are cut.
async fn drain(api: &Api, accepting: &Context, connections: &Context) {
    accepting.cancel.cancel();
    api.events_context.cancel.cancel();
    connections.tracker.close();
    let drained = connections.tracker.wait();
    if Clock.deadline(Clock.after(DRAIN), drained).await.is_err() {
        tracing::warn!("some requests did not end in time, and are not answered");
        connections.cancel.cancel();
    }
    let logged_out = async {
        connections.tracker.wait().await;
        api.context.tracker.close();
        api.context.tracker.wait().await;
    };
    if Clock
        .deadline(Clock.after(LOG_OUT), logged_out)
        .await
        .is_err()
    {
        tracing::warn!("some logins were not ended in time, and stay until they expire");
    }
}

/// Ends every task, and the connection to the master.
async fn end(api: &Api, contexts: &[&Context]) {
    let own = [&api.context, &api.events_context];
    for context in contexts.iter().copied().chain(own) {
        context.cancel.cancel();
        context.tracker.close();
    }
    let ended = async {
        for context in contexts.iter().copied().chain(own) {
            context.tracker.wait().await;
        }
        api.master.shutdown().await;
    };
    if Clock.deadline(Clock.after(SHUTDOWN), ended).await.is_err() {
        tracing::warn!("some tasks did not end in time");
    }
}

/// Returns the health of the API: whether its master answers.
async fn health(api: Arc<Api>) -> Health {
    let mut health = Health::of_this_process();
    health.fact("event_streams", api.event_streams.count());
    match api.master.ping().await {
        Ok(()) => health.fact("master", "answers"),
        Err(error) => health.problem(format!("the master cannot be asked: {error}")),
    }
    health
}
