//! How long a ping of one minion takes while others return much.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use saline_client::{Client, JobSpec};
use saline_data::Value;
use saline_messages::MinionJobState;
use saline_protocol::transport::Clock;
use tokio::task::JoinSet;

use super::setting::{JOB_TIMEOUT, Setting, ping};
use crate::Result;
use crate::fleet::Fleet;
use crate::row::Row;

/// The minion that is pinged, and the one that returns much. Each has a process of its own.
const PINGED: &str = "pinged-";
const LARGE: &str = "large-";

/// Pings that a percentile is taken of, for each repetition of other measurements.
const PINGS: usize = 100;

/// How often a ping begins, also when those before have not ended: if they were waited for, one long delay would
/// keep many from being measured.
const EVERY: Duration = Duration::from_millis(10);

/// Pings that are under way at most.
const UNDER_WAY: usize = 1024;

/// How often it is looked whether the large return has come.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The time of a ping of one minion through a long-lived client: alone, and while another minion returns
/// `setting.large` bytes, again and again, and the swarm returns to a job of its own, again and again.
pub(super) async fn pings(
    setting: &Setting<'_>,
    fleet: &mut Fleet,
    client: &Arc<Client>,
    show: &mut impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    for name in [PINGED, LARGE] {
        fleet.start_another(client, name).await?;
    }
    let pings = PINGS * setting.repeat;
    let mut alone = timed(client, pings).await?;
    let p99 = percentile(&mut alone);
    show(setting.row("a ping of one minion, alone", "s", alone))?;
    show(setting.row("the same, 99 of 100", "s", vec![p99]))?;
    let ends = Arc::new(AtomicBool::new(false));
    let mut others = JoinSet::new();
    let large = return_much(Arc::clone(client), setting.large, Arc::clone(&ends));
    others.spawn(large);
    others.spawn(return_all(Arc::clone(client), Arc::clone(&ends)));
    let beside = timed(client, pings).await;
    ends.store(true, Ordering::Relaxed);
    while let Some(other) = others.join_next().await {
        other??;
    }
    let mut beside = beside?;
    let p99 = percentile(&mut beside);
    let row = "a ping of one minion, beside large returns";
    show(setting.row(row, "s", beside))?;
    show(setting.row("the same, 99 of 100", "s", vec![p99]))
}

/// Pings one minion so many times, and returns the time of each in seconds.
async fn timed(client: &Arc<Client>, pings: usize) -> Result<Vec<f64>> {
    let mut interval = Clock.interval(EVERY);
    let (mut under_way, mut samples) = (JoinSet::new(), Vec::new());
    for _ in 0..pings {
        let begin = interval.tick().await;
        let client = Arc::clone(client);
        under_way.spawn(async move {
            match ping(&client, &format!("{PINGED}*")).await? {
                1 => Ok::<_, crate::Failure>((Clock.now() - begin).as_secs_f64()),
                some => Err(format!("{some} minions answered, not one").into()),
            }
        });
        if under_way.len() == UNDER_WAY
            && let Some(sample) = under_way.join_next().await
        {
            samples.push(sample??);
        }
    }
    while let Some(sample) = under_way.join_next().await {
        samples.push(sample??);
    }
    Ok(samples)
}

/// Returns the time within which 99 of 100 came; sorts the samples, of which there is at least one.
fn percentile(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    let index = (samples.len() * 99).div_ceil(100).saturating_sub(1);
    samples.get(index).copied().unwrap_or_default()
}

/// Has a minion return so many bytes, one return after the other, until `ends`. Waits for each to be stored, and
/// does not read it.
async fn return_much(client: Arc<Client>, bytes: u64, ends: Arc<AtomicBool>) -> Result<()> {
    while !ends.load(Ordering::Relaxed) {
        let mut spec = JobSpec::glob(format!("{LARGE}*"), "test.text")?;
        spec.arg.positional.push(Value::from(bytes));
        let published = client.run_async(spec).await?;
        let jid = published.jid.ok_or("no minion returns much")?;
        let deadline = Clock.after(JOB_TIMEOUT);
        loop {
            let page = client.job_states(&jid, None).await?;
            match page.states.first() {
                Some((_, MinionJobState::Returned)) => break,
                Some((_, state)) if state.is_final() => {
                    return Err(format!("the large return is {}", state.name()).into());
                }
                _ if Clock.now() > deadline => return Err("no large return came".into()),
                _ => Clock.pause(POLL_INTERVAL).await,
            }
        }
    }
    Ok(())
}

/// Has the swarm return at once, one job after the other, until `ends`.
async fn return_all(client: Arc<Client>, ends: Arc<AtomicBool>) -> Result<()> {
    while !ends.load(Ordering::Relaxed) {
        ping(&client, "swarm-*").await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_is_above_the_percentile() {
        let mut samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut samples), 198.0);
        assert_eq!(percentile(&mut [3.0]), 3.0);
    }
}
