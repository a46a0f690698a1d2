//! Carries out what a file of the reactor orders.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use saline_data::printable::number_of;
use saline_data::{Packed, Value};
use saline_messages::{
    Jid, MAX_METADATA, PublishRequest, RequestId, RunKind, RunnerCall, RunnerEnd, decode,
};
use tokio::sync::OwnedSemaphorePermit;

use super::chains::{Chain, FILES, METADATA};
use super::{HeldEvent, Reactor};
use crate::authorize::Principal;
use crate::reactions::{Act, Block};
use crate::runners::{Phase, RunState};

/// The event to which a file reacts, and what came before it.
#[derive(Clone, Copy)]
pub(super) struct Cause<'a> {
    pub(super) tag: &'a str,
    pub(super) number: i64,
    /// The chain of what is ordered.
    pub(super) chain: &'a Chain,
    /// The event in memory.
    pub(super) held: &'a Arc<HeldEvent>,
}

/// What came of an order.
#[derive(Debug)]
pub(super) enum Done {
    Published(Option<Jid>, usize),
    Begun(Jid),
    /// A run of a wheel has ended.
    Ended(Jid),
    /// A run waits for its turn; a line of its own tells when it begins.
    RunWaits,
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Published(Some(jid), minions) => {
                write!(f, "job {jid} for {}", number_of(*minions, "minion"))
            }
            Self::Published(None, _) => f.write_str("no minion matched"),
            Self::Begun(jid) => write!(f, "runner {jid}"),
            Self::Ended(jid) => write!(f, "wheel {jid}"),
            Self::RunWaits => f.write_str("the runner waits for its turn"),
        }
    }
}

/// Returns the id of the request that a block of a file makes because of an event. The same event gives the same id, so
/// that an order is carried out once though the event is read again after a restart.
fn request_id((tag, number): (&str, i64), file: &str, place: usize) -> RequestId {
    let mut context = Context::new(&SHA256);
    for part in [
        "saline reaction".as_bytes(),
        &number.to_be_bytes(),
        tag.as_bytes(),
        file.as_bytes(),
        &(place as u64).to_be_bytes(),
    ] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut id = [0; 16];
    id.copy_from_slice(&context.finish().as_ref()[..16]);
    RequestId(id)
}

impl Reactor {
    /// Carries out a block of a file, the one with this place in it.
    ///
    /// # Errors
    /// Why it is not carried out, in one line.
    pub(super) async fn carry_out(
        self: &Arc<Self>,
        cause: Cause<'_>,
        file: &str,
        (place, block): (usize, &Block),
    ) -> Result<Done, String> {
        let principal = Principal::Reaction(file.to_owned());
        let request_id = request_id((cause.tag, cause.number), file, place);
        match &block.act {
            Act::Job {
                target,
                fun,
                arguments,
            } => {
                let request = PublishRequest {
                    arg: arguments.pack(),
                    metadata: metadata(cause, &block.name),
                    ..PublishRequest::new(
                        request_id,
                        target.clone(),
                        fun.clone(),
                        principal.owner(),
                    )
                };
                let published = self.publish.carry_out(&principal, request).await;
                let published = published.map_err(|error| error.to_string())?;
                if let Some(jid) = &published.jid {
                    self.chains.note(jid, cause.chain);
                }
                Ok(Done::Published(published.jid, published.minions.len()))
            }
            Act::Run {
                kind,
                fun,
                arguments,
            } => {
                let mut call = RunnerCall {
                    request_id,
                    kind: *kind,
                    fun: fun.clone(),
                    arg: arguments.pack(),
                    user: principal.owner(),
                    timeout_ms: None,
                    // The job store keeps the return, since nobody waits for it.
                    is_async: true,
                };
                let secrets = self.runners.set_secrets_apart(&mut call);
                let secrets = secrets.map_err(|error| error.to_string())?;
                let warnings = self.decisions.decide_run(&principal, &call).await?;
                let (this, chain) = (Arc::clone(self), Arc::clone(cause.chain));
                let begin = move || {
                    let run = this.runners.begin(&principal, call, secrets, warnings)?;
                    this.chains.note(&run.jid, &chain);
                    Ok(run)
                };
                if *kind == RunKind::Wheel {
                    return self.wait_for_wheel(begin).await;
                }
                let this = Arc::clone(self);
                let begin = move |place: OwnedSemaphorePermit| {
                    let run = begin()?;
                    let jid = run.jid.clone();
                    this.context.spawn(async move {
                        run.ended().await;
                        drop(place);
                    });
                    Ok(jid)
                };
                // Few at a time, so that reactions leave room for the runners of operators.
                if let Ok(place) = Arc::clone(&self.runs).try_acquire_owned() {
                    return begin(place).map(Done::Begun);
                }
                self.begin_later(cause.held, file, &block.name, begin).await;
                Ok(Done::RunWaits)
            }
        }
    }

    /// Begins a run of a wheel and waits for its end: the next block finds the keys as this one leaves them. Wheels take
    /// moments and have places of their own, so that no slow runner delays a decision about a key.
    ///
    /// # Errors
    /// Why the run was not begun, or why it failed.
    async fn wait_for_wheel(
        &self,
        begin: impl FnOnce() -> Result<Arc<RunState>, String>,
    ) -> Result<Done, String> {
        // The semaphore is never closed.
        let _place = self.wheels.acquire().await;
        let run = begin()?;
        run.ended().await;
        let phase = run.phase.borrow().clone();
        let end = match phase {
            Phase::Ended(end) => end,
            Phase::Failed(why) => return Err(why),
            Phase::Beginning | Phase::Running | Phase::Stopped => {
                return Err(format!("wheel {}: the master stops", run.jid));
            }
        };
        let end: RunnerEnd = decode(end.bytes()).map_err(|error| error.to_string())?;
        match end.error {
            None => Ok(Done::Ended(run.jid.clone())),
            Some(why) => Err(why),
        }
    }
}

impl Reactor {
    /// Begins a run when it has its turn. While fewer than [`MAX_WAITING_RUNS`](super::MAX_WAITING_RUNS) wait, later events are not
    /// delayed. The cursor on the disk waits for the run, so the next start of the master orders it again.
    async fn begin_later(
        self: &Arc<Self>,
        held: &Arc<HeldEvent>,
        file: &str,
        block: &str,
        begin: impl FnOnce(OwnedSemaphorePermit) -> Result<Jid, String> + Send + 'static,
    ) {
        let room = Arc::clone(&self.waiting_runs).acquire_owned().await;
        held.wait_for_more();
        let (this, held) = (Arc::clone(self), Arc::clone(held));
        let (file, name) = (file.to_owned(), format!("{file}, block {block:?}"));
        self.context.spawn(async move {
            // The semaphore is never closed.
            let Ok(place) = Arc::clone(&this.runs).acquire_owned().await else {
                return;
            };
            drop(room);
            match begin(place) {
                Ok(jid) => tracing::info!("reactor: {name}: runner {jid} has its turn"),
                Err(why) => this.complain(&file, || {
                    format!("reactor: {name}: the runner that waited failed: {why}")
                }),
            }
            held.done();
        });
    }
}

/// Returns the metadata of the job of a block: the event that caused it, and the files from whose orders the job came.
fn metadata(cause: Cause<'_>, block: &str) -> Option<Packed> {
    let reaction = Value::map([
        ("block", Value::from(block)),
        ("event", Value::from(cause.tag)),
        ("number", Value::Int(cause.number)),
        (FILES, Value::texts(cause.chain.iter().map(String::as_str))),
    ]);
    let metadata = Packed::pack(&Value::map([(METADATA, reaction)]));
    (metadata.as_bytes().len() <= MAX_METADATA).then_some(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_event_and_block_have_the_same_request_and_no_others() {
        let id = request_id(("a", 1), "/f.sls", 0);
        assert_eq!(id, request_id(("a", 1), "/f.sls", 0));
        for other in [
            request_id(("b", 1), "/f.sls", 0),
            request_id(("a", 2), "/f.sls", 0),
            request_id(("a", 1), "/g.sls", 0),
            request_id(("a", 1), "/f.sls", 1),
            request_id(("a/f", 1), ".sls", 0),
        ] {
            assert_ne!(id, other);
        }
    }
}
