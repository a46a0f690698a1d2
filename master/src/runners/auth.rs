//! `auth`: who is logged in.

use std::sync::Arc;

use saline_config::LoginWay;
use saline_data::Value;
use saline_functions::{Failure, function};
use saline_messages::Jid;

use super::run::Run;
use super::{Functions, Returned, RunState};
use crate::authorize::external_owner;
use crate::logins::Login;

pub(super) const FUNCTIONS: Functions = &[&LIST, &REVOKE];

/// Returns who is logged in: for each login the user, the way (`eauth`), the groups, and the times of its start and its end in seconds
/// since 1970.
///
/// CLI Example:
///
///     saline-run auth.list
#[function]
async fn list(run: &Run) -> Result<Returned, Failure> {
    let logins = run.parts.logins.list(run.parts.master_clock.now());
    let shown = logins.iter().map(|login| {
        let seconds = |time: u64| Value::from(time / 1_000);
        Value::map([
            ("user", Value::from(login.user.as_str())),
            ("eauth", Value::from(login.way.name())),
            (
                "groups",
                Value::texts(login.groups.iter().map(String::as_str)),
            ),
            ("start", seconds(login.made)),
            ("expire", seconds(login.until)),
        ])
    });
    Ok(Value::List(shown.collect()).into())
}

/// Ends all logins of a user, whose tokens are valid no longer, and the runners that the user began. Returns the number of the
/// logins (`logins`), the jids of these runners (`runs`), and the jids of the jobs that the user ordered and that are not over
/// (`jobs`): these go on, until `jobs.cancel` keeps minions from beginning them and `saltutil.kill_job` ends them where they run. The
/// user may log in again: take the user out of `external_auth`, or out of its file of users, to keep that from happening. With
/// `test=True` ends nothing.
///
/// user
///     The name of the user.
///
/// eauth
///     The way by which the user logged in; every way if it is not given.
///
/// CLI Example:
///
///     saline-run auth.revoke alice
///     saline-run auth.revoke alice eauth=file
///     saline-run auth.revoke alice test=True
#[function(changes)]
async fn revoke(
    run: &Run,
    user: String,
    eauth: Option<String>,
    #[default(false)] test: bool,
) -> Result<Returned, Failure> {
    let way = match &eauth {
        None => None,
        Some(name) => match LoginWay::parse(name) {
            None => {
                let known = LoginWay::ALL.map(LoginWay::name).join(", ");
                return Err(Failure::Invocation(format!(
                    "{name:?} is not a way to log in; there are {known}"
                )));
            }
            way => way,
        },
    };
    let logins = Arc::clone(&run.parts.logins);
    let number = if test {
        let logins = logins.list(run.parts.master_clock.now());
        let is_meant = |login: &&Arc<Login>| login.is_of(&user, way);
        logins.iter().filter(is_meant).count()
    } else {
        let name = user.clone();
        let revoked = run
            .parts
            .context
            .spawn_blocking(move || logins.revoke(&name, way));
        let revoked = revoked
            .await
            .map_err(|_| Failure::Execution("the store of logins failed".to_owned()))?;
        revoked.map_err(|error| Failure::Execution(error.to_string()))?
    };
    // After the logins: whoever has none begins nothing more, but for a request that was let through just before.
    let runs = run.table.under_way().into_iter();
    let runs: Vec<Arc<RunState>> = runs
        .filter(|other| other.jid != run.jid && other.principal.logged_in_as(&user, way))
        .collect();
    if !test {
        for other in &runs {
            other.kill.cancel();
        }
        tracing::info!(
            "{number} logins of user {user:?} are ended, and {} runners",
            runs.len()
        );
    }
    let jobs = open_jobs(run, &user, way).await.unwrap_or_else(|failure| {
        // The logins are ended all the same.
        run.note(format!(
            "the jobs of {user} that go on are not known: {failure}"
        ));
        Vec::new()
    });
    if !jobs.is_empty() {
        run.note(format!(
            "{} jobs of {user} go on: saline-run jobs.cancel JID keeps minions from beginning one, and saline '*' saltutil.kill_job \
             JID ends it where it runs",
            jobs.len()
        ));
    }
    let jids = |jids: Vec<Jid>| Value::List(jids.iter().map(|jid| jid.as_str().into()).collect());
    let runs = runs.iter().map(|other| other.jid.clone()).collect();
    Ok(Value::map([
        ("logins", Value::from(number as u64)),
        ("runs", jids(runs)),
        ("jobs", jids(jobs)),
    ])
    .into())
}

/// Returns the jobs that a user ordered who logged in, by this way if one is given, and that minions may begin or run.
async fn open_jobs(run: &Run, user: &str, way: Option<LoginWay>) -> Result<Vec<Jid>, Failure> {
    let ways = LoginWay::ALL.into_iter();
    let ways = ways.filter(|one| way.is_none_or(|way| way == *one));
    let owners: Vec<String> = ways.map(|way| external_owner(way, user)).collect();
    let mut jobs = Vec::new();
    for jid in run.parts.jobs.jids_under_way() {
        let owner = run.parts.jobs.owner(&jid).await?;
        if owner.is_some_and(|owner| owners.contains(&owner)) {
            jobs.push(jid);
        }
    }
    Ok(jobs)
}
