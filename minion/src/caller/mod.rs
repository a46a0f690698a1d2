//! Calls a function on this machine without a job, for `saline-call`. A minion may be running beside it.

mod error;
mod master;
mod master_questions;

use std::sync::Arc;

use saline_config::MinionConfig;
use saline_daemon::{Signal, Signals};
use saline_data::Value;
use saline_exec::{Launcher, Program};
use saline_messages::{MinionId, StartId};
use saline_protocol::transport::{Clock, Context, Registry};

use saline_modules::Host;
use saline_modules::event_queue::EventQueue;
use saline_modules::grains::{GrainStore, host_name};
use saline_modules::job::{Running, RunningJob, Stop};
use saline_modules::{Modules, Outcome};

use crate::call::Call;
pub use crate::call::CallRequest;
use crate::own_jid::OwnJids;

pub use error::CallError;
use master::CallerSession;
use master_questions::MasterQuestions;

/// The return of a function that was called, and whether the master has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// The value.
    pub value: Value,
    /// The retcode; 0 for success.
    pub retcode: i64,
    /// Why the master does not have the return or the events, in one line.
    pub delivery_error: Option<String>,
}

/// Calls a function of `modules` with the configuration of the minion on this machine. With a registry the
/// call begins with a session with the minion's master, which gets the return and the events; without one
/// no master is asked. SIGINT and SIGTERM end the function.
///
/// # Errors
/// See [`CallError`]; the function was not called, or it was interrupted.
///
/// # Cancel safety
/// When the future is dropped, the function goes on to its end on a thread of its own.
pub async fn call(
    config: &MinionConfig,
    registry: Option<&Registry>,
    modules: Modules,
    request: CallRequest,
) -> Result<Called, CallError> {
    let call = Arc::new(Call::new(&modules, request)?);
    let mut signals = Signals::new().map_err(CallError::Signals)?;
    let id = match &config.id {
        Some(id) => id.clone(),
        None => MinionId::parse(&host_name())?,
    };
    let mut master = match registry {
        Some(registry) => Some(CallerSession::make(config, &id, registry).await?),
        None => None,
    };
    if let Some(master) = &master
        && let Err(error) = master.check_returners(&call.request.returners).await
    {
        master.leave().await;
        return Err(error);
    }
    let context = Context::default();
    let host = Arc::new(host(config, &id, master.is_some())?);
    let mut questions = MasterQuestions::default();
    if master.is_some() {
        questions = MasterQuestions::of(&host);
    }
    let running = {
        let (host, call) = (Arc::clone(&host), Arc::clone(&call));
        context.spawn_blocking(move || run(&call, &host, &modules))
    };
    tokio::pin!(running);
    let mut interrupted = false;
    let outcome = loop {
        tokio::select! {
            outcome = &mut running => {
                // The function's own panics are its return.
                break outcome.map_err(|_| CallError::Interrupted)?;
            },
            signal = signals.next() => {
                if signal == Signal::Terminate {
                    interrupted = true;
                    host.stop.raise();
                    // A function that waits for an answer does so no longer.
                    questions = MasterQuestions::default();
                }
            }
            () = questions.answer_next(master.as_mut(), &host) => {}
        }
    };
    let delivery_error = match master {
        Some(mut master) if !interrupted => {
            let told = master.tell(&host, call.returned(&outcome)?).await;
            master.leave().await;
            told.err().map(|error| error.to_string())
        }
        Some(master) => {
            master.leave().await;
            None
        }
        None => None,
    };
    if interrupted {
        return Err(CallError::Interrupted);
    }
    Ok(Called {
        value: outcome.value,
        retcode: outcome.retcode,
        delivery_error,
    })
}

/// Creates the host that the function uses. It has no spool, which belongs to the running minion.
fn host(config: &MinionConfig, id: &MinionId, has_master: bool) -> Result<Host, CallError> {
    let start = StartId::random()?;
    let events = match has_master {
        true => EventQueue::new(id.clone(), start),
        false => EventQueue::without_master(id.clone(), start),
    };
    Ok(Host::new(
        config,
        GrainStore::collect(id.clone(), config),
        events,
        None,
        Stop::new().map_err(CallError::Eventfd)?,
        Launcher::new(Program::beside_this_one(), config.pass_environment.clone()),
    ))
}

/// Runs the function of a call on this thread.
fn run(call: &Call, host: &Host, modules: &Modules) -> Outcome {
    let CallRequest {
        fun,
        arguments,
        user,
        ..
    } = &call.request;
    let entered = Running::default().enter(RunningJob {
        jid: OwnJids::default().next(Clock),
        fun: fun.clone(),
        arg: arguments.to_salt(),
        target: String::new(),
        target_kind: "list",
        user: user.clone(),
        pid: std::process::id(),
    });
    // No other job can know of this call, so nothing has asked it to end.
    let _ = entered.control().begin();
    if !host.grains_dirs.is_empty() {
        host.refresh_grains(entered.control());
    }
    call.run(host, modules, entered.control())
}

#[cfg(test)]
mod tests {
    use saline_functions::{Secret, function};
    use saline_messages::Arguments;

    use super::*;
    use saline_modules::JobContext;

    const SECRET: &str = "correct-horse-battery";

    /// Opens a vault.
    #[function]
    fn open(_: &JobContext<'_>, name: String, password: Secret<String>) -> bool {
        name == "v" && password.reveal() == SECRET
    }

    #[test]
    fn a_secret_reaches_the_function_and_not_the_master() {
        let modules = Modules::built_in().with("vault", &[&OPEN]);
        let id = MinionId::parse("m1").unwrap();
        let host = host(&MinionConfig::default(), &id, false).unwrap();
        for (positional, named) in [(vec!["v", SECRET], None), (vec!["v"], Some(SECRET))] {
            let named = named.map(|value| ("password".to_owned(), Value::from(value)));
            let request = CallRequest {
                fun: "vault.open".to_owned(),
                arguments: Arguments {
                    positional: positional.into_iter().map(Value::from).collect(),
                    named: named.into_iter().collect(),
                },
                user: "root".to_owned(),
                returners: Vec::new(),
            };
            let call = Call::new(&modules, request).unwrap();
            let outcome = run(&call, &host, &modules);
            assert_eq!(outcome.value, Value::Bool(true));
            let returned = format!("{:?}", call.returned(&outcome).unwrap().arg.unpack());
            assert!(!returned.contains(SECRET), "{returned}");
            assert!(returned.contains("__secret__"), "{returned}");
        }
    }
}
