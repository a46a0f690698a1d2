//! `user`: the users of the machine. The file is long since each function checks before it acts what useradd and usermod refuse, so that
//! `test=True` refuses it too.

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};

use crate::accounts::{Account, checked_name};
use crate::change::change;
use crate::system_program::in_one_line;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &ADD,
    &DELETE,
    &INFO,
    &GETENT,
    &LIST_USERS,
    &LIST_GROUPS,
    &PRIMARY_GROUP,
    &CHUID,
    &CHGID,
    &CHSHELL,
    &CHHOME,
    &CHFULLNAME,
    &CHGROUPS,
    &RENAME,
];

/// Names: a text with commas, or a list.
pub(super) struct Names(Vec<String>);

impl FromValue for Names {
    const TAKES: &'static str = "names with commas between them, or a list of them";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let names: Vec<String> = match value {
            list @ Value::List(_) => Vec::from_value(list)?,
            one => String::from_value(one)?
                .split(',')
                .map(str::to_owned)
                .collect(),
        };
        Ok(Self(
            names.into_iter().filter(|name| !name.is_empty()).collect(),
        ))
    }
}

impl Names {
    /// Returns the names, in order, with commas between them.
    ///
    /// # Errors
    /// When one of them cannot be a name.
    pub(super) fn joined(&self) -> Result<String, Failure> {
        let mut names = Vec::new();
        for name in &self.0 {
            names.push(checked_name(name)?);
        }
        names.sort_unstable();
        names.dedup();
        Ok(names.join(","))
    }
}

/// Creates a user. Returns the new user, `{old, new}`, nothing if there is one of this name already.
///
/// uid
///     The number; the next free one by default.
///
/// gid
///     The user's own group, by name or number.
///
/// groups
///     Further groups, as a list or with commas between them.
///
/// unique
///     Whether a number that another user has is refused.
///
/// system
///     Whether the number is one of those for services.
///
/// usergroup
///     Whether to create a group of the same name; by default as the system is configured.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' user.add ann uid=1042 groups=adm,sudo shell=/bin/bash
#[function(changes)]
#[expect(clippy::too_many_arguments, reason = "they are Salt's")]
fn add(
    job: &JobContext<'_>,
    name: String,
    uid: Option<u64>,
    gid: Option<String>,
    groups: Option<Names>,
    home: Option<String>,
    shell: Option<String>,
    #[default(true)] unique: bool,
    #[default(false)] system: bool,
    #[default("")] fullname: String,
    #[default("")] roomnumber: String,
    #[default("")] workphone: String,
    #[default("")] homephone: String,
    #[default(true)] createhome: bool,
    usergroup: Option<bool>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    checked_name(&name)?;
    if job.account(&name)?.is_some() {
        return Ok(change("", ""));
    }
    let uid = uid
        .map(|uid| new_number(job, "user", uid, unique))
        .transpose()?;
    let groups = groups
        .map(|groups| joined_groups(job, &groups))
        .transpose()?;
    let gecos = [fullname, roomnumber, workphone, homephone];
    let gecos = gecos.join(",").trim_end_matches(',').to_owned();
    let gid = gid
        .as_deref()
        .map(|gid| existing_group(job, gid))
        .transpose()?;
    let home = home
        .as_deref()
        .map(|home| checked_path("home", home))
        .transpose()?;
    let shell = shell.as_deref().map(checked_shell).transpose()?;
    let mut words = vec!["useradd", if createhome { "-m" } else { "-M" }];
    for (option, value) in [
        ("-u", uid.as_deref()),
        ("-g", gid),
        ("-G", groups.as_deref()),
        ("-d", home),
        ("-s", shell),
        ("-c", Some(&*gecos).filter(|gecos| !gecos.is_empty())),
    ] {
        if let Some(value) = value {
            words.extend([option, checked_field(value)?]);
        }
    }
    words.extend((!unique).then_some("-o"));
    words.extend(system.then_some("-r"));
    words.extend(usergroup.map(|own| if own { "-U" } else { "-N" }));
    words.extend(["--", &name]);
    if test {
        return Ok(change(Value::Null, name.as_str()));
    }
    job.succeed(&words, "")?;
    Ok(change(Value::Null, info_of(job, &known(job, &name)?)?))
}

/// Deletes a user. Returns the user that was there, `{old, new}`, nothing if there is none.
///
/// remove
///     Whether to delete the home and the mail too.
///
/// force
///     Whether to delete a user who is logged in.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' user.delete ann remove=True
#[function(changes)]
fn delete(
    job: &JobContext<'_>,
    name: String,
    #[default(false)] remove: bool,
    #[default(false)] force: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let Some(account) = job.account(&name)? else {
        return Ok(change("", ""));
    };
    let done = change(info_of(job, &account)?, Value::Null);
    if test {
        return Ok(done);
    }
    let mut words = vec!["userdel"];
    words.extend(remove.then_some("-r"));
    words.extend(force.then_some("-f"));
    words.extend(["--", &name]);
    let end = job.program(&words, "")?;
    // userdel deletes the user and then says 12 when there was no home or mail to delete.
    match (end.retcode, job.account(&name)?) {
        (0 | 12, None) => Ok(done),
        _ => Err(Failure::Execution(format!(
            "userdel failed: {}",
            in_one_line(end.stderr.lines())
        ))),
    }
}

/// Returns a user: numbers, home, shell, full name and groups; an empty mapping if there is none of this name.
///
/// CLI Example:
///
///     saline '*' user.info root
#[function]
fn info(job: &JobContext<'_>, name: String) -> Result<Value, Failure> {
    match job.account(&name)? {
        Some(account) => info_of(job, &account),
        None => Ok(Value::Map(Vec::new())),
    }
}

/// Returns all users as `user.info` does.
///
/// CLI Example:
///
///     saline '*' user.getent
#[function]
fn getent(job: &JobContext<'_>) -> Result<Value, Failure> {
    let accounts = Account::all_of(&job.name_service("passwd", None)?);
    let groups = crate::accounts::Group::all_of(&job.name_service("group", None)?);
    let found = accounts.iter().map(|account| {
        let own = groups
            .iter()
            .filter(|group| group.gid == account.gid || group.members.contains(&account.name));
        let mut names: Vec<String> = own.map(|group| group.name.clone()).collect();
        names.sort_unstable();
        shown(account, names)
    });
    Ok(Value::List(found.collect()))
}

/// Returns the names of all users.
///
/// CLI Example:
///
///     saline '*' user.list_users
#[function]
fn list_users(job: &JobContext<'_>) -> Result<Value, Failure> {
    let accounts = Account::all_of(&job.name_service("passwd", None)?);
    let mut names: Vec<String> = accounts.into_iter().map(|account| account.name).collect();
    names.sort_unstable();
    Ok(Value::texts(names))
}

/// Returns the names of the groups that a user is in.
///
/// CLI Example:
///
///     saline '*' user.list_groups ann
#[function]
fn list_groups(job: &JobContext<'_>, name: String) -> Result<Value, Failure> {
    Ok(Value::texts(groups_of(job, &known(job, &name)?)?))
}

/// Returns the name of a user's own group.
///
/// CLI Example:
///
///     saline '*' user.primary_group ann
#[function]
fn primary_group(job: &JobContext<'_>, name: String) -> Result<String, Failure> {
    let gid = known(job, &name)?.gid.to_string();
    let line = job.name_service("group", Some(&gid))?;
    let found = line.split_once(':').map(|(group, _)| group.to_owned());
    Ok(found.unwrap_or(gid))
}

/// Changes the number of a user. Files in the home get it too. Returns `{old, new}`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' user.chuid ann 1043
#[function(changes)]
fn chuid(
    job: &JobContext<'_>,
    name: String,
    uid: u64,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    if u64::from(known(job, &name)?.uid) != uid {
        new_number(job, "user", uid, true)?;
    }
    let field = |account: &Account| Value::from(u64::from(account.uid));
    modify(
        job,
        &name,
        &["-u", &uid.to_string()],
        field,
        uid.into(),
        test,
    )
}

/// Changes the own group of a user, by its name or number. Returns its number, `{old, new}`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' user.chgid ann users
#[function(changes)]
fn chgid(
    job: &JobContext<'_>,
    name: String,
    gid: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let line = job.name_service("group", Some(&gid))?;
    let number = line
        .split(':')
        .nth(2)
        .and_then(|number| number.parse::<u64>().ok());
    let number = number.ok_or_else(|| no_such("group", &gid))?;
    let field = |account: &Account| Value::from(u64::from(account.gid));
    modify(job, &name, &["-g", &gid], field, number.into(), test)
}

/// Changes the login shell of a user. Returns `{old, new}`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' user.chshell ann /bin/zsh
#[function(changes)]
fn chshell(
    job: &JobContext<'_>,
    name: String,
    shell: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let field = |account: &Account| Value::from(account.shell.as_str());
    modify(
        job,
        &name,
        &["-s", checked_shell(&shell)?],
        field,
        shell.as_str().into(),
        test,
    )
}

/// Changes the home of a user. Returns `{old, new}`.
///
/// persist
///     Whether to move what is in the old one.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' user.chhome ann /srv/ann persist=True
#[function(changes)]
fn chhome(
    job: &JobContext<'_>,
    name: String,
    home: String,
    #[default(false)] persist: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let mut options = vec!["-d", checked_path("home", &home)?];
    options.extend(persist.then_some("-m"));
    let field = |account: &Account| Value::from(account.home.as_str());
    modify(job, &name, &options, field, home.as_str().into(), test)
}

/// Changes the full name of a user. Returns `{old, new}`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' user.chfullname ann 'Ann Example'
#[function(changes)]
fn chfullname(
    job: &JobContext<'_>,
    name: String,
    fullname: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    if fullname.contains(',') {
        let why = "fullname: it must not contain a comma, which ends the field";
        return Err(Failure::Invocation(why.to_owned()));
    }
    let old = known(job, &name)?.gecos;
    let gecos = match old.split_once(',') {
        Some((_, rest)) => format!("{fullname},{rest}"),
        None => fullname.clone(),
    };
    let field = |account: &Account| Value::from(gecos_fields(account)[0]);
    modify(
        job,
        &name,
        &["-c", checked_field(&gecos)?],
        field,
        fullname.into(),
        test,
    )
}

/// Changes the further groups of a user, beside the own one. Returns the groups, `{old, new}`.
///
/// groups
///     A list, or names with commas between them.
///
/// append
///     Whether the user stays in the groups that are not named.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' user.chgroups ann adm,sudo append=True
#[function(changes)]
fn chgroups(
    job: &JobContext<'_>,
    name: String,
    groups: Names,
    #[default(false)] append: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let wanted = joined_groups(job, &groups)?;
    let account = known(job, &name)?;
    let own = primary_group(job, name.clone())?;
    let old = groups_of(job, &account)?;
    let mut new: Vec<String> = wanted
        .split(',')
        .filter(|group| !group.is_empty())
        .map(str::to_owned)
        .collect();
    new.push(own);
    if append {
        new.extend(old.iter().cloned());
    }
    new.sort_unstable();
    new.dedup();
    let done = change(
        Value::texts(old.iter().map(String::as_str)),
        Value::texts(new),
    );
    if done == Value::Map(Vec::new()) || test {
        return Ok(done);
    }
    let mut words = vec!["usermod", "-G", &wanted];
    words.extend(append.then_some("-a"));
    words.extend(["--", &name]);
    job.succeed(&words, "")?;
    Ok(change(
        Value::texts(old),
        Value::texts(groups_of(job, &account)?),
    ))
}

/// Renames a user; the home keeps its name. Returns `{old, new}`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' user.rename ann anna
#[function(changes)]
fn rename(
    job: &JobContext<'_>,
    name: String,
    new_name: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    known(job, &name)?;
    checked_name(&new_name)?;
    if name != new_name && job.account(&new_name)?.is_some() {
        return Err(Failure::Execution(format!(
            "new_name: there is a user {new_name:?} already: give another name"
        )));
    }
    if !test && name != new_name {
        job.succeed(&["usermod", "-l", &new_name, "--", &name], "")?;
    }
    Ok(change(name, new_name))
}

/// Runs usermod if the field has not the value `wanted`, and returns how the field changed.
fn modify(
    job: &JobContext<'_>,
    name: &str,
    options: &[&str],
    field: impl Fn(&Account) -> Value,
    wanted: Value,
    test: bool,
) -> Result<Value, Failure> {
    let old = field(&known(job, name)?);
    let done = change(old.clone(), wanted);
    if done == Value::Map(Vec::new()) || test {
        return Ok(done);
    }
    job.succeed(&[&["usermod"], options, &["--", name]].concat(), "")?;
    Ok(change(old, field(&known(job, name)?)))
}

/// Returns a user that there must be.
pub(super) fn known(job: &JobContext<'_>, name: &str) -> Result<Account, Failure> {
    job.account(name)?.ok_or_else(|| no_such("user", name))
}

/// Returns the number of a new `user` or `group` as a word.
///
/// # Errors
/// When none can have it, and if it must be `unique`, when one has it.
pub(super) fn new_number(
    job: &JobContext<'_>,
    what: &str,
    number: u64,
    unique: bool,
) -> Result<String, Failure> {
    let (table, field) = match what {
        "user" => ("passwd", "uid"),
        _ => ("group", "gid"),
    };
    // The greatest one stands for none in system calls.
    if number >= u64::from(u32::MAX) {
        let max = u32::MAX - 1;
        return Err(Failure::Invocation(format!(
            "{field}: no {what} can have {number}: give a number up to {max}"
        )));
    }
    let word = number.to_string();
    if unique {
        let line = job.name_service(table, Some(&word))?;
        let mut fields = line.split(':');
        if let (Some(name), Some(found)) = (fields.next(), fields.nth(1))
            && found == word
        {
            return Err(Failure::Execution(format!(
                "{field}: {number} is that of the {what} {name:?} already: give another number"
            )));
        }
    }
    Ok(word)
}

/// Returns the name or the number of a group that there must be.
fn existing_group<'a>(job: &JobContext<'_>, group: &'a str) -> Result<&'a str, Failure> {
    match job.name_service("group", Some(group))?.is_empty() {
        false => Ok(group),
        true => Err(Failure::Execution(format!(
            "there is no group {group:?} on this machine: create it with group.add, or name another"
        ))),
    }
}

/// Returns groups that there must be, with commas between them.
fn joined_groups(job: &JobContext<'_>, groups: &Names) -> Result<String, Failure> {
    let joined = groups.joined()?;
    for group in joined.split(',').filter(|group| !group.is_empty()) {
        existing_group(job, group)?;
    }
    Ok(joined)
}

/// Returns the failure of a user or group that there is not.
pub(super) fn no_such(what: &str, name: &str) -> Failure {
    Failure::Execution(format!("there is no {what} {name:?} on this machine"))
}

/// Returns the names of a user's groups, in order, also of those in directory services.
fn groups_of(job: &JobContext<'_>, account: &Account) -> Result<Vec<String>, Failure> {
    let printed = job.succeed(&["id", "-Gnz", "--", checked_name(&account.name)?], "")?;
    let names = printed
        .split('\0')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn info_of(job: &JobContext<'_>, account: &Account) -> Result<Value, Failure> {
    Ok(shown(account, groups_of(job, account)?))
}

/// Returns a user as Salt's `user.info` does.
fn shown(account: &Account, groups: Vec<String>) -> Value {
    let [fullname, roomnumber, workphone, homephone, other] = gecos_fields(account);
    Value::map([
        ("name", Value::from(account.name.as_str())),
        ("uid", Value::from(u64::from(account.uid))),
        ("gid", Value::from(u64::from(account.gid))),
        ("groups", Value::texts(groups)),
        ("home", Value::from(account.home.as_str())),
        ("passwd", Value::from("x")),
        ("shell", Value::from(account.shell.as_str())),
        ("fullname", Value::from(fullname)),
        ("roomnumber", Value::from(roomnumber)),
        ("workphone", Value::from(workphone)),
        ("homephone", Value::from(homephone)),
        ("other", Value::from(other)),
    ])
}

fn gecos_fields(account: &Account) -> [&str; 5] {
    let mut fields = account.gecos.splitn(5, ',');
    std::array::from_fn(|_| fields.next().unwrap_or_default())
}

/// Returns a value that stays in its field of `/etc/passwd`.
fn checked_field(value: &str) -> Result<&str, Failure> {
    match value.contains([':', '\n', '\r', '\0']) {
        false => Ok(value),
        true => Err(Failure::Invocation(format!(
            "{value:?} must contain neither a colon nor a line break"
        ))),
    }
}

/// Returns an absolute path that stays in its field.
fn checked_path<'a>(what: &str, path: &'a str) -> Result<&'a str, Failure> {
    match path.starts_with('/') {
        true => checked_field(path),
        false => Err(Failure::Invocation(format!(
            "{what}: {path:?} is not an absolute path: give one that begins with '/'"
        ))),
    }
}

/// Returns a shell as useradd and usermod take it: a path, none, or a `*`.
fn checked_shell(shell: &str) -> Result<&str, Failure> {
    match shell.is_empty() || shell.starts_with('*') {
        true => checked_field(shell),
        false => checked_path("shell", shell),
    }
}
