//! `jobs.*`: jobs of the store, in the shapes of Salt's job cache.

use std::collections::HashSet;
use std::time::Duration;

use saline_client::{Absence, Client, ClientError, EventFilter};
use saline_protocol::message::{EventTag, Jid, Job, MinionId, OfferState, StoredReturn, Value};

use crate::screen::Screen;
use crate::{absence, dates};

/// The number of jobs in one request.
const PAGE: u32 = 1000;

/// Reads all returns of a job, by minion.
async fn returns(client: &Client, jid: &Jid) -> Result<Vec<StoredReturn>, ClientError> {
    let mut returns: Vec<StoredReturn> = Vec::new();
    loop {
        let after = returns.last().map_or(0, |last| last.receipt);
        let page = client.job_returns(jid, after).await?;
        let empty = page.returns.is_empty();
        returns.extend(page.returns);
        if !page.more || empty {
            returns.sort_by(|a, b| a.minion.cmp(&b.minion));
            return Ok(returns);
        }
    }
}

/// The state of a minion in a job, and whether the minion is silent.
type State = (MinionId, OfferState, bool);

/// Reads the states of all minions of a job, by minion.
async fn states(client: &Client, jid: &Jid) -> Result<Vec<State>, ClientError> {
    let mut states: Vec<State> = Vec::new();
    loop {
        let after = states.last().map(|(minion, ..)| minion.clone());
        let page = client.job_states(jid, after).await?;
        let empty = page.states.is_empty();
        let silent: HashSet<MinionId> = page.silent.into_iter().collect();
        states.extend(page.states.into_iter().map(|(minion, state)| {
            let silent = silent.contains(&minion);
            (minion, state, silent)
        }));
        if !page.more || empty {
            return Ok(states);
        }
    }
}

/// Cancels a job, and waits at most `timeout` for those minions to which it was handed over and that are
/// present. Returns the states of all minions.
pub(crate) async fn cancel(
    client: &Client,
    jid: &Jid,
    timeout: Duration,
) -> Result<Value, ClientError> {
    let filter = EventFilter::Below(EventTag::below_job(jid));
    // Before the request, so that no answer is missed.
    let mut events = client.events(&filter).await?;
    client.cancel(jid).await?;
    let clock = client.context().clock;
    let deadline = clock.after(timeout);
    let states = loop {
        let states = states(client, jid).await?;
        let waits = |(_, state, silent): &State| *state == OfferState::Offered && !silent;
        if !states.iter().any(waits) || clock.deadline(deadline, events.next()).await.is_err() {
            break states;
        }
    };
    let states = states.into_iter().map(|(minion, state, _)| {
        let state = match state {
            // It is told when it is back.
            OfferState::Offered => {
                "offered; cancelled when the minion reports, unless it has begun"
            }
            state => state.name(),
        };
        (minion.to_string(), Value::from(state))
    });
    Ok(Value::Map(states.collect()))
}

fn value(stored: &StoredReturn) -> Result<Value, ClientError> {
    stored
        .payload
        .unpack()
        .map_err(|_| ClientError::WrongAnswer("JobReturns"))
}

/// Returns the values of the returns, by minion. Prints a line for each minion without one.
pub(crate) async fn lookup_jid(
    screen: &mut Screen<'_>,
    client: &Client,
    jid: &Jid,
) -> Result<Value, ClientError> {
    // In this order: a minion whose return is stored meanwhile is not called absent.
    let states = states(client, jid).await?;
    let returns = returns(client, jid).await?;
    let nobody_returned = returns.is_empty();
    let mut entries = Vec::new();
    for stored in &returns {
        entries.push((stored.minion.to_string(), value(stored)?));
    }
    for (minion, state, silent) in &states {
        let returned = returns.binary_search_by(|stored| stored.minion.cmp(minion));
        let Some(why) = Absence::of(*state, *silent).filter(|_| returned.is_err()) else {
            continue;
        };
        if why != Absence::Declined || nobody_returned {
            screen.complain(format!("{minion}: {}", absence::line(why)));
        }
    }
    Ok(Value::Map(entries))
}

/// Returns the job and its returns in one mapping.
pub(crate) async fn list_job(client: &Client, jid: &Jid) -> Result<Value, ClientError> {
    let mut entries = whole_job(client, jid).await?;
    entries.push(("jid".to_owned(), jid.as_str().into()));
    Ok(Value::Map(entries))
}

/// Returns the same below the jid.
pub(crate) async fn print_job(client: &Client, jid: &Jid) -> Result<Value, ClientError> {
    let entries = whole_job(client, jid).await?;
    Ok(Value::map([(jid.as_str(), Value::Map(entries))]))
}

/// Returns all jobs, without their returns.
pub(crate) async fn list_jobs(client: &Client) -> Result<Value, ClientError> {
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        let before = jobs.last().map(|last| last.jid.clone());
        let page = client.job_list(PAGE, before).await?;
        if page.is_empty() {
            break;
        }
        jobs.extend(page);
    }
    jobs.reverse();
    Ok(Value::Map(
        jobs.iter()
            .map(|job| (job.jid.to_string(), Value::Map(instance(job))))
            .collect(),
    ))
}

async fn whole_job(client: &Client, jid: &Jid) -> Result<Vec<(String, Value)>, ClientError> {
    let job = client.job_lookup(jid).await?;
    let states = states(client, jid).await?;
    let minions = states.iter().map(|(minion, ..)| minion.as_str());
    let mut result = Vec::new();
    for stored in &returns(client, jid).await? {
        let answer = Value::map([
            ("return", value(stored)?),
            ("retcode", Value::Int(stored.retcode)),
            ("success", Value::Bool(stored.success)),
        ]);
        result.push((stored.minion.to_string(), answer));
    }
    let mut entries = instance(&job);
    entries.push(("Minions".to_owned(), Value::texts(minions)));
    entries.push(("Result".to_owned(), Value::Map(result)));
    Ok(entries)
}

/// Returns a job as Salt's job cache shows it.
fn instance(job: &Job) -> Vec<(String, Value)> {
    let arguments = job.arg.as_packed().unpack().unwrap_or_default();
    [
        ("Function", job.fun.as_str().into()),
        ("Arguments", arguments),
        ("Target", job.target.expression.as_str().into()),
        ("Target-type", job.target.kind.name().into()),
        ("User", job.user.as_str().into()),
        ("StartTime", dates::of_jid(&job.jid).into()),
    ]
    .map(|(key, value): (&str, Value)| (key.to_owned(), value))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, Style};
    use saline_protocol::message::{Arguments, Claims};
    use saline_protocol::target::Target;

    #[test]
    fn a_job_as_salts_job_cache_shows_it() {
        let job = Job {
            jid: Jid::parse("20261121091409931549").unwrap(),
            target: Target::glob("*"),
            fun: "cmd.run".to_owned(),
            arg: Arguments {
                positional: vec!["ls".into()],
                named: vec![("cwd".to_owned(), "/".into())],
            }
            .pack(),
            user: "root".to_owned(),
            created: 0,
            expires: 0,
            claims: Claims::NONE,
        };
        let data = Value::map([(job.jid.as_str(), Value::Map(instance(&job)))]);
        let text = Format::Nested.render(&data, Style::default(), false);
        insta::assert_snapshot!(String::from_utf8(text.unwrap()).unwrap(), @"
        20261121091409931549:
            ----------
            Arguments:
                - ls
                |_
                  ----------
                  __kwarg__:
                      True
                  cwd:
                      /
            Function:
                cmd.run
            StartTime:
                2026, Nov 21 09:14:09.931549
            Target:
                *
            Target-type:
                glob
            User:
                root
        ");
    }
}
