//! Asks the running system again and again: who is present, what processes use, what an operator sees.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use saline_protocol::transport::Clock;
use tokio::task::JoinSet;

use crate::evidence::{Lookup, PresenceSample, UsageSeries};
use crate::fleet::{Daemon, Fleet, Operator};
use crate::publisher::absence;
use crate::states::State;
use crate::store::StoredJobs;

/// How often it is asked who is present, and what processes use.
const PERIOD: Duration = Duration::from_secs(1);

/// How many jobs are looked up at once.
const AT_ONCE: usize = 4;

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

/// Looks jobs up as an operator would: all that have an offer without an end in the store, whose end only an operator is
/// told, and some others.
pub(crate) async fn lookups(
    operator: &Operator,
    jobs: &StoredJobs,
) -> BTreeMap<String, Result<Lookup, String>> {
    let wanted = jobs.iter().enumerate().filter(|(index, (_, job))| {
        let is_open = |(minion, state): (&String, &State)| {
            matches!(state, State::Offered | State::Queued | State::Waiting)
                && !job.returns.contains_key(minion)
        };
        job.states.iter().any(is_open) || index % EVERY == 0
    });
    let mut wanted = wanted.map(|(_, (jid, _))| jid.clone());
    let mut lookups = BTreeMap::new();
    let mut under_way = JoinSet::new();
    loop {
        while under_way.len() < AT_ONCE
            && let Some(jid) = wanted.next()
        {
            let operator = operator.clone();
            under_way.spawn(async move {
                let lookup = look_up(&operator, &jid).await;
                (jid, lookup)
            });
        }
        match under_way.join_next().await {
            Some(Ok((jid, lookup))) => drop(lookups.insert(jid, lookup)),
            // A job that is not looked up is found where its end is asked for.
            Some(Err(_)) => {}
            None => return lookups,
        }
    }
}

async fn look_up(operator: &Operator, jid: &str) -> Result<Lookup, String> {
    let output = operator.run(&["jobs.lookup_jid", jid]).await;
    let output = output.map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let value: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
    let returned = value.as_ref().and_then(serde_json::Value::as_object);
    let Some(returned) = returned else {
        let lines: Vec<&str> = errors.lines().take(3).collect();
        return Err(format!("{}; {}", output.status, lines.join(" | ")));
    };
    Ok(Lookup {
        returned: returned.keys().cloned().collect(),
        absent: errors.lines().filter_map(absence).collect(),
    })
}
