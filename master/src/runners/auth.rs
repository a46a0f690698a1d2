//! `auth`: who is logged in.

use std::sync::Arc;

use saline_config::LoginWay;
use saline_data::Value;
use saline_functions::{Failure, function};

use super::run::Run;
use super::{Functions, Returned};
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

/// Ends all logins of a user, whose tokens are valid no longer. Returns their number. The user may log in again: take the user out of
/// `external_auth`, or out of its file of users, to keep that from happening. With `test=True` ends nothing.
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
    if test {
        let logins = run.parts.logins.list(run.parts.master_clock.now());
        let is_meant = |login: &&Arc<Login>| login.is_of(&user, way);
        let number = logins.iter().filter(is_meant).count();
        return Ok(Value::from(number as u64).into());
    }
    let logins = Arc::clone(&run.parts.logins);
    let name = user.clone();
    let revoked = run
        .parts
        .context
        .spawn_blocking(move || logins.revoke(&name, way));
    let revoked = revoked
        .await
        .map_err(|_| Failure::Execution("the store of logins failed".to_owned()))?;
    let number = revoked.map_err(|error| Failure::Execution(error.to_string()))?;
    tracing::info!("{number} logins of user {user:?} are ended");
    Ok(Value::from(number as u64).into())
}
