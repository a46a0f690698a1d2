//! Asks the running system again and again: who is present, what processes use, what an operator sees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use saline_protocol::transport::Clock;

use crate::evidence::{LedgerRun, Lookup, PresenceSample, UsageSeries};
use crate::fleet::{Daemon, Fleet, Operator};
use crate::plan::Token;
use crate::publisher::absence;
use crate::states::State;
use crate::store::StoredJobs;

/// How often it is asked who is present, and what processes use.
const PERIOD: Duration = Duration::from_secs(1);

/// The most jobs that are looked up as an operator would, beside those that ran and whose end only an operator is told.
const MAX_LOOKUPS: usize = 300;

/// One job of so many is looked up although nothing about it needs it.
const EVERY: usize = 8;

/// What was sampled so far.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<(Vec<PresenceSample>, Vec<UsageSeries>)>);

impl Samples {
    fn with(&self, add: impl FnOnce(&mut (Vec<PresenceSample>, Vec<UsageSeries>))) {
        add(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes everything out.
    pub(crate) fn take(&self) -> (Vec<PresenceSample>, Vec<UsageSeries>) {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Asks who is present until it is dropped.
pub(crate) async fn presence(fleet: &Fleet, samples: &Samples) {
    let mut timer = Clock.interval(PERIOD);
    loop {
        timer.tick().await;
        let asked = fleet.timeline.now();
        let present = fleet.operator.present().await;
        let sample = PresenceSample {
            asked,
            answered: fleet.timeline.now(),
            present,
        };
        samples.with(|(presence, _)| presence.push(sample));
    }
}

/// Reads what processes use until it is dropped. Those under a fault are left out.
pub(crate) async fn usage(fleet: &Fleet, samples: &Samples) {
    let mut timer = Clock.interval(PERIOD);
    loop {
        timer.tick().await;
        let at = fleet.timeline.now();
        let master = std::iter::once(&fleet.master);
        let daemons = master.chain(fleet.minions.iter().map(|seat| &seat.daemon));
        for daemon in daemons {
            if let Ok(daemon) = daemon.try_lock() {
                add_usage(&daemon, at, samples);
            }
        }
    }
}

fn add_usage(daemon: &Daemon, at: Duration, samples: &Samples) {
    let (Some(pid), Some(usage)) = (daemon.pid(), daemon.usage()) else {
        return;
    };
    samples.with(
        |(_, all)| match all.iter_mut().find(|series| series.pid == pid) {
            Some(series) => series.samples.push((at, usage)),
            None => all.push(UsageSeries {
                instance: daemon.instance().to_owned(),
                pid,
                samples: vec![(at, usage)],
            }),
        },
    );
}

/// Looks jobs up as an operator would. First those that ran on a minion whose return is not stored, then
/// other offers without an end in the store, then some others.
pub(crate) async fn lookups(
    operator: &Operator,
    jobs: &StoredJobs,
    runs: &[LedgerRun],
) -> BTreeMap<String, Lookup> {
    let ran: BTreeSet<(Token, &str)> = runs.iter().map(|run| (run.token, run.minion())).collect();
    let mut wanted: Vec<(u8, &String)> = Vec::new();
    for (index, (jid, job)) in jobs.iter().enumerate() {
        let open = job.states.iter().filter(|(minion, state)| {
            matches!(state, State::Offered | State::Queued | State::Waiting)
                && !job.returns.contains_key(*minion)
        });
        let open: Vec<_> = open.map(|(minion, _)| minion.as_str()).collect();
        let ran = |minion: &&str| {
            job.token
                .is_some_and(|token| ran.contains(&(token, *minion)))
        };
        if open.iter().any(ran) {
            wanted.push((0, jid));
        } else if !open.is_empty() {
            wanted.push((1, jid));
        } else if index % EVERY == 0 {
            wanted.push((2, jid));
        }
    }
    wanted.sort();
    let mut lookups = BTreeMap::new();
    // An offer of a job that ran ends as only an operator is told: each of them is looked up.
    let needed = wanted.iter().filter(|(class, _)| *class == 0).count();
    for (_, jid) in wanted.into_iter().take(needed.max(MAX_LOOKUPS)) {
        if let Some(lookup) = look_up(operator, jid).await {
            lookups.insert(jid.clone(), lookup);
        }
    }
    lookups
}

async fn look_up(operator: &Operator, jid: &str) -> Option<Lookup> {
    let output = operator.run(&["jobs.lookup_jid", jid]).await.ok()?;
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    Some(Lookup {
        returned: value.as_object()?.keys().cloned().collect(),
        absent: errors.lines().filter_map(absence).collect(),
    })
}
