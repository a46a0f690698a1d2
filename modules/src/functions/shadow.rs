//! `shadow`: passwords, and how long they hold.

use saline_data::Value;
use saline_functions::{Failure, Secret, function};
use sha_crypt::{Sha256Params, Sha512Params, sha256_crypt_b64, sha512_crypt_b64};

use super::user::no_such;
use crate::change::change;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &INFO,
    &GEN_PASSWORD,
    &SET_PASSWORD,
    &DEL_PASSWORD,
    &LOCK_PASSWORD,
    &UNLOCK_PASSWORD,
    &SET_DATE,
    &SET_MINDAYS,
    &SET_MAXDAYS,
    &SET_WARNDAYS,
    &SET_INACTDAYS,
    &SET_EXPIRE,
];

/// The rounds of a hash, which crypt(3) takes if none are named.
const ROUNDS: usize = 5_000;

/// The letters of salts.
const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A line of `/etc/shadow`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    hash: String,
    /// The last change, and the days: least, most, before the warning, after the end, and of the account's end.
    days: [i64; 6],
}

/// The names of an entry's days, in Salt's words.
const DAYS: [&str; 6] = ["lstchg", "min", "max", "warn", "inact", "expire"];

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.trim_end().split(':');
        let (name, hash) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let days = std::array::from_fn(|_| {
            fields
                .next()
                .and_then(|days| days.parse().ok())
                .unwrap_or(-1)
        });
        Some(Self { name, hash, days })
    }

    /// Returns what kind of password there is, without its hash.
    fn state(&self) -> &'static str {
        match self.hash.as_str() {
            "" => "empty",
            hash if hash.starts_with('!') => "locked",
            hash if hash.starts_with('*') => "none",
            _ => "set",
        }
    }
}

/// Returns how long the password of a user holds, in days: `lstchg` and `expire` since 1970, `min`, `max`, `warn` and `inact`
/// as chage(1) says; -1 where nothing is set. `passwd` says whether the password is `set`, `locked`, `empty` or `none`. An
/// empty mapping if there is no such user.
///
/// show_hash
///     Whether `passwd` is the hash instead. The master stores what a job returns.
///
/// CLI Example:
///
///     saline '*' shadow.info root
#[function]
fn info(
    job: &JobContext<'_>,
    name: String,
    #[default(false)] show_hash: bool,
) -> Result<Value, Failure> {
    let Some(entry) = find(job, &name)? else {
        return Ok(Value::Map(Vec::new()));
    };
    let passwd = match show_hash {
        true => entry.hash.as_str(),
        false => entry.state(),
    };
    let mut shown = vec![("name", Value::from(name)), ("passwd", Value::from(passwd))];
    shown.extend(DAYS.into_iter().zip(entry.days.map(Value::from)));
    Ok(Value::map(shown))
}

/// Returns the hash of a password, as `shadow.set_password` takes it.
///
/// crypt_salt
///     The salt: up to sixteen letters, digits, dots and slashes; a random one by default.
///
/// algorithm
///     `sha512` or `sha256`.
///
/// CLI Example:
///
///     saline '*' shadow.gen_password 'correct horse'
#[function]
fn gen_password(
    _: &JobContext<'_>,
    password: Secret<String>,
    crypt_salt: Option<String>,
    #[default("sha512")] algorithm: String,
) -> Result<String, Failure> {
    let salt = match crypt_salt {
        Some(salt) => salt,
        None => random_salt()?,
    };
    let is_letter = |byte: u8| LETTERS.contains(&byte);
    if salt.is_empty() || salt.len() > 16 || !salt.bytes().all(is_letter) {
        let why = "crypt_salt: it must be one to sixteen letters, digits, dots and slashes";
        return Err(Failure::Invocation(why.to_owned()));
    }
    let (password, letters) = (password.reveal().as_bytes(), salt.as_bytes());
    // Neither error shows the password.
    let failed = |error: sha_crypt::CryptError| {
        Failure::Execution(format!("cannot hash the password: {error:?}"))
    };
    match algorithm.as_str() {
        "sha512" => {
            let rounds = Sha512Params::new(ROUNDS).map_err(failed)?;
            let hash = sha512_crypt_b64(password, letters, &rounds).map_err(failed)?;
            Ok(format!("$6${salt}${hash}"))
        }
        "sha256" => {
            let rounds = Sha256Params::new(ROUNDS).map_err(failed)?;
            let hash = sha256_crypt_b64(password, letters, &rounds).map_err(failed)?;
            Ok(format!("$5${salt}${hash}"))
        }
        other => Err(Failure::Invocation(format!(
            "algorithm: {other:?} is neither sha512 nor sha256"
        ))),
    }
}

/// Sets the password of a user. Returns what kind of password there was and is, `{old, new}`, nothing if it is the same.
///
/// password
///     The hash of the password, such as `shadow.gen_password` returns; not the password itself.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' shadow.set_password ann '$6$saltsalt$...'
#[function(changes)]
fn set_password(
    job: &JobContext<'_>,
    name: String,
    password: Secret<String>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let hash = password.reveal();
    let is_hash = hash.starts_with('$') || hash.starts_with('!') || hash.starts_with('*');
    if !is_hash || hash.contains([':', '\n', '\r', '\0']) {
        let why = "password: it must be a hash, as shadow.gen_password returns it";
        return Err(Failure::Invocation(why.to_owned()));
    }
    let old = known(job, &name)?;
    if old.hash == *hash {
        return Ok(change("", ""));
    }
    if test {
        return Ok(changed(old.state(), "set"));
    }
    job.succeed(&["chpasswd", "-e"], &format!("{name}:{hash}\n"))?;
    Ok(changed(old.state(), known(job, &name)?.state()))
}

/// Removes the password of a user, who needs none then to log in. Returns `{old, new}`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' shadow.del_password ann
#[function(changes)]
fn del_password(
    job: &JobContext<'_>,
    name: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let old = known(job, &name)?;
    if !old.hash.is_empty() && !test {
        job.succeed(&["passwd", "-q", "-d", "--", &name], "")?;
    }
    Ok(change(old.state(), "empty"))
}

/// Locks the password of a user: it is kept, and cannot be used. Keys of ssh still work. Returns `{old, new}`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' shadow.lock_password ann
#[function(changes)]
fn lock_password(
    job: &JobContext<'_>,
    name: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let old = known(job, &name)?;
    if old.state() != "locked" && !test {
        job.succeed(&["usermod", "-L", "--", &name], "")?;
    }
    Ok(change(old.state(), "locked"))
}

/// Unlocks the password of a user. Returns `{old, new}`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' shadow.unlock_password ann
#[function(changes)]
fn unlock_password(
    job: &JobContext<'_>,
    name: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let old = known(job, &name)?;
    if old.state() != "locked" {
        return Ok(change("", ""));
    }
    if test {
        return Ok(change("locked", "set"));
    }
    job.succeed(&["usermod", "-U", "--", &name], "")?;
    Ok(change("locked", known(job, &name)?.state()))
}

/// Sets the day of the last change of a user's password: a date, or days since 1970; 0 makes the user change it. Returns days,
/// `{old, new}`.
///
/// test
///     Only tells what would be asked for.
///
/// CLI Example:
///
///     saline '*' shadow.set_date ann 0
#[function(changes)]
fn set_date(
    job: &JobContext<'_>,
    name: String,
    date: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_days(job, &name, ("-d", 0), &date, test)
}

/// Sets the days that a user must keep a password. Returns `{old, new}`.
///
/// test
///     Only tells what would be asked for.
///
/// CLI Example:
///
///     saline '*' shadow.set_mindays ann 1
#[function(changes)]
fn set_mindays(
    job: &JobContext<'_>,
    name: String,
    mindays: i64,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_days(job, &name, ("-m", 1), &mindays.to_string(), test)
}

/// Sets the days after which a user must change the password; -1 for no end. Returns `{old, new}`.
///
/// test
///     Only tells what would be asked for.
///
/// CLI Example:
///
///     saline '*' shadow.set_maxdays ann 90
#[function(changes)]
fn set_maxdays(
    job: &JobContext<'_>,
    name: String,
    maxdays: i64,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_days(job, &name, ("-M", 2), &maxdays.to_string(), test)
}

/// Sets the days before the end of a password on which a user is warned. Returns `{old, new}`.
///
/// test
///     Only tells what would be asked for.
///
/// CLI Example:
///
///     saline '*' shadow.set_warndays ann 7
#[function(changes)]
fn set_warndays(
    job: &JobContext<'_>,
    name: String,
    warndays: i64,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_days(job, &name, ("-W", 3), &warndays.to_string(), test)
}

/// Sets the days after the end of a password on which it is still taken; -1 for no end. Returns `{old, new}`.
///
/// test
///     Only tells what would be asked for.
///
/// CLI Example:
///
///     saline '*' shadow.set_inactdays ann 14
#[function(changes)]
fn set_inactdays(
    job: &JobContext<'_>,
    name: String,
    inactdays: i64,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_days(job, &name, ("-I", 4), &inactdays.to_string(), test)
}

/// Sets the day on which an account ends: a date, or days since 1970; -1 for none. Returns days, `{old, new}`.
///
/// test
///     Only tells what would be asked for.
///
/// CLI Example:
///
///     saline '*' shadow.set_expire ann 2027-01-31
#[function(changes)]
fn set_expire(
    job: &JobContext<'_>,
    name: String,
    expire: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_days(job, &name, ("-E", 5), &expire, test)
}

/// Runs chage, and returns how the days with this number changed.
fn set_days(
    job: &JobContext<'_>,
    name: &str,
    (option, number): (&str, usize),
    days: &str,
    test: bool,
) -> Result<Value, Failure> {
    let old = known(job, name)?.days[number];
    let wanted = days
        .parse::<i64>()
        .map_or_else(|_| Value::from(days), Value::from);
    let done = change(old, wanted);
    if test || done == Value::Map(Vec::new()) {
        return Ok(done);
    }
    job.succeed(&["chage", option, days, "--", name], "")?;
    Ok(change(old, known(job, name)?.days[number]))
}

/// Returns `{old, new}` also if both are the same: a hash changed that is not shown.
fn changed(old: &str, new: &str) -> Value {
    Value::map([("old", Value::from(old)), ("new", Value::from(new))])
}

fn find(job: &JobContext<'_>, name: &str) -> Result<Option<Entry>, Failure> {
    let line = job.name_service("shadow", Some(name))?;
    Ok(Entry::parse(&line).filter(|entry| entry.name == name))
}

/// Returns the entry of a user that there must be.
fn known(job: &JobContext<'_>, name: &str) -> Result<Entry, Failure> {
    find(job, name)?.ok_or_else(|| no_such("user with a password", name))
}

fn random_salt() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::Execution(format!("the system gives no random numbers: {error}"))
    })?;
    Ok(bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 64)]))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_shows_no_hash() {
        let entry = Entry::parse("ann:$6$salt$hash:19000:0:99999:7:::\n").unwrap();
        assert_eq!(entry.days, [19000, 0, 99999, 7, -1, -1]);
        for (hash, state) in [
            ("", "empty"),
            ("!$6$x", "locked"),
            ("*", "none"),
            ("$6$x", "set"),
        ] {
            let entry = Entry {
                hash: hash.to_owned(),
                ..entry.clone()
            };
            assert_eq!(entry.state(), state);
        }
    }
}
