//! `cron`: the tables of cron of users, by crontab(1). Lines that a function is not about keep their bytes.

mod times;

use saline_data::Value;
use saline_functions::{Failure, function};

use crate::accounts::checked_name;
use crate::change::change;
use crate::line_file::Lines;
use crate::system_program::in_one_line;
use crate::{Functions, JobContext};
use times::check_times;

pub(super) const FUNCTIONS: Functions = &[
    &RAW_CRON,
    &LIST_TAB,
    &SET_JOB,
    &RM_JOB,
    &SET_SPECIAL,
    &SET_ENV,
    &RM_ENV,
];

/// What stands before the identifier of a job, in the comment above it. Tables that Salt wrote have it too.
const IDENTIFIER: &str = "SALT_CRON_IDENTIFIER:";

/// A line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    /// When a command runs, in the five fields or as a word such as `@daily`, and the command.
    Job { times: Vec<String>, cmd: String },
    /// A variable.
    Variable { name: String, value: String },
    /// A comment, an empty line, or none of the others.
    Other,
}

impl Line {
    fn parse(line: &str) -> Self {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Self::Other;
        }
        let count = if line.starts_with('@') { 1 } else { 5 };
        if let Some((name, value)) = line.split_once('=') {
            let name = name.trim().trim_matches(['"', '\'']);
            if count == 5 && is_variable(name) {
                return Self::Variable {
                    name: name.to_owned(),
                    value: value.trim().to_owned(),
                };
            }
        }
        let (mut times, mut rest) = (Vec::new(), line);
        for _ in 0..count {
            let Some((field, behind)) = rest.split_once([' ', '\t']) else {
                return Self::Other;
            };
            times.push(field.to_owned());
            rest = behind.trim_start();
        }
        match rest.is_empty() {
            true => Self::Other,
            false => Self::Job {
                times,
                cmd: rest.to_owned(),
            },
        }
    }
}

fn is_variable(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The job to set or to remove.
struct Wanted<'a> {
    cmd: &'a str,
    identifier: Option<&'a str>,
}

/// Returns the number of the line of a job, and of the comment above it if that has its identifier.
fn find(lines: &Lines, wanted: &Wanted<'_>) -> Option<(usize, Option<usize>)> {
    let texts: Vec<String> = lines.texts().map(|line| line.into_owned()).collect();
    let above = |at: usize| {
        at.checked_sub(1)
            .and_then(|above| Some((above, identifier_in(&texts[above])?)))
    };
    let jobs = || {
        let lines = texts.iter().enumerate();
        lines.filter_map(|(at, line)| match Line::parse(line) {
            Line::Job { cmd, .. } => Some((at, cmd)),
            _ => None,
        })
    };
    let by_identifier = wanted.identifier.and_then(|identifier| {
        jobs().find(|(at, _)| above(*at).is_some_and(|(_, found)| found == identifier))
    });
    // A job with another identifier is another one, even if its command is the same.
    let by_command = || {
        jobs().find(|(at, cmd)| {
            cmd == wanted.cmd && (wanted.identifier.is_none() || above(*at).is_none())
        })
    };
    let (at, _) = by_identifier.or_else(by_command)?;
    Some((at, above(at).map(|(above, _)| above)))
}

fn identifier_in(line: &str) -> Option<&str> {
    let comment = line.trim().strip_prefix('#')?;
    comment
        .split_once(IDENTIFIER)
        .map(|(_, identifier)| identifier.trim())
}

/// Returns the table of a user as it is; an empty text if there is none.
///
/// CLI Example:
///
///     saline '*' cron.raw_cron root
#[function]
fn raw_cron(job: &JobContext<'_>, user: String) -> Result<String, Failure> {
    let bytes = read(job, &user)?.to_bytes();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the table of a user: `crons` (with `minute`, `hour`, `daymonth`, `month`, `dayweek`, `cmd` and `identifier`), `special`
/// (with `spec` such as `@daily`), and `env`, the variables.
///
/// CLI Example:
///
///     saline '*' cron.list_tab root
#[function]
fn list_tab(job: &JobContext<'_>, user: String) -> Result<Value, Failure> {
    let lines = read(job, &user)?;
    let (mut crons, mut special, mut env) = (Vec::new(), Vec::new(), Vec::new());
    let mut identifier = Value::Null;
    for line in lines.texts() {
        let above = std::mem::replace(
            &mut identifier,
            identifier_in(&line).map_or(Value::Null, Value::from),
        );
        match Line::parse(&line) {
            Line::Job { times, cmd } => {
                let names: &[&str] = match times.len() {
                    1 => &["spec"],
                    _ => &["minute", "hour", "daymonth", "month", "dayweek"],
                };
                let list = if times.len() == 1 {
                    &mut special
                } else {
                    &mut crons
                };
                let mut entries: Vec<(&str, Value)> = names
                    .iter()
                    .copied()
                    .zip(times.into_iter().map(Value::from))
                    .collect();
                entries.extend([("cmd", Value::from(cmd)), ("identifier", above)]);
                list.push(Value::map(entries));
            }
            Line::Variable { name, value } => {
                env.push(Value::map([
                    ("name", Value::from(name)),
                    ("value", Value::from(value)),
                ]));
            }
            Line::Other => {}
        }
    }
    Ok(Value::map(
        [("crons", crons), ("special", special), ("env", env)]
            .map(|(name, list)| (name, Value::List(list))),
    ))
}

/// Sets a job of a user's table: the one with this identifier, or this command, changes where it stands; otherwise it is
/// appended. Returns the line, `{old, new}`.
///
/// minute, hour, daymonth, month, dayweek
///     When the command runs, as crontab(5) says.
///
/// cmd
///     The command. A `%` ends it, unless a backslash stands before it.
///
/// identifier
///     A name for the job, by which it is found when its command changes.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' cron.set_job root 30 4 '*' '*' 0 /usr/local/sbin/weekly identifier=weekly
#[function(changes)]
#[expect(clippy::too_many_arguments, reason = "they are Salt's")]
fn set_job(
    job: &JobContext<'_>,
    user: String,
    minute: String,
    hour: String,
    daymonth: String,
    month: String,
    dayweek: String,
    cmd: String,
    identifier: Option<String>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let times = [minute, hour, daymonth, month, dayweek];
    check_times(&times)?;
    let line = format!("{} {cmd}", times.join(" "));
    set(job, &user, &cmd, identifier.as_deref(), &line, test)
}

/// Sets a job that runs at a time with a name, as `cron.set_job` does. Returns the line, `{old, new}`.
///
/// special
///     `@reboot`, `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' cron.set_special root @daily /usr/local/sbin/daily
#[function(changes)]
fn set_special(
    job: &JobContext<'_>,
    user: String,
    special: String,
    cmd: String,
    identifier: Option<String>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let names = [
        "@reboot",
        "@hourly",
        "@daily",
        "@midnight",
        "@weekly",
        "@monthly",
        "@yearly",
        "@annually",
    ];
    if !names.contains(&&*special) {
        return Err(Failure::Invocation(format!(
            "special: {special:?} is none of {}",
            names.join(", ")
        )));
    }
    let line = format!("{special} {cmd}");
    set(job, &user, &cmd, identifier.as_deref(), &line, test)
}

/// Removes a job from a user's table: the one with this identifier, or this command. Returns the line, `{old, new}`, nothing if
/// there is none.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' cron.rm_job root /usr/local/sbin/weekly
#[function(changes)]
fn rm_job(
    job: &JobContext<'_>,
    user: String,
    cmd: String,
    identifier: Option<String>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let identifier = identifier.as_deref();
    edit(job, &user, test, |lines| {
        let old = remove(
            lines,
            &Wanted {
                cmd: &cmd,
                identifier,
            },
        );
        change(old.map_or(Value::Null, Value::Text), Value::Null)
    })
}

/// Sets a variable of a user's table, where it stands or at the beginning: cron gives it to the jobs below. Returns `{old, new}`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' cron.set_env root MAILTO ops@example.org
#[function(changes)]
fn set_env(
    job: &JobContext<'_>,
    user: String,
    name: String,
    value: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    if !is_variable(&name) || value.contains(['\n', '\r', '\0']) {
        let why = "name and value must be those of a variable, in one line";
        return Err(Failure::Invocation(why.to_owned()));
    }
    let line = format!("{name}={value}");
    edit(job, &user, test, |lines| {
        let found = variable(lines, &name);
        match &found {
            Some((_, old)) if *old == value => {}
            Some((at, _)) => lines.set(*at, &line),
            None => lines.insert(0, &line),
        }
        change(
            found.map_or(Value::Null, |(_, old)| old.into()),
            value.as_str(),
        )
    })
}

/// Removes a variable from a user's table. Returns `{old, new}`, nothing if it is not set.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' cron.rm_env root MAILTO
#[function(changes)]
fn rm_env(
    job: &JobContext<'_>,
    user: String,
    name: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    edit(job, &user, test, |lines| {
        let old = variable(lines, &name).map_or(Value::Null, |(_, old)| old.into());
        lines.retain(|line| !matches!(Line::parse(line), Line::Variable { name: found, .. } if found == name));
        change(old, Value::Null)
    })
}

/// Returns the first line that sets a variable, and the value.
fn variable(lines: &Lines, name: &str) -> Option<(usize, String)> {
    lines
        .texts()
        .enumerate()
        .find_map(|(at, line)| match Line::parse(&line) {
            Line::Variable { name: found, value } if found == name => Some((at, value)),
            _ => None,
        })
}

fn set(
    job: &JobContext<'_>,
    user: &str,
    cmd: &str,
    identifier: Option<&str>,
    line: &str,
    test: bool,
) -> Result<Value, Failure> {
    let one_line = |text: &str| !text.trim().is_empty() && !text.contains(['\n', '\r', '\0']);
    if !one_line(cmd) || !identifier.is_none_or(one_line) {
        let why = "cmd and identifier must be one line each";
        return Err(Failure::Invocation(why.to_owned()));
    }
    let wanted = Wanted {
        cmd: cmd.trim(),
        identifier,
    };
    edit(job, user, test, |lines| {
        let old = place(lines, &wanted, line.trim_end());
        change(old.map_or(Value::Null, Value::Text), line.trim_end())
    })
}

/// Puts a job in the place of the one that is wanted, or at the end. Returns the line that was there.
fn place(lines: &mut Lines, wanted: &Wanted<'_>, line: &str) -> Option<String> {
    let found = find(lines, wanted);
    let old = found.and_then(|(at, _)| lines.texts().nth(at).map(|line| line.into_owned()));
    let comment = wanted
        .identifier
        .map(|identifier| format!("# {IDENTIFIER}{identifier}"));
    match (found, comment) {
        (Some((at, above)), comment) => {
            if old.as_deref() != Some(line) {
                lines.set(at, line);
            }
            if let (None, Some(comment)) = (above, comment) {
                lines.insert(at, &comment);
            }
        }
        (None, comment) => {
            // Not below a comment that is left of another job: it would name this one.
            let left_over = lines
                .texts()
                .rev()
                .take_while(|line| identifier_in(line).is_some());
            let at = lines.texts().len() - left_over.count();
            lines.insert(at, line);
            if let Some(comment) = comment {
                lines.insert(at, &comment);
            }
        }
    }
    old
}

/// Removes the job that is wanted, with the comment that has its identifier. Returns its line.
fn remove(lines: &mut Lines, wanted: &Wanted<'_>) -> Option<String> {
    let (at, above) = find(lines, wanted)?;
    let old = lines.texts().nth(at).map(|line| line.into_owned());
    let mut number = 0;
    lines.retain(|_| {
        number += 1;
        number - 1 != at && Some(number - 1) != above
    });
    old
}

fn edit(
    job: &JobContext<'_>,
    user: &str,
    test: bool,
    edit: impl FnOnce(&mut Lines) -> Value,
) -> Result<Value, Failure> {
    let old = read(job, user)?;
    let mut new = old.clone();
    let done = edit(&mut new);
    if new != old && !test {
        let table = new.to_bytes();
        let table = String::from_utf8(table).map_err(|_| not_utf8(user))?;
        job.succeed(&["crontab", "-u", checked_name(user)?, "-"], &table)?;
    }
    Ok(done)
}

fn read(job: &JobContext<'_>, user: &str) -> Result<Lines, Failure> {
    let end = job.program(&["crontab", "-u", checked_name(user)?, "-l"], "")?;
    match end.retcode {
        // What is not UTF-8 was replaced, so it could not be written back.
        0 if end.stdout.contains('\u{fffd}') => Err(not_utf8(user)),
        0 => Ok(Lines::of(end.stdout.as_bytes())),
        _ if end.stderr.contains("no crontab for") => Ok(Lines::default()),
        _ => Err(Failure::Execution(format!(
            "crontab failed: {}",
            in_one_line(end.stderr.lines())
        ))),
    }
}

fn not_utf8(user: &str) -> Failure {
    Failure::Execution(format!(
        "the table of {user:?} is not UTF-8: change it with crontab -e"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn edits_find_their_job_and_leave_other_lines_alone(
            lines in proptest::collection::vec(
                "([0-9*] ){5}[abc]( x)?|@daily [abc]|MAILTO=[a-z]{0,4}|# SALT_CRON_IDENTIFIER:[de]|#[ -~]{0,8}|\\PC{0,6}",
                0..10,
            ),
            identifier in proptest::option::of("[de]"),
        ) {
            let before = Lines::of(lines.join("\n").as_bytes());
            let wanted = Wanted { cmd: "a", identifier: identifier.as_deref() };
            let mut after = before.clone();
            let old = place(&mut after, &wanted, "1 2 3 4 5 a");
            let at = find(&after, &wanted).unwrap();
            let texts = |lines: &Lines| -> Vec<String> { lines.texts().map(|line| line.into_owned()).collect() };
            prop_assert_eq!(&texts(&after)[at.0], "1 2 3 4 5 a");
            prop_assert!(identifier.is_none() || at.1.is_some());
            // What is left without the job is what was there without it.
            let mut without = before.clone();
            prop_assert_eq!(remove(&mut without, &wanted), old);
            remove(&mut after, &wanted);
            prop_assert_eq!(texts(&after), texts(&without));
            let mut again = before.clone();
            place(&mut again, &wanted, "1 2 3 4 5 a");
            let once = again.clone();
            place(&mut again, &wanted, "1 2 3 4 5 a");
            prop_assert_eq!(again, once);
        }

        #[test]
        fn no_line_is_a_panic(line in ".*") {
            let _ = Line::parse(&line);
        }
    }

    #[test]
    fn lines_are_what_cron_takes_them_for() {
        let job = |times: &[&str], cmd: &str| Line::Job {
            times: times.iter().map(|time| (*time).to_owned()).collect(),
            cmd: cmd.to_owned(),
        };
        assert_eq!(
            Line::parse("*/5 0 1 * mon  a=b c"),
            job(&["*/5", "0", "1", "*", "mon"], "a=b c")
        );
        assert_eq!(Line::parse("@daily x=1 y"), job(&["@daily"], "x=1 y"));
        let variable = Line::Variable {
            name: "A_1".to_owned(),
            value: "b c".to_owned(),
        };
        assert_eq!(Line::parse(" A_1 = b c "), variable);
        for other in ["", "# 1 2 3 4 5 a", "1 2 3 4 5", "@daily", "1 2"] {
            assert_eq!(Line::parse(other), Line::Other, "{other:?}");
        }
    }
}
