//! `batch.*`: jobs that are carried out in batches.

use std::time::Duration;

use saline_client::{Client, ClientError};
use saline_protocol::message::{Batch, BatchProgress, BatchStop, Jid, OfferState, Value};

use super::jobs;

/// Returns the batches that are under way, by jid.
pub(crate) async fn list_active(client: &Client) -> Result<Value, ClientError> {
    let batches = client.batches().await?;
    let entries = batches.iter().map(|batch| {
        let mut entries = settings(&batch.batch);
        entries.extend(numbers(batch));
        (batch.jid.to_string(), Value::map(entries))
    });
    Ok(Value::Map(entries.collect()))
}

/// Returns how far a batch has come, and its minions by their states.
pub(crate) async fn status(client: &Client, jid: &Jid) -> Result<Value, ClientError> {
    let job = client.job_lookup(jid).await?;
    let batch = job.batch.ok_or_else(|| ClientError::NoBatch(jid.clone()))?;
    let active = client.batches().await?;
    let active = active.iter().find(|batch| batch.jid == *jid);
    let states = jobs::states(client, jid).await?;
    let mut entries = vec![
        ("jid", Value::from(jid.as_str())),
        ("fun", Value::from(job.job.fun.as_str())),
        ("tgt", Value::from(job.job.target.expression.as_str())),
    ];
    entries.extend(settings(&batch));
    match active {
        Some(progress) => entries.extend(numbers(progress)),
        None => entries.push(("status", Value::from("complete"))),
    }
    let named = OfferState::ALL.into_iter().filter_map(|which| {
        let minions = states.iter().filter(|(_, state, _)| *state == which);
        let minions: Vec<&str> = minions.map(|(minion, ..)| minion.as_str()).collect();
        (!minions.is_empty()).then(|| (which.name(), Value::texts(minions)))
    });
    entries.push(("states", Value::map(named)));
    Ok(Value::map(entries))
}

/// Stops a batch: no further minion gets its turn, and those that have begun go on. Returns the states of all
/// minions.
pub(crate) async fn stop(
    client: &Client,
    jid: &Jid,
    timeout: Duration,
) -> Result<Value, ClientError> {
    let job = client.job_lookup(jid).await?;
    if job.batch.is_none() {
        return Err(ClientError::NoBatch(jid.clone()));
    }
    jobs::cancel(client, jid, timeout).await
}

fn settings(batch: &Batch) -> Vec<(&'static str, Value)> {
    let seconds = batch.wait_ms as f64 / 1_000.0;
    vec![
        ("batch", Value::Int(batch.size.into())),
        ("batch_wait", Value::Float(seconds)),
        ("failhard", Value::Bool(batch.failhard)),
    ]
}

fn numbers(progress: &BatchProgress) -> Vec<(&'static str, Value)> {
    let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let status = match progress.stopped {
        None => "active",
        Some(BatchStop::Halted) => "halted",
        Some(BatchStop::Cancelled) => "stopped",
    };
    vec![
        ("status", Value::from(status)),
        ("minions", number(progress.minions)),
        ("waiting", number(progress.waiting)),
        ("active", number(progress.active)),
        ("ended", number(progress.ended)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, Style};

    #[test]
    fn a_batch_is_told_by_its_numbers() {
        let progress = BatchProgress {
            jid: Jid::parse("20261121091409931549").unwrap(),
            batch: Batch {
                size: 8,
                wait_ms: 1_500,
                failhard: true,
                queues: false,
            },
            minions: 500,
            waiting: 480,
            active: 8,
            ended: 12,
            stopped: Some(BatchStop::Halted),
        };
        let mut entries = settings(&progress.batch);
        entries.extend(numbers(&progress));
        let text = Format::Nested.render(&Value::map(entries), Style::default(), false);
        insta::assert_snapshot!(String::from_utf8(text.unwrap()).unwrap(), @"
        active:
            8
        batch:
            8
        batch_wait:
            1.5
        ended:
            12
        failhard:
            True
        minions:
            500
        status:
            halted
        waiting:
            480
        ");
    }
}
