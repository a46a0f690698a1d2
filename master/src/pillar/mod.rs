//! The pillars of minions: compiled when a minion asks for its own, for the id under which its session was accepted, from
//! what root says of it alone.
//!
//! Templates are rendered in processes of their own ([`saline_render`]). A compilation has a thread for blocking work, few at
//! a time, and one minion has one at a time, so that pillars keep nothing else from the processors for long. A pillar with
//! errors is not given out: the minion gets the errors, and the last pillar that had none. Pillars are never on the disk and
//! never in the log.

mod cmd_json;
mod compile;
mod external;
mod figures;
mod kept;
mod lint;
mod made_up;
mod seen_tops;
mod sent;
mod sls_names;
mod target_matches;
#[cfg(test)]
mod tests;
mod tree;
mod version;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_data::Packed;
use saline_exec::{Launcher, Program};
use saline_messages::{
    MAX_PART, MinionId, Outgoing, PillarRefusal, PillarReply, PillarRequest, TransferId,
};
use saline_pillar::Pillar;
use saline_protocol::transport::Context;
use saline_render::process::{RenderCounts, RenderProgram, Renderers};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bounds::{ConcurrencyLimit, RequestPermit, TokenBuckets, report_limiter};
use crate::facts::{FactsError, FactsReader, Trusted};
use crate::settings::{LiveSettings, PillarSettings, SettingsValues};
pub(crate) use cmd_json::{PROGRAM_FOLDERS, program_of};
pub(crate) use compile::AskedEnvironments;
use figures::PillarFigures;
use kept::{GoodPillar, KeptPillars};
pub(crate) use lint::LintedFile;
use seen_tops::SeenTops;
use tree::{FilesAt, PillarTree, StateNumbers};
use version::SourceVersion;

/// How long a minion is asked to wait for its turn.
const BUSY: Duration = Duration::from_millis(500);

/// How long a request waits for a turn before the minion is asked to come again.
const WAIT: Duration = Duration::from_secs(8);

/// The most pillars that are compiled at a time. More than there are processors: some wait for external sources.
const AT_ONCE: usize = 8;

/// The most requests of all minions that wait at once: a quarter of what a transport hands out unanswered, so that pillars
/// never keep heartbeats and returns from being read.
const MOST_AT_ONCE: usize = 4096;

/// How long a compilation may take until the last file of it is begun.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes of a part.
const LARGEST_PART: usize = 256 * 1024;

/// The programs that compiling starts.
#[derive(Debug, Clone)]
pub(crate) struct PillarPrograms {
    /// Starts the commands of external sources, and `saline-render`.
    pub(crate) launcher: Launcher,
    /// Renders templates.
    pub(crate) render: RenderProgram,
}

impl NotCompiled {
    /// Returns that there is no environment with this name.
    fn no_environment(name: &str, settings: &PillarSettings) -> Self {
        Self::NoEnvironment {
            name: name.to_owned(),
            known: settings.environment_names(),
        }
    }
}

impl PillarPrograms {
    /// Returns the programs where `saline-exec` is.
    pub(crate) fn beside(exec: &Program) -> Self {
        Self {
            launcher: Launcher::new(exec.clone(), Vec::new()),
            render: RenderProgram::beside(exec),
        }
    }
}

/// Compiles pillars and gives each minion its own. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Pillars(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    settings: LiveSettings,
    facts: FactsReader,
    context: Context,
    renderers: Arc<Renderers>,
    launcher: Launcher,
    /// The files of the settings that were in force last.
    tree: Mutex<Option<(Arc<PillarSettings>, Arc<PillarTree>)>>,
    numbers: Arc<StateNumbers>,
    seen_tops: Arc<SeenTops>,
    kept: KeptPillars,
    /// One compilation of each minion.
    concurrency: Arc<ConcurrencyLimit>,
    /// One permit for each request that may wait.
    places: Semaphore,
    turns: Arc<Semaphore>,
    /// Limits what minions cause in the log.
    limiter: TokenBuckets<MinionId>,
    figures: PillarFigures,
}

/// The answer to a request of a minion or of a caller.
#[derive(Debug)]
pub(crate) enum PillarAnswer {
    Reply(PillarReply),
    /// It was not carried out, and is to be repeated after this time.
    Busy(Duration),
    /// It is malformed.
    Malformed,
}

/// The reason why no pillar was compiled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotCompiled {
    /// There is no turn for it now.
    #[error("too many pillars are being compiled: try again")]
    Busy,
    #[error("there is no environment {name:?} in pillar_roots, which has: {known}")]
    NoEnvironment { name: String, known: String },
    /// The key of the minion is not accepted.
    #[error("no accepted key has the id {0}")]
    NoKey(MinionId),
    #[error(transparent)]
    Key(#[from] FactsError),
    /// The code that compiles it panicked, which the runtime logs.
    #[error("it was not compiled, and the master's log says why")]
    Failed,
}

impl Pillars {
    /// Creates the pillars of what the settings name. No process is started before one is compiled.
    pub(crate) fn new(
        settings: LiveSettings,
        facts: FactsReader,
        programs: PillarPrograms,
        context: &Context,
    ) -> Self {
        let PillarPrograms { launcher, render } = programs;
        Self(Arc::new(Parts {
            settings,
            facts,
            renderers: Arc::new(Renderers::new(launcher.clone(), render)),
            launcher,
            tree: Mutex::default(),
            numbers: Arc::default(),
            seen_tops: Arc::default(),
            kept: KeptPillars::default(),
            concurrency: ConcurrencyLimit::new(1),
            places: Semaphore::new(MOST_AT_ONCE),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            limiter: report_limiter(context.clock),
            figures: PillarFigures::default(),
            context: context.clone(),
        }))
    }

    /// Carries out a request of the minion `id`, or of a caller beside it.
    ///
    /// # Cancel safety
    /// A compilation that was begun is finished.
    pub(crate) async fn answer(&self, id: &MinionId, request: PillarRequest) -> PillarAnswer {
        let parts = &self.0;
        if !request.is_within_bounds() {
            return PillarAnswer::Malformed;
        }
        let Ok(_place) = parts.places.try_acquire() else {
            return PillarAnswer::Busy(BUSY);
        };
        match request {
            PillarRequest::Compile {
                saltenv,
                pillarenv,
                known,
                bytes,
            } => {
                // What a minion says gets it no environment whose files are kept from it.
                let files = parts.settings.files();
                let mut named = saltenv.iter().chain(&pillarenv);
                if named.any(|name| files.is_kept_from(id, name)) {
                    return PillarAnswer::Reply(PillarReply::Refused(PillarRefusal::NoEnvironment));
                }
                let Some(permit) = parts.concurrency.begin(id) else {
                    return PillarAnswer::Busy(BUSY);
                };
                let asked = AskedEnvironments { saltenv, pillarenv };
                match self.compile_for(id, &asked, permit).await {
                    Ok(whole) => PillarAnswer::Reply(self.first_part(id, whole, known, bytes)),
                    Err(NotCompiled::Busy) => PillarAnswer::Busy(BUSY),
                    Err(NotCompiled::NoEnvironment { .. }) => {
                        PillarAnswer::Reply(PillarReply::Refused(PillarRefusal::NoEnvironment))
                    }
                    Err(error) => {
                        if parts.limiter.allows(id) {
                            tracing::error!("the pillar of minion {id}: {error}");
                        }
                        PillarAnswer::Reply(PillarReply::Refused(PillarRefusal::Failed))
                    }
                }
            }
            PillarRequest::Part {
                transfer,
                offset,
                bytes,
            } => {
                let part = parts.kept.part(id, transfer, offset, part_size(bytes));
                PillarAnswer::Reply(part.map_or(PillarReply::Changed, |part| {
                    parts.figures.count_sent(part.bytes.len());
                    PillarReply::Part(part)
                }))
            }
        }
    }

    /// Compiles what a minion is to get, and keeps it if it has no errors.
    async fn compile_for(
        &self,
        id: &MinionId,
        asked: &AskedEnvironments,
        permit: RequestPermit,
    ) -> Result<Outgoing, NotCompiled> {
        let compiling = self.work_on(id, asked, |work| {
            let compiled = work.compile_and_keep();
            // The next request of the minion finds its turn.
            drop(permit);
            compiled
        });
        match compiling.await? {
            Ok(packed) => Ok(sent::encode(Some(packed), Vec::new())),
            Err(errors) => {
                self.report(id, &errors);
                let good = self.0.kept.good(id, asked);
                Ok(sent::encode(good.map(|good| good.packed), errors))
            }
        }
    }

    fn report(&self, id: &MinionId, errors: &[String]) {
        if self.0.limiter.allows(id) {
            let more = match errors.len() {
                1 => String::new(),
                errors => format!(" (and {} more)", errors - 1),
            };
            tracing::warn!(
                "the pillar of minion {id} has errors, and the minion keeps what it had: {}{more}",
                errors[0]
            );
        }
    }

    /// Returns the reply with the first part of a pillar.
    fn first_part(
        &self,
        id: &MinionId,
        whole: Outgoing,
        known: Option<TransferId>,
        bytes: u32,
    ) -> PillarReply {
        let parts = &self.0;
        let part = whole.part(0, part_size(bytes));
        if known == Some(part.transfer) {
            parts.figures.count_unchanged();
            return PillarReply::Unchanged;
        }
        if part.end() != Some(part.total) {
            parts.kept.note_sending(id, whole);
        }
        parts.figures.count_sent(part.bytes.len());
        PillarReply::Part(part)
    }

    /// Compiles the pillar of a minion for an operator. The minion is not told.
    ///
    /// # Errors
    /// See [`NotCompiled`].
    ///
    /// # Cancel safety
    /// A compilation that was begun is finished.
    pub(crate) async fn compile(
        &self,
        id: &MinionId,
        asked: &AskedEnvironments,
    ) -> Result<Pillar, NotCompiled> {
        self.work_on(id, asked, |work| work.compile_and_count().pillar)
            .await
    }

    /// Returns the files that the top files choose for a minion, for each environment, and what is wrong with the top files.
    ///
    /// # Errors
    /// See [`NotCompiled`].
    ///
    /// # Cancel safety
    /// What was begun is finished.
    pub(crate) async fn top(
        &self,
        id: &MinionId,
        asked: &AskedEnvironments,
    ) -> Result<(Vec<(String, Vec<String>)>, Vec<String>), NotCompiled> {
        self.work_on(id, asked, |work| work.top()).await
    }

    /// Runs `work` about the pillar of a minion in a thread for blocking work, with the settings and the files of now.
    async fn work_on<T: Send + 'static>(
        &self,
        id: &MinionId,
        asked: &AskedEnvironments,
        work: impl FnOnce(&PillarWork<'_>) -> T + Send + 'static,
    ) -> Result<T, NotCompiled> {
        let asked_at = self.0.context.clock.now();
        let minion = self.0.facts.trusted(id).await?;
        let minion = minion.ok_or_else(|| NotCompiled::NoKey(id.clone()))?;
        let settings = self.0.settings.now();
        if let Some(name) = &asked.pillarenv
            && !settings.pillar.has_environment(name)
        {
            return Err(NotCompiled::no_environment(name, &settings.pillar));
        }
        let turn = self.turn().await?;
        let (parts, asked) = (Arc::clone(&self.0), asked.clone());
        let working = self.0.context.spawn_blocking(move || {
            let tree = parts.tree(&settings.pillar);
            let ends = parts.context.clock.after(COMPILE_TIMEOUT);
            let done = work(&PillarWork {
                parts: &parts,
                minion: &minion,
                asked: &asked,
                settings: &settings,
                files: tree.at(asked_at, ends, &parts.renderers),
            });
            drop(turn);
            done
        });
        // It panicked otherwise, which the runtime logs.
        working.await.map_err(|_| NotCompiled::Failed)
    }

    /// Waits for a turn at the threads that compile, for a while.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, NotCompiled> {
        let clock = self.0.context.clock;
        let turn = clock.deadline(clock.after(WAIT), Arc::clone(&self.0.turns).acquire_owned());
        // The semaphore is never closed.
        turn.await
            .ok()
            .and_then(Result::ok)
            .ok_or(NotCompiled::Busy)
    }

    /// Forgets what is kept of a minion, whose key is accepted no more.
    pub(crate) fn forget(&self, id: &MinionId) {
        self.0.kept.forget(id);
    }

    /// Returns what was counted.
    pub(crate) fn figures(&self) -> &PillarFigures {
        &self.0.figures
    }

    /// Returns the processes that render, which the reactor uses too.
    pub(crate) fn shared_renderers(&self) -> Arc<Renderers> {
        Arc::clone(&self.0.renderers)
    }

    /// Returns what the processes that render did.
    pub(crate) fn renderers(&self) -> RenderCounts {
        self.0.renderers.counts()
    }

    /// Returns of how many minions pillars are kept, and the bytes of these.
    pub(crate) fn kept(&self) -> (usize, usize) {
        self.0.kept.size()
    }
}

impl Parts {
    /// Returns the files of these settings.
    fn tree(&self, sources: &Arc<PillarSettings>) -> Arc<PillarTree> {
        // It is replaced in one step, so a poisoned lock is still valid.
        let mut known = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((of, tree)) if Arc::ptr_eq(of, sources) => Arc::clone(tree),
            _ => {
                let tree = PillarTree::new(
                    sources,
                    Arc::clone(&self.numbers),
                    Arc::clone(&self.seen_tops),
                );
                let tree = Arc::new(tree);
                *known = Some((Arc::clone(sources), Arc::clone(&tree)));
                tree
            }
        }
    }
}

/// A pillar, and its entries as they are sent.
struct Compiled {
    pillar: Pillar,
    packed: Packed,
}

/// What is known where the pillar of a minion is compiled.
struct PillarWork<'a> {
    parts: &'a Parts,
    minion: &'a Trusted,
    asked: &'a AskedEnvironments,
    settings: &'a SettingsValues,
    files: FilesAt<'a>,
}

impl PillarWork<'_> {
    /// Compiles the pillar, and counts that. Blocks.
    fn compile_and_count(&self) -> Compiled {
        let clock = self.parts.context.clock;
        let began = clock.now();
        let mut pillar = self.compile();
        let packed = sent::pack(&mut pillar);
        let took = clock.now() - began;
        let figures = &self.parts.figures;
        figures.count_compiled(took, pillar.errors.is_empty());
        Compiled { pillar, packed }
    }

    /// Compiles the pillar, and keeps it if it has no errors. Blocks.
    ///
    /// # Errors
    /// The lines that say what is wrong with it.
    fn compile_and_keep(&self) -> Result<Packed, Vec<String>> {
        let Compiled { pillar, packed } = self.compile_and_count();
        if !pillar.errors.is_empty() {
            return Err(pillar.errors);
        }
        let good = GoodPillar {
            asked: self.asked.clone(),
            from: SourceVersion::new(self.settings, self.files.seen()),
            packed: packed.clone(),
        };
        self.parts.kept.note_good(self.minion.id(), good);
        Ok(packed)
    }
}

/// Returns the most bytes of a part of which a minion wants so many.
fn part_size(wanted: u32) -> usize {
    let wanted = usize::try_from(wanted).unwrap_or(LARGEST_PART);
    wanted.clamp(1, LARGEST_PART.min(MAX_PART))
}
