//! The minion's side of the mine: values that it leaves with the master for other minions, and what it asks the master for.
//!
//! The minion remembers nothing of what the master has: each update offers the digests of all values, and the master names those
//! that it lacks.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_config::{MineConfig, MineFunction};
use saline_data::{Packed, Value};
use saline_functions::Failure;
use saline_messages::{
    ArgumentPlace, FoundEntry, MAX_MINE_ENTRIES, MAX_MINE_VALUE_BYTES, MineEntry, MineRefusal,
    MineReply, MineRequest,
};
use saline_targeting::Target;
use tokio::sync::Notify;

use crate::job::{JobControl, RunningJob};
use crate::pending_answer::{PendingAnswer, wrong_answer};
use crate::{Host, JobContext, Modules};

/// The entry of a pillar with functions of the mine, and the name of the option.
pub(crate) const FUNCTIONS: &str = "mine_functions";

/// How long a function waits for one answer of the master.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long one answer may take. The master may have the minion wait for its turn before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes of values in one request, but for a single larger value.
const MAX_BATCH_BYTES: usize = 512 * 1024;

/// The most bytes of all values that one call gets.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// The most functions without room that a line names.
const MAX_NAMED: usize = 5;

/// Asks the master about the mine.
pub trait MasterMine: fmt::Debug + Send + Sync {
    /// Sends a request, which may wait for its answer at most so long. Returns at once.
    fn send(&self, request: MineRequest, within: Duration) -> PendingAnswer<MineReply>;

    /// Returns the size of the next page in bytes, which follows the speed of the link.
    fn page_size(&self) -> u32;
}

/// What the minion leaves in the mine by itself, and when.
#[derive(Debug, Default)]
pub struct MineSettings {
    config: Mutex<MineConfig>,
    /// The functions of the last update.
    last: Mutex<Option<Vec<MineFunction>>>,
    wanted: Notify,
}

impl MineSettings {
    /// Begins with this configuration.
    pub(crate) fn new(config: MineConfig) -> Self {
        Self {
            config: Mutex::new(config),
            ..Self::default()
        }
    }

    /// Takes over a changed configuration.
    pub(crate) fn set(&self, config: MineConfig) {
        *lock(&self.config) = config;
        self.want();
    }

    /// Has the minion run its functions again when it has a session: the master has forgotten their values.
    pub fn want_again(&self) {
        *lock(&self.last) = None;
        self.want();
    }

    /// Returns the configuration of now.
    pub fn config(&self) -> MineConfig {
        lock(&self.config).clone()
    }

    /// Has the minion look whether its functions have changed.
    pub(crate) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Waits until functions may have changed. One task alone may wait.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }
}

/// The values that functions have made, and those that made none.
#[derive(Default)]
struct Made {
    entries: Vec<MineEntry>,
    failed: Vec<String>,
}

impl Host {
    /// Runs the minion's `mine_functions` and sends what has changed; with `if_changed` only when these are not those of the last
    /// update. The log tells what failed. Returns whether the master has answered, or needed not be asked. Blocks.
    pub fn update_mine(&self, modules: &Modules, if_changed: bool) -> bool {
        let job = JobControl::new(RunningJob::of_the_minion("mine.update"));
        // Nobody else can end it.
        let _ = job.begin();
        let context = JobContext {
            host: self,
            job: &job,
            function: "mine.update",
            modules,
        };
        // When the first pillar comes this is called again.
        let held = self.pillar.held();
        let (functions, wrong) = with_pillar(self, held.as_ref().map(|held| held.entries.as_ref()));
        if if_changed && lock(&self.mine.last).as_ref() == Some(&functions) {
            return true;
        }
        for why in wrong {
            tracing::warn!("the mine: {why}");
        }
        *lock(&self.mine.last) = Some(functions.clone());
        if functions.is_empty() {
            return true;
        }
        match update(&context, &functions, false) {
            Ok(failed) => {
                for why in failed {
                    tracing::warn!("the mine: {why}");
                }
                true
            }
            // The minion stops.
            Err(Failure::Ended { .. }) => true,
            Err(failure) => {
                tracing::warn!(
                    "the mine was not updated, and the minion tries again soon: {failure}"
                );
                false
            }
        }
    }
}

/// Returns the minion's `mine_functions`: those of its configuration, and those of its pillar with other names. And what is wrong
/// with others. Asks the master for the pillar if the minion has not got it yet.
pub(crate) fn configured(context: &JobContext<'_>) -> (Vec<MineFunction>, Vec<String>) {
    // Without a master there is no pillar, and no mine.
    if context.host.master_pillar.get().is_none() {
        return with_pillar(context.host, None);
    }
    match context.host.held_pillar(context.job) {
        Ok(pillar) => with_pillar(context.host, Some(&pillar.entries)),
        Err(failure) => {
            let (functions, mut wrong) = with_pillar(context.host, None);
            wrong.push(format!(
                "{FUNCTIONS} of the pillar are not known: {failure}"
            ));
            (functions, wrong)
        }
    }
}

/// Returns the `mine_functions` of the configuration, and those of a pillar with other names.
fn with_pillar(host: &Host, pillar: Option<&Value>) -> (Vec<MineFunction>, Vec<String>) {
    let mut functions = host.mine.config().functions;
    let mut wrong = Vec::new();
    let of_pillar = pillar.and_then(|pillar| pillar.get(FUNCTIONS));
    match MineFunction::read_all(of_pillar.unwrap_or(&Value::Null)) {
        Ok(read) => {
            for read in read {
                match read {
                    Ok(function) if functions.iter().any(|own| own.name == function.name) => {}
                    Ok(function) => functions.push(function),
                    Err(why) => wrong.push(format!("{FUNCTIONS} of the pillar: {why}")),
                }
            }
        }
        Err(error) => wrong.push(format!("the pillar: {error}")),
    }
    wrong.extend(leave_out(&mut functions));
    (functions, wrong)
}

/// Leaves out the functions for which the mine has no room. Returns a line that names some of them.
pub(crate) fn leave_out(functions: &mut Vec<MineFunction>) -> Option<String> {
    let without_room = functions.split_off(functions.len().min(MAX_MINE_ENTRIES));
    let (named, others) = without_room.split_at(without_room.len().min(MAX_NAMED));
    let names: Vec<&str> = named.iter().map(|one| one.name.as_str()).collect();
    let others = match others.len() {
        _ if names.is_empty() => return None,
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    Some(format!(
        "{}{others} of {FUNCTIONS} are left out, since the mine takes {MAX_MINE_ENTRIES} values of one minion: name fewer \
         functions, or one that returns several values together",
        names.join(", ")
    ))
}

/// Runs functions and sends the values that the master lacks. With `clear` the master forgets the minion's other values, unless a function failed. Returns why
/// some values are not in the mine.
///
/// # Errors
/// When the master does not answer, when the minion stops, and when the job is ended.
pub(crate) fn update(
    context: &JobContext<'_>,
    functions: &[MineFunction],
    clear: bool,
) -> Result<Vec<String>, Failure> {
    let mut made = Made::default();
    for function in functions {
        match run(context, function) {
            Ok(entry) => made.entries.push(entry),
            Err(failure @ Failure::Ended { .. }) => return Err(failure),
            Err(failure) => made.failed.push(failure.to_string()),
        }
    }
    let Made {
        entries,
        mut failed,
    } = made;
    let offered = entries.iter();
    let offer = MineRequest::Offer {
        entries: offered
            .map(|entry| (entry.name.clone(), entry.digest()))
            .collect(),
        // What failed keeps its last value.
        forget_others: clear && failed.is_empty(),
    };
    let wanted = match ask(context, &offer)? {
        MineReply::Wanted(wanted) => wanted,
        MineReply::Refused(why) => return Err(Failure::Execution(why.to_string())),
        _ => return Err(wrong_answer()),
    };
    let number = |at: u32| entries.get(usize::try_from(at).ok()?).cloned();
    let mut waiting: Vec<MineEntry> = wanted.into_iter().filter_map(number).collect();
    let changed = waiting.len();
    while !waiting.is_empty() {
        let batch = next_batch(&mut waiting);
        failed.extend(store(context, batch)?);
    }
    match changed {
        0 => tracing::debug!("no value of the mine has changed"),
        changed => tracing::info!(
            "{changed} of {} values of the mine were sent",
            entries.len()
        ),
    }
    Ok(failed)
}

/// Takes the first of these entries that travel in one request.
fn next_batch(waiting: &mut Vec<MineEntry>) -> Vec<MineEntry> {
    let mut bytes = 0;
    let mut fits = |entry: &&MineEntry| {
        bytes += entry.size();
        bytes <= MAX_BATCH_BYTES
    };
    let count = waiting.iter().take_while(|entry| fits(entry)).count();
    waiting.drain(..count.max(1)).collect()
}

/// Leaves entries with the master. Returns why some of them are not there.
///
/// # Errors
/// As [`update`].
pub(crate) fn store(
    context: &JobContext<'_>,
    mut entries: Vec<MineEntry>,
) -> Result<Vec<String>, Failure> {
    let mut failed = Vec::new();
    while !entries.is_empty() {
        match ask(context, &MineRequest::Store(entries.clone()))? {
            MineReply::Done => break,
            MineReply::Refused(MineRefusal::Allowed { name, why }) => {
                let before = entries.len();
                entries.retain(|entry| entry.name != name);
                if entries.len() == before {
                    return Err(wrong_answer());
                }
                failed.push(MineRefusal::Allowed { name, why }.to_string());
            }
            // One after the other: what is small may have room.
            MineReply::Refused(MineRefusal::NoRoom) if entries.len() > 1 => {
                for entry in std::mem::take(&mut entries) {
                    failed.extend(store(context, vec![entry])?);
                }
            }
            MineReply::Refused(why @ MineRefusal::Failed) => {
                return Err(Failure::Execution(why.to_string()));
            }
            MineReply::Refused(why) => {
                let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
                failed.push(format!("{}: {why}", names.join(", ")));
                break;
            }
            _ => return Err(wrong_answer()),
        }
    }
    Ok(failed)
}

/// Runs a function of the mine, and returns its value.
///
/// # Errors
/// When it fails or its value is too large, in one line that names it.
pub(crate) fn run(context: &JobContext<'_>, function: &MineFunction) -> Result<MineEntry, Failure> {
    let (name, runs) = (&function.name, function.runs());
    let mut arguments = function.arguments.clone();
    // What fails shows no secrets.
    let secrets = context
        .modules
        .take_secrets(runs, &mut arguments)
        .into_iter();
    let hidden: Vec<ArgumentPlace> = secrets.map(|(place, _)| place).collect();
    let arguments = function.arguments.clone();
    let (host, job) = (context.host, context.job);
    let outcome = context
        .modules
        .call_hiding(runs, arguments, &hidden, host, job);
    if let Some(ending) = job.ending() {
        return Err(crate::ended(&ending));
    }
    if outcome.retcode != 0 {
        let said = outcome.value.as_str().map(str::trim).unwrap_or_default();
        let said = said.lines().next().unwrap_or_default();
        return Err(Failure::Execution(format!(
            "{name} is not sent, since {runs} failed with retcode {}: {said}",
            outcome.retcode
        )));
    }
    let value = Packed::pack(&outcome.value);
    let bytes = value.as_bytes().len();
    if bytes > MAX_MINE_VALUE_BYTES {
        return Err(Failure::Execution(format!(
            "{name} is not sent, since its value has {bytes} bytes, and one in the mine may have {MAX_MINE_VALUE_BYTES}"
        )));
    }
    let entry = MineEntry {
        name: name.clone(),
        value,
        allowed: function.allowed.clone(),
    };
    Ok(entry)
}

/// Returns the entries with these names of the minions of a target that this minion may get.
///
/// # Errors
/// When the master refuses it or does not answer, when the minion stops, and when the job is ended.
pub(crate) fn get(
    context: &JobContext<'_>,
    target: &Target,
    functions: &[String],
) -> Result<Vec<FoundEntry>, Failure> {
    let (mut found, mut after, mut bytes) = (Vec::new(), None, 0);
    loop {
        let master = master(context)?;
        let request = MineRequest::Get {
            target: target.clone(),
            functions: functions.to_vec(),
            after: after.take(),
            bytes: master.page_size(),
        };
        let page = match ask(context, &request)? {
            MineReply::Found(page) => page,
            MineReply::Refused(why) => return Err(Failure::Execution(why.to_string())),
            _ => return Err(wrong_answer()),
        };
        let values = page.entries.iter();
        bytes += values
            .map(|entry| entry.value.as_bytes().len())
            .sum::<usize>();
        if bytes > MAX_ANSWER_BYTES {
            return Err(Failure::Execution(format!(
                "these values have more than {MAX_ANSWER_BYTES} bytes: choose fewer minions or functions"
            )));
        }
        after = page
            .entries
            .last()
            .map(|entry| (entry.function, entry.minion.clone()));
        found.extend(page.entries);
        if !page.more || after.is_none() {
            return Ok(found);
        }
    }
}

/// Has the master carry out a request, on the thread of the job.
///
/// # Errors
/// When the master refuses it or does not answer, when the minion stops, and when the job is ended.
pub(crate) fn ask(context: &JobContext<'_>, request: &MineRequest) -> Result<MineReply, Failure> {
    let master = master(context)?;
    let send = || master.send(request.clone(), ANSWER_TIMEOUT);
    let host = context.host;
    host.answer_or_again(context.job, TIMEOUT, send(), send)
}

fn master<'a>(context: &JobContext<'a>) -> Result<&'a dyn MasterMine, Failure> {
    let master = context.host.master_mine.get().ok_or_else(|| {
        let why = "the mine is with the master, and no master takes part in this call (--local)";
        Failure::Execution(why.to_owned())
    })?;
    Ok(master.as_ref())
}

/// Returns whether two pillars have other functions of the mine.
pub(crate) fn differ(before: Option<&Value>, after: &Value) -> bool {
    before.and_then(|before| before.get(FUNCTIONS)) != after.get(FUNCTIONS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in one step, so a poisoned lock is still valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
