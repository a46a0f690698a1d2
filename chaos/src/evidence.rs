//! Everything that a run left behind, gathered for the books.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use crate::error::{ChaosError, Result};
use crate::fleet::ProcessUsage;
use crate::known_file::FileState;
use crate::plan::{BEGUN, ENDED, FileOrder, Token};
use crate::publisher::Publication;
use crate::store::{Delivered, StoredJobs};
use crate::timeline::{History, Timeline};

/// What a ledger says of a run of a job's shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LedgerRun {
    pub(crate) token: Token,
    /// The process that ran it: a minion's id, or the name of a clone.
    pub(crate) instance: String,
    pub(crate) at: Duration,
    /// When it had printed everything; none when it did not get there.
    pub(crate) ended: Option<Duration>,
}

impl LedgerRun {
    /// Returns the id of the minion whose process ran it.
    pub(crate) fn minion(&self) -> &str {
        self.instance.split('-').next().unwrap_or_default()
    }

    /// Whether it ran on a clone.
    pub(crate) fn on_a_clone(&self) -> bool {
        self.instance.contains('-')
    }
}

/// What an operator was shown of a job in the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lookup {
    pub(crate) returned: BTreeSet<String>,
    pub(crate) absent: BTreeMap<String, String>,
}

/// Who was called present, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PresenceSample {
    pub(crate) asked: Duration,
    pub(crate) answered: Duration,
    /// None when the master did not answer.
    pub(crate) present: Option<BTreeSet<String>>,
}

/// What a process used, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsageSeries {
    pub(crate) instance: String,
    pub(crate) pid: u32,
    pub(crate) samples: Vec<(Duration, ProcessUsage)>,
}

/// Everything that a run left behind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    /// How many minions there were.
    pub(crate) minions: usize,
    /// How long a minion that is left alone may take to be back.
    pub(crate) return_bound: Duration,
    /// How often minions send a heartbeat.
    pub(crate) heartbeat: Duration,
    pub(crate) publications: Vec<Publication>,
    pub(crate) runs: Vec<LedgerRun>,
    /// Lines of ledgers that are no whole line.
    pub(crate) damaged_lines: Vec<String>,
    pub(crate) jobs: StoredJobs,
    /// What the master delivered to the database outside.
    pub(crate) delivered: Delivered,
    /// Whose pillar each minion that answered in the end has; none for one without a pillar.
    pub(crate) pillars: BTreeMap<String, Option<String>>,
    /// The last values that each minion and its clones made for the mine.
    pub(crate) made: BTreeMap<String, BTreeSet<String>>,
    /// The value of each minion in the mine in the end.
    pub(crate) mine: BTreeMap<String, String>,
    /// The orders about files.
    pub(crate) file_orders: Vec<FileOrder>,
    /// What stands under the names of fetched files in the end, by minion and number of the order.
    pub(crate) fetched: BTreeMap<(String, u32), FileState>,
    /// What stands in the caches in the end: the instance, the name of the file, and its state.
    pub(crate) cached: Vec<(String, String, FileState)>,
    /// What an operator was shown of jobs in the end, or why not.
    pub(crate) lookups: BTreeMap<String, Result<Lookup, String>>,
    pub(crate) presence: Vec<PresenceSample>,
    pub(crate) usage: Vec<UsageSeries>,
    pub(crate) history: History,
}

/// Reads all ledgers in a folder. Returns the runs in the order of their times, and lines that are none.
pub(crate) fn read_ledgers(
    folder: &Path,
    timeline: &Timeline,
) -> Result<(Vec<LedgerRun>, Vec<String>)> {
    let (mut runs, mut damaged) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).map_err(ChaosError::at(folder))? {
        let path = entry.map_err(ChaosError::at(folder))?.path();
        let text = std::fs::read_to_string(&path).map_err(ChaosError::at(&path))?;
        for line in text.lines() {
            if read_line(line, timeline, &mut runs).is_none() {
                damaged.push(format!("{}: {line}", path.display()));
            }
        }
    }
    runs.sort_by_key(|run| run.at);
    Ok((runs, damaged))
}

/// Adds a run, or the end of one that has begun. None when the line is neither.
fn read_line(line: &str, timeline: &Timeline, runs: &mut Vec<LedgerRun>) -> Option<()> {
    let words: Vec<&str> = line.split(' ').collect();
    let [token, instance, at, word] = words.as_slice() else {
        return None;
    };
    let (token, at) = (Token::parse(token)?, timeline.of_wall(at.parse().ok()?));
    match *word {
        BEGUN => runs.push(LedgerRun {
            token,
            instance: (*instance).to_owned(),
            at,
            ended: None,
        }),
        ENDED => {
            let is_it = |run: &&mut LedgerRun| {
                run.token == token && run.instance == *instance && run.ended.is_none()
            };
            runs.iter_mut().find(is_it)?.ended = Some(at);
        }
        _ => return None,
    }
    Some(())
}
