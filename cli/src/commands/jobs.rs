//! `jobs.*`: jobs of the store, in the shapes of Salt's job cache.

use std::collections::HashSet;
use std::time::Duration;

use saline_client::{Absence, Client, ClientError, EventFilter};
use saline_protocol::message::{
    EventTag, Jid, MinionId, OfferState, StoredJob, StoredReturn, Value,
};
use saline_protocol::printable::escape_line;

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
pub(super) type State = (MinionId, OfferState, bool);

/// Reads the states of all minions of a job, by minion.
pub(super) async fn states(client: &Client, jid: &Jid) -> Result<Vec<State>, ClientError> {
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

/// Returns the value of a return. One that cannot be read is shown as bytes and told in a line, so that it
/// does not hide the returns of other minions.
fn value(screen: &mut Screen<'_>, stored: &StoredReturn) -> Value {
    if let Err(error) = stored.payload.unpack() {
        screen.complain(format!(
            "{}: {}",
            stored.minion,
            escape_line(&format!("the return is shown as bytes: {error}"))
        ));
    }
    stored.payload.unpack_or_show()
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
        entries.push((stored.minion.to_string(), value(screen, stored)));
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
pub(crate) async fn list_job(
    screen: &mut Screen<'_>,
    client: &Client,
    jid: &Jid,
) -> Result<Value, ClientError> {
    let mut entries = whole_job(screen, client, jid).await?;
    entries.push(("jid".to_owned(), jid.as_str().into()));
    Ok(Value::Map(entries))
}

/// Returns the same below the jid.
pub(crate) async fn print_job(
    screen: &mut Screen<'_>,
    client: &Client,
    jid: &Jid,
) -> Result<Value, ClientError> {
    let entries = whole_job(screen, client, jid).await?;
    Ok(Value::map([(jid.as_str(), Value::Map(entries))]))
}

/// Returns all jobs, without their returns.
pub(crate) async fn list_jobs(client: &Client) -> Result<Value, ClientError> {
    let mut jobs: Vec<StoredJob> = Vec::new();
    loop {
        let before = jobs.last().map(|last| last.job.jid.clone());
        let page = client.job_list(PAGE, before).await?;
        if page.is_empty() {
            break;
        }
        jobs.extend(page);
    }
    jobs.reverse();
    Ok(Value::Map(
        jobs.iter()
            .map(|stored| (stored.job.jid.to_string(), Value::Map(instance(stored))))
            .collect(),
    ))
}

async fn whole_job(
    screen: &mut Screen<'_>,
    client: &Client,
    jid: &Jid,
) -> Result<Vec<(String, Value)>, ClientError> {
    let job = client.job_lookup(jid).await?;
    let states = states(client, jid).await?;
    let minions = states.iter().map(|(minion, ..)| minion.as_str());
    let returns = returns(client, jid).await?;
    let mut entries = instance(&job);
    entries.push(("Minions".to_owned(), Value::texts(minions)));
    entries.push(("Result".to_owned(), result(screen, &returns)));
    Ok(entries)
}

/// Returns the returns of a job as Salt's job cache shows them.
fn result(screen: &mut Screen<'_>, returns: &[StoredReturn]) -> Value {
    let answers = returns.iter().map(|stored| {
        let answer = Value::map([
            ("return", value(screen, stored)),
            ("retcode", Value::Int(stored.retcode)),
            ("success", Value::Bool(stored.success)),
        ]);
        (stored.minion.to_string(), answer)
    });
    Value::Map(answers.collect())
}

/// Returns a job as Salt's job cache shows it, and the operator who published it if that is not the user
/// whom the operator's program named.
fn instance(stored: &StoredJob) -> Vec<(String, Value)> {
    let job = &stored.job;
    let arguments = job.arg.as_packed().unpack_or_show();
    let mut entries: Vec<(String, Value)> = [
        ("Function", job.fun.as_str().into()),
        ("Arguments", arguments),
        ("Target", job.target.expression.as_str().into()),
        ("Target-type", job.target.kind.name().into()),
        ("User", job.user.as_str().into()),
        ("StartTime", dates::of_jid(&job.jid).into()),
    ]
    .map(|(key, value): (&str, Value)| (key.to_owned(), value))
    .into();
    if stored.operator != job.user {
        entries.push(("Operator".to_owned(), stored.operator.as_str().into()));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, Style};
    use crate::screen::Printed;
    use saline_protocol::message::{Arguments, Claims, Job, Packed};
    use saline_protocol::target::Target;

    #[test]
    fn a_return_that_cannot_be_read_spoils_its_own_line_only() {
        let stored = |minion: &str, payload: Packed| StoredReturn {
            receipt: 1,
            minion: MinionId::parse(minion).unwrap(),
            retcode: 0,
            success: true,
            payload,
        };
        let returns = [
            stored("m000", Packed::pack(&Value::Bool(true))),
            // It nests too deeply, announces what does not come, and is no MessagePack.
            stored("m001", Packed::from_bytes(vec![0x91; 200])),
            stored(
                "m002",
                Packed::from_bytes(vec![0xdd, 0xff, 0xff, 0xff, 0xff]),
            ),
            stored("m003", Packed::from_bytes(vec![0xc1])),
            stored("m004", Packed::pack(&Value::Bool(true))),
        ];
        let mut printed = Printed::default();
        let Value::Map(entries) = result(&mut printed.screen(&[]), &returns) else {
            panic!("a mapping");
        };
        let of = |minion: &str| {
            let (_, answer) = entries.iter().find(|(name, _)| name == minion).unwrap();
            answer.get("return").cloned().unwrap()
        };
        assert_eq!(entries.len(), 5);
        for good in ["m000", "m004"] {
            assert_eq!(of(good), Value::Bool(true));
        }
        assert_eq!(of("m003"), Value::Bytes(vec![0xc1]));
        let told = String::from_utf8(printed.err).unwrap();
        let told: Vec<_> = told.lines().map(|line| &line[..34]).collect();
        assert_eq!(
            told,
            ["m001", "m002", "m003"].map(|id| format!("{id}: the return is shown as bytes"))
        );
    }

    #[test]
    fn a_job_as_salts_job_cache_shows_it() {
        let stored = job();
        let data = Value::map([(stored.job.jid.as_str(), Value::Map(instance(&stored)))]);
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

    #[test]
    fn the_operator_is_shown_beside_a_user_of_another_name() {
        let operator = |stored: &StoredJob| {
            let shown = Value::Map(instance(stored));
            assert_eq!(shown.get("User"), Some(&stored.job.user.as_str().into()));
            shown.get("Operator").cloned()
        };
        let mut stored = job();
        assert_eq!(operator(&stored), None);
        stored.operator = "ann".to_owned();
        assert_eq!(operator(&stored), Some("ann".into()));
    }

    fn job() -> StoredJob {
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
        StoredJob {
            job,
            operator: "root".to_owned(),
            batch: None,
        }
    }
}
