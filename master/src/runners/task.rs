//! The owner of runs: begins them as tasks of the master, ends them, and keeps their ends until they are read.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_functions::{BoundArguments, Failure, Function, hide_panic, take_secrets};
use saline_messages::random::NoRandomness;
use saline_messages::{
    OrderWarning, Outgoing, RequestId, RunKind, RunnerCall, RunnerEnd, Secrets, decode, encode,
};
use saline_protocol::transport::{Elapsed, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::parts::RunnerParts;
use super::run::Run;
use super::run_table::{
    MAX_ABOUT_RUNS, MAX_RUNNING, NotAdded, Phase, RunState, RunTable, SHARE_OF_ONE,
};
use super::{MasterFunctions, Returned};
use crate::authorize::{Principal, names_hook};
use crate::jobs::{CarriedOut, StoreError, StoredRun, StoredRunEnd};

/// The largest return of a run, in bytes.
pub(super) const MAX_RETURN: usize = 256 * 1024 * 1024;

/// The largest return of an asynchronous run, in bytes: it is one row of the store.
const MAX_STORED: usize = 16 * 1024 * 1024;

/// How long the end of a run can be read.
const READABLE: Duration = Duration::from_secs(60);

/// The delay before a return that the store did not take is stored again.
const STORE_AGAIN: Duration = Duration::from_secs(1);

/// How long most functions may take.
const USUAL_TIME: Duration = Duration::from_secs(60);

/// The longest time that an operator may give a run.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// The longest name of a user that is taken with a run, in bytes.
const MAX_USER: usize = 256;

/// The runs of one master. Each is a task of the master's context: a stopping master joins it.
#[derive(Debug, Clone)]
pub struct Runners {
    parts: Arc<RunnerParts>,
    table: Arc<RunTable>,
    functions: Arc<MasterFunctions>,
}

impl Runners {
    pub(crate) fn new(parts: RunnerParts) -> Self {
        Self {
            parts: Arc::new(parts),
            table: Arc::default(),
            functions: Arc::new(MasterFunctions::built_in()),
        }
    }

    /// Puts markers in the place of the arguments of secret parameters, so that rules, the audit file, events and the store see
    /// these alone. Returns the values; none if there are none.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub(crate) fn set_secrets_apart(
        &self,
        call: &mut RunnerCall,
    ) -> Result<Option<Secrets>, NoRandomness> {
        let function = self.functions.of(call.kind).get(&call.fun);
        // `begin` refuses what has no function or cannot be read.
        let (Some(function), Ok(mut arguments)) = (function, call.arg.unpack()) else {
            return Ok(None);
        };
        let values = take_secrets(&function.parameters, &mut arguments);
        let secrets = Secrets::set_apart(&mut arguments, values)?;
        if secrets.is_some() {
            call.arg = arguments.pack();
        }
        Ok(secrets)
    }

    /// Begins a run for the principal, or returns the one that the same request began. The function alone gets the values of
    /// the secrets; the notes of the run begin with the warnings.
    ///
    /// # Errors
    /// One line that says why there is no such run.
    pub(crate) fn begin(
        &self,
        principal: &Principal,
        call: RunnerCall,
        secrets: Option<Secrets>,
        warnings: Vec<OrderWarning>,
    ) -> Result<Arc<RunState>, String> {
        let operator = &*principal.owner();
        if let Some(before) = self.table.find(operator, call.request_id) {
            return Ok(before);
        }
        let (kind, fun) = (call.kind, call.fun.as_str());
        if call.user.len() > MAX_USER {
            return Err("the name of the user is too long".to_owned());
        }
        let mut arguments = call.arg.unpack().map_err(|error| error.to_string())?;
        let is_hook = names_hook(fun, &arguments);
        let hidden = Secrets::put_in(secrets.as_ref(), &mut arguments);
        let hidden = hidden.map_err(|error| error.to_string())?;
        let (function, arguments) = self.functions.bind((kind, fun), arguments, &hidden)?;
        let state = Arc::new(RunState {
            request_id: call.request_id,
            jid: self.parts.jobs.next_jid(),
            kind,
            fun: call.fun,
            arg: call.arg,
            user: call.user,
            principal: principal.clone(),
            operator: operator.to_owned(),
            phase: watch::Sender::new(Phase::Beginning),
            kill: CancellationToken::new(),
            is_kept: AtomicBool::new(call.is_async),
            is_secret: AtomicBool::new(false),
            is_hook,
        });
        let most = match function.blocks {
            true => MAX_RUNNING,
            false => MAX_RUNNING + MAX_ABOUT_RUNS,
        };
        match self.table.add(&state, most) {
            Ok(()) => {}
            Err(NotAdded::Known(before)) if before.operator == operator => return Ok(before),
            Err(NotAdded::Gone(jid)) => {
                return Err(format!(
                    "{kind} {jid} has ended, and its return is kept no longer than {} s: run {} again if need be",
                    READABLE.as_secs(),
                    state.fun
                ));
            }
            Err(refused) => {
                let (most, whose) = match refused {
                    NotAdded::TooManyOwn => (MAX_RUNNING / SHARE_OF_ONE, " of yours"),
                    _ => (MAX_RUNNING, ""),
                };
                return Err(format!(
                    "{most} runners{whose} are under way, as many as may be: wait, or end one (saline-run jobs.master, \
                     saline-run jobs.kill JID)"
                ));
            }
        }
        let usual = function.time.unwrap_or(USUAL_TIME);
        let time = call.timeout_ms.map_or(usual, Duration::from_millis);
        let task = RunTask {
            state: Arc::clone(&state),
            function: function.clone(),
            arguments,
            has_secrets: !hidden.is_empty(),
            warnings,
            time: time.min(MAX_TIME),
            parts: Arc::clone(&self.parts),
            table: Arc::clone(&self.table),
            functions: Arc::clone(&self.functions),
        };
        self.parts.context.spawn(task.run());
        Ok(state)
    }

    /// Returns the run that this request of the operator began.
    pub(crate) fn find(&self, operator: &str, request: RequestId) -> Option<Arc<RunState>> {
        self.table.find(operator, request)
    }

    /// Has the end of a run stored, also if it has ended already.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn keep(&self, state: &RunState) -> Result<(), StoreError> {
        if state.is_kept() {
            return Ok(());
        }
        store(&self.parts, state).await?;
        // In this order: either the task sees it when the run ends, or the end is seen here.
        state.is_kept.store(true, Ordering::SeqCst);
        match state.end() {
            Some(end) => store_end(&self.parts, state, &end).await,
            None => Ok(()),
        }
    }
}

/// The task of one run.
struct RunTask {
    state: Arc<RunState>,
    function: Function<Run>,
    arguments: BoundArguments,
    has_secrets: bool,
    warnings: Vec<OrderWarning>,
    time: Duration,
    parts: Arc<RunnerParts>,
    table: Arc<RunTable>,
    functions: Arc<MasterFunctions>,
}

/// Ends a run whose task goes without an end: the master stops, or the code of the function panicked.
struct StopGuard(Arc<RunState>, Arc<RunTable>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        if self.0.is_under_way() {
            self.0.phase.send_replace(Phase::Stopped);
            self.1.remove(self.0.request_id);
        }
    }
}

impl RunTask {
    /// Carries out the run, and retires it when its end has been readable for long enough.
    async fn run(self) {
        let (clock, table) = (self.parts.clock(), Arc::clone(&self.table));
        let (request_id, jid) = (self.state.request_id, self.state.jid.clone());
        // This future owns the return of the run and goes when the run has ended: from then on the table alone keeps the return.
        if let Some(readable_until) = Box::pin(self.carry_out()).await {
            clock.until(readable_until).await;
            table.retire(request_id, jid);
        }
    }

    /// Returns until when the end of the run can be read; none if it could not be begun.
    async fn carry_out(self) -> Option<Instant> {
        let (state, clock) = (Arc::clone(&self.state), self.parts.clock());
        let _guard = StopGuard(Arc::clone(&state), Arc::clone(&self.table));
        if state.is_kept()
            && let Err(error) = store(&self.parts, &state).await
        {
            tracing::error!(
                "{} {}: the job store failed: {error}",
                state.kind,
                state.jid
            );
            state.phase.send_replace(Phase::Failed(error.to_string()));
            self.table.remove(state.request_id);
            return None;
        }
        state.phase.send_replace(Phase::Running);
        tracing::info!(
            "{} {}: {} runs {}",
            state.kind,
            state.jid,
            state.principal.log_name(),
            state.fun
        );
        if !state.is_hook {
            self.parts.events.run_new(&state.report()).await;
        }
        let mut end = self.end().await;
        let encoded = Outgoing::new(encode(&end));
        state.phase.send_replace(Phase::Ended(encoded.clone()));
        self.table.trim();
        let readable_until = clock.after(READABLE);
        match &end.error {
            None => tracing::info!("{} {}: {} has ended", state.kind, state.jid, state.fun),
            Some(error) => tracing::info!(
                "{} {}: {} failed: {error}",
                state.kind,
                state.jid,
                state.fun
            ),
        }
        if state.is_secret() {
            end.payload = not_kept();
        }
        let tell = async {
            if !state.is_hook {
                self.parts.events.run_returned(&state.report(), &end).await;
            }
            drop(end);
        };
        tokio::join!(tell, self.keep_end(encoded, readable_until));
        Some(readable_until)
    }

    /// Stores the end if it is to be kept, again and again while the disk does not take it.
    async fn keep_end(&self, end: Outgoing, until: Instant) {
        let (state, clock) = (&self.state, self.parts.clock());
        let mut has_failed = false;
        while state.is_kept() {
            let Err(error) = store_end(&self.parts, state, &end).await else {
                return;
            };
            let is_final = matches!(error, StoreError::Removed) || clock.now() >= until;
            if is_final || !has_failed {
                let when = if is_final { "" } else { " yet" };
                tracing::error!(
                    "{} {}: its return is not stored{when}: {error}",
                    state.kind,
                    state.jid
                );
            }
            if is_final {
                return;
            }
            has_failed = true;
            clock.pause(STORE_AGAIN).await;
        }
    }

    /// Runs the function to its end, its time, or until it is ended.
    async fn end(&self) -> RunnerEnd {
        let (state, clock) = (&self.state, self.parts.clock());
        let deadline = clock.after(self.time);
        let run = Run::new(
            state.jid.clone(),
            (state.principal.clone(), state.user.clone()),
            deadline,
            Arc::clone(&self.parts),
            Arc::clone(&self.table),
            Arc::clone(&self.functions),
        );
        for warning in &self.warnings {
            run.note(format!("WARNING: {warning}"));
        }
        let working = async {
            if self.function.acts_once {
                self.note_begin().await?;
            }
            let mut code = (self.function.code)(&run, self.arguments.clone());
            poll_fn(|context| match self.has_secrets {
                true => hide_panic(|| code.as_mut().poll(context)),
                false => code.as_mut().poll(context),
            })
            .await
        };
        let ended = tokio::select! {
            biased;
            () = state.kill.cancelled() => Err("the run was ended before it was done".to_owned()),
            ended = clock.deadline(deadline, working) => match ended {
                Ok(Ok(returned)) => within_bounds(returned),
                Ok(Err(failure)) => Err(told(&failure, state.kind, &state.fun)),
                Err(Elapsed) => Err(format!(
                    "{} took longer than {} s and was ended; -t SECONDS gives it more time",
                    state.fun,
                    self.time.as_secs()
                )),
            },
        };
        let notes = run.take_notes();
        match ended {
            Ok(returned) => {
                state.is_secret.store(returned.is_secret, Ordering::SeqCst);
                RunnerEnd {
                    success: returned.success,
                    error: None,
                    notes,
                    payload: returned.payload,
                }
            }
            Err(error) => RunnerEnd {
                success: false,
                error: Some(error),
                notes,
                payload: Packed::pack(&Value::Null),
            },
        }
    }
}

impl RunTask {
    /// Notes on the disk that the request has begun a run.
    ///
    /// # Errors
    /// When a run of the same request was begun before this start of the master, or the store fails.
    async fn note_begin(&self) -> Result<(), Failure> {
        let request_id = self.state.request_id;
        let noted = self.parts.jobs.log_request(request_id, Vec::new());
        match noted.await? {
            CarriedOut::Now => Ok(()),
            CarriedOut::Before(_) => Err(Failure::Execution(format!(
                "the master was started again after {} had begun, and does not repeat it: look whether it was done before you run it again",
                self.state.fun
            ))),
        }
    }
}

fn within_bounds(returned: Returned) -> Result<Returned, String> {
    match returned.payload.as_bytes().len() {
        bytes if bytes > MAX_RETURN => Err(format!(
            "the return has {bytes} bytes, and a runner's may have {MAX_RETURN}"
        )),
        _ => Ok(returned),
    }
}

/// Returns why the function `fun` failed, in one line.
pub(super) fn told(failure: &Failure, kind: RunKind, fun: &str) -> String {
    match failure {
        Failure::Arguments(error) => {
            let explained = match kind {
                RunKind::Runner => "-d",
                RunKind::Wheel => "doc.wheel",
            };
            format!(
                "Passed invalid arguments to {fun}: {error} (saline-run {explained} {fun} explains them)"
            )
        }
        failure => failure.to_string(),
    }
}

/// Stores that a run has begun.
async fn store(parts: &RunnerParts, state: &RunState) -> Result<(), StoreError> {
    let run = StoredRun {
        jid: state.jid.clone(),
        kind: state.kind,
        fun: state.fun.clone(),
        arg: state.arg.clone(),
        user: state.user.clone(),
        operator: state.operator.clone(),
        end: None,
    };
    parts.jobs.store_run(run).await
}

/// Stores how a run has ended.
async fn store_end(
    parts: &RunnerParts,
    state: &RunState,
    end: &Outgoing,
) -> Result<(), StoreError> {
    let stored = stored_form(state, end)?;
    parts.jobs.end_run(&state.jid, stored).await
}

/// Returns what stands in the place of a return that is for the one alone who began the run.
fn not_kept() -> Packed {
    Packed::pack(&Value::from(
        "the return was secret, and is not kept: run this without --async",
    ))
}

/// Returns how a run has ended as it is stored. Instead of a return, a run that failed has its error.
pub(super) fn stored_form(state: &RunState, end: &Outgoing) -> Result<StoredRunEnd, StoreError> {
    let mut end: RunnerEnd =
        decode(end.bytes()).map_err(|_| StoreError::corrupt("the end of a run", "other bytes"))?;
    if state.is_secret() {
        end.payload = not_kept();
    }
    let bytes = end.payload.as_bytes().len();
    let error = end.error.or_else(|| {
        (bytes > MAX_STORED).then(|| {
            format!(
                "the return has {bytes} bytes, and at most {MAX_STORED} are stored: run this without --async"
            )
        })
    });
    Ok(match error {
        Some(error) => StoredRunEnd {
            success: false,
            payload: Packed::pack(&Value::from(error)),
        },
        None => StoredRunEnd {
            success: end.success,
            payload: end.payload,
        },
    })
}

#[cfg(test)]
mod tests;
