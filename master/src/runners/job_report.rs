//! Jobs of the store in the shapes of Salt's job cache.
//!
//! What minions returned stays packed: as values it takes many times its size.

use saline_data::{Packed, Value};
use saline_functions::Failure;
use saline_messages::{Jid, MinionId, MinionJobState, PackedArguments, StoredReturn};
use saline_protocol::transport::Instant;

use super::cached_jobs;
use super::error::no_such_job;
use super::run::Run;
use super::shown_returns::ShownReturns;
use super::task::{MAX_RETURN, stored_form};
use crate::jobs::{FoundJob, StoredRun};

/// The bytes of returns that are read at once.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// The entries of a mapping whose values are packed.
pub(super) type Entries = Vec<(String, Packed)>;

/// The state of a minion in a job.
pub(super) type State = (MinionId, MinionJobState);

/// Returns the name of this master among minions, Salt's: runs have it as their target.
pub(super) fn master_name() -> String {
    let uname = rustix::system::uname();
    format!("{}_master", uname.nodename().to_string_lossy())
}

/// Returns the states of all minions of a job, by id.
pub(super) async fn states(run: &Run, jid: &Jid) -> Result<Vec<State>, Failure> {
    run.check_job(jid).await?;
    let found = run.parts.jobs.states(jid, None, usize::MAX).await?;
    let found = found.ok_or_else(|| no_such_job(jid))?;
    Ok(found.states)
}

/// Returns the time until which a run waits for minions: the master's `timeout` from now.
pub(super) fn patience(run: &Run) -> Instant {
    run.parts.clock().after(run.parts.settings.now().timeout)
}

/// Waits until no state of the job's minions is one that is waited for, or `until`. Returns the states.
pub(super) async fn settled_states(
    run: &Run,
    jid: &Jid,
    until: Instant,
    is_waited_for: impl Fn(&Run, &State) -> bool + Send + Sync,
) -> Result<Vec<State>, Failure> {
    let clock = run.parts.clock();
    loop {
        let changed = run.parts.jobs.state_changed().notified();
        let mut changed = std::pin::pin!(changed);
        // Before the look: a change during it is not missed.
        changed.as_mut().enable();
        let states = states(run, jid).await?;
        let waits = states.iter().any(|state| is_waited_for(run, state));
        if !waits || clock.deadline(until, changed).await.is_err() {
            return Ok(states);
        }
    }
}

/// Returns a stored run, if the jid is that of one. One that has just ended has its end, also if that is not on the disk
/// yet.
pub(super) async fn stored_run(run: &Run, jid: &Jid) -> Result<Option<StoredRun>, Failure> {
    let Some(mut stored) = run.parts.jobs.run(jid).await? else {
        return Ok(None);
    };
    run.check_owner(&stored.operator)?;
    if stored.end.is_none() {
        match run.table.with_jid(jid) {
            Some(other) => {
                let end = other.end().map(|end| stored_form(&other, &end));
                stored.end = end.transpose()?;
            }
            // It has ended while it was read, unless its master has stopped.
            None => return Ok(run.parts.jobs.run(jid).await?),
        }
    }
    Ok(Some(stored))
}

/// Returns the returns of a job, the readable ones as they are, by minion. One that cannot be read is replaced
/// by its bytes, and the largest ones by their sizes where all of them are too large for one answer; both are noted. So no
/// minion hides what the others returned.
pub(super) async fn returns(run: &Run, jid: &Jid) -> Result<Vec<StoredReturn>, Failure> {
    run.check_job(jid).await?;
    let (mut all, mut after) = (Vec::new(), 0);
    let mut shown = ShownReturns::default();
    loop {
        let page = run.parts.jobs.returns(jid, after, PAGE_BYTES).await?;
        let page = page.ok_or_else(|| no_such_job(jid))?;
        let Some(last) = page.returns.last() else {
            break;
        };
        after = last.receipt;
        // To find out whether returns can be read may take a while.
        let checking = run
            .parts
            .context
            .spawn_blocking(move || readable(page.returns));
        let checked = checking.await;
        let checked = checked.map_err(|error| Failure::Execution(error.to_string()))?;
        for (stored, unreadable) in checked {
            if let Some(error) = unreadable {
                let minion = &stored.minion;
                run.note(format!("{minion}: the return is shown as bytes: {error}"));
            }
            shown.add(&stored, all.len());
            all.push(stored);
        }
        shown.replace(run, &mut all, MAX_RETURN);
        if !page.more {
            break;
        }
    }
    all.sort_by(|a: &StoredReturn, b| a.minion.cmp(&b.minion));
    Ok(all)
}

/// Replaces what cannot be read by its bytes, and returns why with it.
fn readable(returns: Vec<StoredReturn>) -> Vec<(StoredReturn, Option<String>)> {
    let checked = returns.into_iter().map(|mut stored| {
        let error = stored.payload.unpack().err();
        if error.is_some() {
            stored.payload = Packed::pack(&stored.payload.unpack_or_show());
        }
        (stored, error.map(|error| error.to_string()))
    });
    checked.collect()
}

/// Returns a job with its minions and its returns, or a run with its return.
pub(super) async fn whole_job(run: &Run, jid: &Jid) -> Result<Entries, Failure> {
    if let Some(stored) = stored_run(run, jid).await? {
        return Ok(whole_run(stored));
    }
    run.check_job(jid).await?;
    let Some(stored) = run.parts.jobs.job(jid).await? else {
        let cached = cached_jobs::whole(run, jid).await?;
        let minions = cached.minions.iter().map(String::as_str);
        return Ok(with_result(&cached.job, minions, &cached.returns));
    };
    let metadata = run.parts.jobs.metadata(jid).await?;
    let states = states(run, jid).await?;
    let minions = states.iter().map(|(minion, _)| minion.as_str());
    let returns = returns(run, jid).await?;
    let job = stored.job;
    let job = FoundJob {
        jid: job.jid,
        fun: job.fun,
        arg: job.arg,
        target: job.target.expression,
        target_kind: job.target.kind.name().to_owned(),
        user: job.user,
        operator: stored.operator,
        metadata,
    };
    Ok(with_result(&job, minions, &returns))
}

fn with_result<'a>(
    job: &FoundJob,
    minions: impl Iterator<Item = &'a str>,
    returns: &[StoredReturn],
) -> Entries {
    let mut entries = instance(job);
    entries.push(packed("Minions", Value::texts(minions)));
    entries.push(("Result".to_owned(), result(returns)));
    entries
}

fn whole_run(stored: StoredRun) -> Entries {
    let mut entries = instance(&as_found(&stored));
    entries.push(packed("Minions", Value::texts([master_name()])));
    let result = stored.end.map(|end| {
        let retcode = if end.success { 0 } else { 1 };
        (master_name(), answer(end.payload, retcode, end.success))
    });
    entries.push(("Result".to_owned(), Packed::map(result)));
    entries
}

/// Returns a run as a job that was found.
pub(super) fn as_found(stored: &StoredRun) -> FoundJob {
    FoundJob {
        jid: stored.jid.clone(),
        fun: stored.kind.shown(&stored.fun),
        arg: stored.arg.clone(),
        target: master_name(),
        target_kind: "list".to_owned(),
        user: stored.user.clone(),
        operator: stored.operator.clone(),
        metadata: None,
    }
}

/// Returns the returns of a job as Salt's job cache shows them.
fn result(returns: &[StoredReturn]) -> Packed {
    Packed::map(returns.iter().map(|stored| {
        let answer = answer(stored.payload.clone(), stored.retcode, stored.success);
        (stored.minion.as_str(), answer)
    }))
}

fn answer(payload: Packed, retcode: i64, success: bool) -> Packed {
    Packed::map([
        ("return", payload),
        ("retcode", Packed::pack(&Value::Int(retcode))),
        ("success", Packed::pack(&Value::Bool(success))),
    ])
}

/// Returns a job as Salt's job cache shows it, and the operator who published it if that is not the user
/// whom the operator's program named.
pub(super) fn instance(job: &FoundJob) -> Entries {
    let mut entries = vec![
        packed("Function", job.fun.as_str().into()),
        packed("Arguments", arguments(&job.arg)),
        packed("Target", job.target.as_str().into()),
        packed("Target-type", job.target_kind.as_str().into()),
        packed("User", job.user.as_str().into()),
        packed("StartTime", start_time(&job.jid).into()),
    ];
    if job.operator != job.user {
        entries.push(packed("Operator", job.operator.as_str().into()));
    }
    if let Some(metadata) = &job.metadata {
        entries.push(packed("Metadata", metadata.unpack_or_show()));
    }
    entries
}

/// Returns arguments as they are shown.
pub(super) fn arguments(arg: &PackedArguments) -> Value {
    arg.as_packed().unpack_or_show()
}

fn packed(name: &str, value: Value) -> (String, Packed) {
    (name.to_owned(), Packed::pack(&value))
}

/// Returns the time in a jid as Salt's job cache shows it, in UTC: `2026, Nov 21 09:14:09.931549`. Digits that are no valid time
/// are returned unchanged. The zone is left to whoever prints the time: clients of Salt's API, such as SaltGUI, take it apart.
pub(super) fn start_time(jid: &Jid) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let text = jid.as_str();
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let month = part(4, 6).parse::<usize>().ok();
    match month.and_then(|month| MONTHS.get(month.wrapping_sub(1))) {
        Some(month) => format!(
            "{}, {month} {} {}:{}:{}.{}",
            part(0, 4),
            part(6, 8),
            part(8, 10),
            part(10, 12),
            part(12, 14),
            part(14, 20)
        ),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;
    use super::*;
    use saline_messages::Arguments;

    fn job() -> FoundJob {
        let arg = Arguments {
            positional: vec!["ls".into()],
            named: vec![("cwd".to_owned(), "/".into())],
        };
        FoundJob {
            jid: Jid::parse("20261121091409931549").unwrap(),
            fun: "cmd.run".to_owned(),
            arg: arg.pack(),
            target: "*".to_owned(),
            target_kind: "glob".to_owned(),
            user: "root".to_owned(),
            operator: "root".to_owned(),
            metadata: None,
        }
    }

    fn shown_job(job: &FoundJob) -> String {
        shown(&Packed::map(instance(job)).unpack().unwrap())
    }

    #[test]
    fn a_job_as_salts_job_cache_shows_it() {
        let usual = "{Function: cmd.run, Arguments: [ls, {__kwarg__: true, cwd: /}], Target: *, \
                     Target-type: glob, User: root, StartTime: 2026, Nov 21 09:14:09.931549";
        assert_eq!(shown_job(&job()), format!("{usual}}}"));
        let noted = FoundJob {
            metadata: Some(Packed::pack(&Value::map([("ticket", Value::Int(4711))]))),
            ..job()
        };
        assert_eq!(
            shown_job(&noted),
            format!("{usual}, Metadata: {{ticket: 4711}}}}")
        );
        let no_time = Jid::parse("00000000000000000000").unwrap();
        assert_eq!(start_time(&no_time), "00000000000000000000");
    }

    #[test]
    fn the_operator_is_shown_beside_a_user_of_another_name() {
        let operator = |job: &FoundJob| {
            let shown = Packed::map(instance(job)).unpack().unwrap();
            assert_eq!(shown.get("User"), Some(&"root".into()));
            shown.get("Operator").cloned()
        };
        assert_eq!(operator(&job()), None);
        let other = FoundJob {
            operator: "ann".to_owned(),
            ..job()
        };
        assert_eq!(operator(&other), Some("ann".into()));
    }

    #[test]
    fn a_return_that_cannot_be_read_spoils_its_own_entry_only() {
        let stored = |minion: &str, payload: Packed| StoredReturn {
            receipt: 1,
            minion: MinionId::parse(minion).unwrap(),
            retcode: 0,
            success: true,
            payload,
        };
        let returns = vec![
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
        let checked = readable(returns);
        let told: Vec<bool> = checked.iter().map(|(_, error)| error.is_some()).collect();
        assert_eq!(told, [false, true, true, true, false]);
        let returns: Vec<StoredReturn> = checked.into_iter().map(|(stored, _)| stored).collect();
        let result = result(&returns).unpack().unwrap();
        let of = |minion: &str| result.get(minion).unwrap().get("return").cloned().unwrap();
        assert_eq!(of("m000"), Value::Bool(true));
        assert_eq!(of("m003"), Value::Bytes(vec![0xc1]));
        assert_eq!(of("m004"), Value::Bool(true));
    }
}
