//! The main of `saline-job`: runs one function, and leaves its return.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Pid;
use saline_config::MinionConfig;
use saline_data::{Packed, Value};
use saline_messages::StartId;

use super::call::Call;
use super::control;
use super::folder::JobFolder;
use super::log_lines::{Collector, LogLines};
use super::result::{JobResult, Left};
use crate::event_queue::EventQueue;
use crate::grains::GrainStore;
use crate::job::Stop;
use crate::{Host, Modules, Outcome};

/// The exit code of a process that was not started by a minion.
const NOT_STARTED: u8 = 125;

/// The exit code of a process that ran nothing, since its job was given up.
pub(super) const GIVEN_UP: u8 = 3;

/// The exit code of a process that left its return in memory.
pub(super) const LEFT_IN_MEMORY: u8 = 4;

/// The exit code of a process whose return could be left nowhere.
pub(super) const NOT_LEFT: u8 = 5;

/// How often a process looks for room for its return.
const ROOM_CHECK: Duration = Duration::from_secs(1);

/// The lines that the function logs.
static LOG: LogLines = LogLines::new();

/// Locked while a signal of a minion is carried out and answered, and by the process when it ends.
static ANSWERING: Mutex<()> = Mutex::new(());

/// Runs the function that a minion describes over descriptor 0, and leaves its return in the job's folder.
pub fn main() -> ExitCode {
    let detached = saline_exec::detach();
    let minion = rustix::process::getppid();
    let memory = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let listener = io::stdout().as_fd().try_clone_to_owned();
    let call = memory.map(|memory| (Call::from_memory(&memory), memory));
    let (Ok(()), Ok((Ok(call), memory)), Ok(listener)) = (detached, call, listener) else {
        eprintln!("saline-job runs one job of saline-minion, and is not started by hand");
        return ExitCode::from(NOT_STARTED);
    };
    // Held until the end of the process.
    let Ok(Some(_lock)) = call.folder.claim() else {
        return ExitCode::from(GIVEN_UP);
    };
    let folder = call.folder.clone();
    if folder.begin().is_err() {
        return ExitCode::from(GIVEN_UP);
    }
    let result = run(call, UnixListener::from(listener));
    let left = leave(&result, &folder, &memory, minion);
    // The answer to the signal that ended the function may still be on its way.
    let _answered = ANSWERING.lock().unwrap_or_else(PoisonError::into_inner);
    match left {
        Ok(Left::InFile) => ExitCode::SUCCESS,
        Ok(Left::InMemory) => ExitCode::from(LEFT_IN_MEMORY),
        Err(_) => ExitCode::from(NOT_LEFT),
    }
}

/// Leaves the return. Without the minion that started this process nobody would read it in memory, and the next one reads files: waits until
/// one of the folders has room, or the folder of the job is removed.
fn leave(
    result: &JobResult,
    folder: &JobFolder,
    memory: &File,
    minion: Option<Pid>,
) -> io::Result<Left> {
    loop {
        let left = result.leave(folder, memory);
        let is_alone = rustix::process::getppid() != minion;
        if matches!(left, Ok(Left::InFile)) || !is_alone || folder.identity().is_err() {
            return left;
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "nothing tells when a file system has room again"
        )]
        std::thread::sleep(ROOM_CHECK);
    }
}

/// Runs the function.
fn run(call: Call, listener: UnixListener) -> JobResult {
    // Nothing has set one before.
    let _ = tracing::subscriber::set_global_default(Collector(&LOG));
    let grains = GrainStore::fixed(call.id.clone(), call.grains.unpack().unwrap_or_default());
    // No function here fires events: those that do run in the minion's process.
    let events = EventQueue::without_master(call.id, StartId([0; 16]));
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => {
            let text = Value::from(format!("ERROR: cannot create an eventfd: {error}"));
            return JobResult {
                retcode: 1,
                payload: Packed::pack(&text),
                log: LOG.take(),
                described: None,
            };
        }
    };
    let mut config = MinionConfig::default();
    config.paths.cache_dir = call.cache_dir;
    config.max_message_size = call.max_message;
    config.output_file_size = call.output_file_size;
    let host = Host::new(&config, grains, events, None, stop, call.launcher);
    // Nothing has set it before.
    let _ = host.prepared.set(call.prepared);
    let modules = Modules::for_call(&call.job.fun).with_executables(call.module_dirs);
    let was_described = call.described.is_some();
    if let Some(described) = call.described {
        modules.executables.learn(described);
    }
    let entered = host.running.enter(call.job.running_job());
    let control = entered.shared_control();
    // Nobody knows of this job before it listens, so nothing has asked it to end.
    let _ = control.begin();
    {
        let control = Arc::clone(&control);
        // It ends with the process.
        std::thread::spawn(move || control::serve(&listener, &control, &ANSWERING));
    }
    let fun = &call.job.fun;
    let outcome = match call.arguments.unpack() {
        Ok(arguments) => modules.call_hiding(fun, arguments, &call.hidden, &host, &control),
        Err(error) => Outcome::new(format!("ERROR executing '{fun}': {error}"), 1),
    };
    let (retcode, payload) = outcome.pack(fun, &host);
    let described = modules.executables.described(fun);
    JobResult {
        retcode,
        payload,
        log: LOG.take(),
        described: described.filter(|_| !was_described),
    }
}
