//! Grains that an operator keeps on a machine, in the file `grains` beside the minion's configuration.

use saline_data::Value;
use saline_functions::{Failure, Mapping, function};

use super::lookup;
use crate::JobContext;

/// How deep grains may be nested.
const DEEPEST: usize = 32;

/// Sets a grain of this name, which is kept beside the minion's configuration. Returns the grain.
///
/// key
///     The name. A colon in it has no meaning: `grains.set` leads into nested grains.
///
/// val
///     The value: anything that YAML can say.
///
/// destructive
///     `True` removes the grain if `val` is `None`.
///
/// test
///     Only tells what would change. `refresh_pillar` is taken for the sake of scripts, and ignored.
///
/// A grain that the configuration sets cannot be set here.
///
/// CLI Example:
///
///     saline '*' grains.setval role web
///     saline '*' grains.setval roles '[web, db]'
#[function(changes, in_minion)]
#[expect(unused_variables, reason = "the report of the grains decides")]
pub(super) fn setval(
    job: &JobContext<'_>,
    key: String,
    val: Value,
    #[default(false)] destructive: bool,
    #[default(true)] refresh_pillar: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_all(job, vec![(key, val)], destructive, test)
}

/// Sets some grains, as `grains.setval` sets one. Returns them.
///
/// grains
///     A mapping of names to values.
///
/// CLI Example:
///
///     saline '*' grains.setvals '{role: web, rack: 17}'
#[function(changes, in_minion)]
#[expect(unused_variables, reason = "the report of the grains decides")]
pub(super) fn setvals(
    job: &JobContext<'_>,
    grains: Mapping,
    #[default(false)] destructive: bool,
    #[default(true)] refresh_pillar: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set_all(job, grains, destructive, test)
}

/// Appends a value to a grain that is a list, or to a new one, and keeps it. Returns the grain, or why nothing had to change.
///
/// key
///     The name; `delimiter` leads into nested grains.
///
/// val
///     The value; of a list, each of its values that is not there yet.
///
/// convert
///     `True` makes a list of a grain that is none first.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' grains.append roles db
#[function(changes, in_minion)]
pub(super) fn append(
    job: &JobContext<'_>,
    key: String,
    val: Value,
    #[default(false)] convert: bool,
    #[default(":")] delimiter: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    edit_list(job, &key, &delimiter, test, |old| {
        let mut list = match old {
            Some(Value::List(list)) => list,
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Text(text)) if text.is_empty() => Vec::new(),
            Some(one) if convert => vec![one],
            Some(_) => return Err(not_a_list(&key)),
        };
        let before = list.len();
        for value in values_of(val) {
            if !list.contains(&value) {
                list.push(value);
            }
        }
        Ok(match list.len() == before {
            true => Err(format!("{key} has this value already")),
            false => Ok(list),
        })
    })
}

/// Removes a value from a grain that is a list, and keeps what is left. Returns the grain, or why nothing had to change.
///
/// key
///     The name; `delimiter` leads into nested grains.
///
/// val
///     The value; of a list, each of its values.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' grains.remove roles db
#[function(changes, in_minion)]
pub(super) fn remove(
    job: &JobContext<'_>,
    key: String,
    val: Value,
    #[default(":")] delimiter: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    edit_list(job, &key, &delimiter, test, |old| {
        let mut list = match old {
            Some(Value::List(list)) => list,
            None => return Ok(Err(format!("there is no grain {key}"))),
            Some(_) => return Err(not_a_list(&key)),
        };
        let before = list.len();
        let gone = values_of(val);
        list.retain(|value| !gone.contains(value));
        Ok(match list.len() == before {
            true => Err(format!("{key} has no such value")),
            false => Ok(list),
        })
    })
}

/// Sets a grain, also a nested one, and keeps it. Returns `changes`, the grain with `{old, new}`, the `result` and a `comment`.
///
/// key
///     The name; `delimiter` leads into nested grains, which are created where they are missing.
///
/// val
///     The value.
///
/// force
///     `True` puts a list or a mapping in the place of another value, or another value in the place of one.
///
/// destructive
///     `True` removes the grain if `val` is `None`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' grains.set rack:row 17
///     saline '*' grains.set roles '[web]' force=True
#[function(changes, in_minion)]
pub(super) fn set(
    job: &JobContext<'_>,
    key: String,
    #[default("")] val: Value,
    #[default(false)] force: bool,
    #[default(false)] destructive: bool,
    #[default(":")] delimiter: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let path = path(job, &key, &delimiter)?;
    let is_complex = |value: &Value| matches!(value, Value::List(_) | Value::Map(_));
    edit(job, test, |kept| {
        let old = now(job, kept, &path);
        let new = match val {
            Value::Null if destructive => None,
            value => Some(value),
        };
        if old == new {
            return Ok(told(&key, "the grain has this value already", None));
        }
        if let Some(old) = old.as_ref().filter(|old| is_complex(old) && !force) {
            let kind = if matches!(old, Value::List(_)) {
                "list"
            } else {
                "mapping"
            };
            let why = format!("{key} is a {kind}: give force=True to replace or remove it");
            return Err(Failure::Execution(why));
        }
        if new.as_ref().is_some_and(is_complex) && old.is_some() && !force {
            let why = format!(
                "{key} has a single value: give force=True to replace it by a list or a mapping"
            );
            return Err(Failure::Execution(why));
        }
        put(job, kept, &path, new.clone())?;
        let change = [
            ("old", old.unwrap_or(Value::Null)),
            ("new", new.unwrap_or(Value::Null)),
        ];
        Ok(told(&key, "", Some(Value::map(change))))
    })
}

/// Removes the value of a grain: it is `None` then. Returns what `grains.set` does.
///
/// key
///     The name; a colon leads into nested grains.
///
/// destructive
///     `True` removes the grain itself.
///
/// force
///     `True` does so with a grain that is a list or a mapping too.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' grains.delval rack
#[function(changes, in_minion)]
pub(super) fn delval(
    job: &JobContext<'_>,
    key: String,
    #[default(false)] destructive: bool,
    #[default(false)] force: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set(
        job,
        key,
        Value::Null,
        force,
        destructive,
        ":".to_owned(),
        test,
    )
}

/// Removes a grain that is kept beside the minion's configuration. Returns what `grains.set` does. A grain that the minion
/// finds itself is there again at once.
///
/// CLI Example:
///
///     saline '*' grains.delkey rack
#[function(changes, in_minion)]
pub(super) fn delkey(
    job: &JobContext<'_>,
    key: String,
    #[default(false)] force: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    set(job, key, Value::Null, force, true, ":".to_owned(), test)
}

fn set_all(
    job: &JobContext<'_>,
    grains: Mapping,
    destructive: bool,
    test: bool,
) -> Result<Value, Failure> {
    for (name, _) in &grains {
        may_be_kept(job, name)?;
        // One that stands in the file without an effect can still be removed.
        if name == "id" {
            let why = "the grain id is the id of the minion: change `id` in its configuration";
            return Err(Failure::Execution(why.to_owned()));
        }
    }
    edit(job, test, |kept| {
        for (name, value) in &grains {
            let value = Some(value.clone()).filter(|value| *value != Value::Null || !destructive);
            put_entry(kept, name, value);
        }
        Ok(Value::Map(grains))
    })
}

/// Has `change` edit the grains that are kept; with `test` a copy of them.
fn edit(
    job: &JobContext<'_>,
    test: bool,
    change: impl FnOnce(&mut Mapping) -> Result<Value, Failure>,
) -> Result<Value, Failure> {
    let grains = &job.host.grains;
    match test {
        true => change(&mut grains.kept()?),
        false => grains.edit(change),
    }
}

/// Has `change` make the list of a grain out of its value, or say why nothing has to change.
fn edit_list(
    job: &JobContext<'_>,
    key: &str,
    delimiter: &str,
    test: bool,
    change: impl FnOnce(Option<Value>) -> Result<Result<Vec<Value>, String>, Failure>,
) -> Result<Value, Failure> {
    let path = path(job, key, delimiter)?;
    edit(job, test, |kept| match change(now(job, kept, &path))? {
        Ok(list) => put(job, kept, &path, Some(Value::List(list))),
        Err(why) => Ok(why.into()),
    })
}

/// Returns the values of a list; of another value that one.
fn values_of(value: Value) -> Vec<Value> {
    match value {
        Value::List(values) => values,
        one => vec![one],
    }
}

/// Returns the parts of the name of a grain that may be kept.
fn path(job: &JobContext<'_>, key: &str, delimiter: &str) -> Result<Vec<String>, Failure> {
    let delimiter = if delimiter.is_empty() { ":" } else { delimiter };
    let parts = key.split(delimiter).map(str::to_owned);
    let path: Vec<String> = parts.take(DEEPEST + 1).collect();
    if path.len() > DEEPEST || path.iter().any(String::is_empty) {
        let shown: String = key.chars().take(80).collect();
        let why =
            format!("key: {shown:?} is not the name of a grain, nested {DEEPEST} times at most");
        return Err(Failure::Invocation(why));
    }
    may_be_kept(job, &path[0])?;
    Ok(path)
}

fn may_be_kept(job: &JobContext<'_>, name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(Failure::Invocation("a grain has a name".to_owned()));
    }
    match job.host.grains.is_configured(name) {
        true => Err(Failure::Execution(format!(
            "the configuration of this minion sets the grain {name}: change it there"
        ))),
        false => Ok(()),
    }
}

fn not_a_list(key: &str) -> Failure {
    Failure::Execution(format!("{key} is not a list"))
}

/// Returns the top-level grain as an edit meets it: the kept one, else the one that the minion has.
fn top(job: &JobContext<'_>, kept: &Mapping, name: &str) -> Option<Value> {
    let own = kept.iter().find(|(known, _)| known == name);
    own.map(|(_, value)| value.clone())
        .or_else(|| job.host.grains.all().get(name).cloned())
}

/// Returns the value at a path now.
fn now(job: &JobContext<'_>, kept: &Mapping, path: &[String]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    let top = top(job, kept, first)?;
    match rest {
        [] => Some(top),
        // No name has the character that separates them here.
        rest => lookup(&top, &rest.join("\0"), "\0"),
    }
}

/// Puts a value at a path, or removes it. Returns the top-level grain.
fn put(
    job: &JobContext<'_>,
    kept: &mut Mapping,
    path: &[String],
    value: Option<Value>,
) -> Result<Value, Failure> {
    let (first, rest) = match path {
        [first, rest @ ..] => (first, rest),
        [] => return Ok(Value::Null),
    };
    let new = match rest {
        [] => value,
        rest => {
            let mut grain = top(job, kept, first).unwrap_or(Value::Map(Vec::new()));
            put_below(&mut grain, rest, value, first)?;
            Some(grain)
        }
    };
    put_entry(kept, first, new.clone());
    Ok(Value::Map(vec![(
        first.clone(),
        new.unwrap_or(Value::Null),
    )]))
}

fn put_below(
    grain: &mut Value,
    path: &[String],
    value: Option<Value>,
    above: &str,
) -> Result<(), Failure> {
    let Value::Map(entries) = grain else {
        let why = format!("{above} is not a mapping, so there is no grain below it");
        return Err(Failure::Execution(why));
    };
    match path {
        [] => {}
        [last] => put_entry(entries, last, value),
        [next, rest @ ..] => {
            let at = match entries.iter().position(|(known, _)| known == next) {
                Some(at) => at,
                None => {
                    entries.push((next.clone(), Value::Map(Vec::new())));
                    entries.len() - 1
                }
            };
            put_below(&mut entries[at].1, rest, value, next)?;
        }
    }
    Ok(())
}

fn put_entry(entries: &mut Mapping, name: &str, value: Option<Value>) {
    match (entries.iter_mut().find(|(known, _)| known == name), value) {
        (Some((_, old)), Some(value)) => *old = value,
        (None, Some(value)) => entries.push((name.to_owned(), value)),
        (_, None) => entries.retain(|(known, _)| known != name),
    }
}

fn told(key: &str, comment: &str, change: Option<Value>) -> Value {
    let changes = change.map(|change| (key.to_owned(), change));
    Value::map([
        ("changes", Value::Map(changes.into_iter().collect())),
        ("comment", Value::from(comment)),
        ("result", Value::Bool(true)),
    ])
}
