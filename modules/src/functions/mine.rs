//! `mine`: values that minions leave with the master for each other.

use saline_config::MineFunction;
use saline_data::Value;
use saline_functions::{Failure, Mapping, function};
use saline_messages::{Arguments, MineReply, MineRequest, is_mine_name, mine_names};
use saline_targeting::{Target, TargetKind};

use crate::mine::{ask, configured, leave_out, run, store, update as update_all};
use crate::pending_answer::wrong_answer;
use crate::{Functions, JobContext, Outcome};

pub(super) const FUNCTIONS: Functions = &[&DELETE, &FLUSH, &GET, &SEND, &UPDATE, &VALID];

/// Returns values that minions have left in the mine, by minion: those that the master's `mine_get` and the `allow_tgt` of each
/// value let this minion have.
///
/// tgt
///     The minions, as a target of the kind `tgt_type`. Addresses and grains are those that the minions have reported.
///
/// fun
///     The name of the values: a function, or an alias. Of several, as a list or with commas between them, the return is a mapping of
///     each name to the values by minion.
///
/// exclude_minion
///     `True` leaves the value of this minion out.
///
/// CLI Example:
///
///     saline '*' mine.get 'web*' network.ip_addrs
///     saline lb1 mine.get 'roles:web' network.ip_addrs,disk.usage tgt_type=assigned
#[function(in_minion)]
fn get(
    job: &JobContext<'_>,
    tgt: Value,
    fun: Value,
    #[default("glob")] tgt_type: TargetKind,
    #[default(false)] exclude_minion: bool,
) -> Result<Value, Failure> {
    let target = target(tgt, tgt_type)?;
    let (functions, is_one) = mine_names(&fun).map_err(Failure::Invocation)?;
    let own = job.host.events.id();
    let mut by_function: Vec<Mapping> = vec![Vec::new(); functions.len()];
    for entry in crate::mine::get(job, &target, &functions)? {
        if exclude_minion && entry.minion == *own {
            continue;
        }
        let number = usize::try_from(entry.function).unwrap_or(usize::MAX);
        let (Some(values), Ok(value)) = (by_function.get_mut(number), entry.value.unpack()) else {
            tracing::warn!(
                "a value of minion {} in the mine cannot be read",
                entry.minion
            );
            continue;
        };
        values.push((entry.minion.to_string(), value));
    }
    if is_one {
        return Ok(Value::Map(by_function.pop().unwrap_or_default()));
    }
    let found = functions.into_iter().zip(by_function);
    let found = found.filter(|(_, values)| !values.is_empty());
    Ok(Value::Map(
        found
            .map(|(name, values)| (name, Value::Map(values)))
            .collect(),
    ))
}

/// Runs a function and leaves its value in the mine. Returns True.
///
/// name
///     The name of the value: the function, or an alias of the one that `mine_function` names. Further arguments are those of the
///     function.
///
/// allow_tgt, allow_tgt_type
///     The minions that may get the value, as a target: a glob, if no kind is given. Without it all may. A target may look at
///     ids, at roles and attributes of `minions.d`, and at the grains in the master's `trusted_grains`.
///
/// CLI Example:
///
///     saline '*' mine.send network.ip_addrs eth0
///     saline '*' mine.send eth0_ips mine_function=network.ip_addrs eth0 allow_tgt='lb*'
#[function(in_minion)]
fn send(
    job: &JobContext<'_>,
    name: String,
    #[args] args: Vec<Value>,
    #[kwargs] kwargs: Mapping,
) -> Result<bool, Failure> {
    let arguments = Arguments {
        positional: args,
        named: kwargs,
    };
    let function = MineFunction::of(&name, arguments).map_err(Failure::Invocation)?;
    let entry = run(job, &function)?;
    match store(job, vec![entry])?.pop() {
        None => Ok(true),
        Some(why) => Err(Failure::Execution(why)),
    }
}

/// Runs the minion's `mine_functions`, those of its configuration and of its pillar, and sends the values that have changed. Returns
/// True; None if there are no functions. Fails when a function did, or a value is not taken; the others are in the mine then.
///
/// clear
///     `True` removes all other values of this minion from the mine, if every function succeeded.
///
/// mine_functions
///     Functions to run instead, in the shapes of the option.
///
/// CLI Example:
///
///     saline '*' mine.update
///     saline '*' mine.update mine_functions='[network.ip_addrs]'
#[function(in_minion)]
fn update(
    job: &JobContext<'_>,
    #[default(false)] clear: bool,
    mine_functions: Option<Value>,
) -> Result<Outcome, Failure> {
    let (functions, mut failed) = match mine_functions {
        None => configured(job),
        Some(given) => {
            let read = MineFunction::read_all(&given);
            let read = read.map_err(|error| Failure::Invocation(error.to_string()))?;
            let functions: Result<Vec<_>, String> = read.into_iter().collect();
            let mut functions =
                functions.map_err(|why| Failure::Invocation(format!("mine_functions: {why}")))?;
            let left_out = leave_out(&mut functions);
            (functions, left_out.into_iter().collect())
        }
    };
    if functions.is_empty() && failed.is_empty() {
        return Ok(Outcome::from(Value::Null));
    }
    if !functions.is_empty() {
        // What cannot be read may be the definition of a value that is there.
        let clear = clear && failed.is_empty();
        failed.extend(update_all(job, &functions, clear)?);
    }
    match failed.is_empty() {
        true => Ok(Outcome::from(true)),
        false => Err(Failure::Execution(failed.join("; "))),
    }
}

/// Removes a value of this minion from the mine. Returns True.
///
/// fun
///     The name of the value: a function, or an alias.
///
/// CLI Example:
///
///     saline '*' mine.delete network.ip_addrs
#[function(in_minion)]
fn delete(job: &JobContext<'_>, fun: String) -> Result<bool, Failure> {
    if !is_mine_name(&fun) {
        return Err(Failure::Invocation(format!(
            "{fun:?} is not a valid name in the mine"
        )));
    }
    done(job, &MineRequest::Delete(fun))
}

/// Removes all values of this minion from the mine. Returns True.
///
/// CLI Example:
///
///     saline '*' mine.flush
#[function(in_minion)]
fn flush(job: &JobContext<'_>) -> Result<bool, Failure> {
    done(job, &MineRequest::Flush)
}

/// Returns the minion's `mine_functions` that exist: each name with the arguments of its function, or below an alias the function with
/// them. None if there are no functions.
///
/// CLI Example:
///
///     saline '*' mine.valid
#[function(in_minion)]
fn valid(job: &JobContext<'_>) -> Value {
    let (functions, wrong) = configured(job);
    for why in wrong {
        tracing::warn!("mine.valid: {why}");
    }
    if functions.is_empty() {
        return Value::Null;
    }
    let registry = job.modules.registry(job);
    let exist = functions
        .into_iter()
        .filter(|function| registry.get(function.runs()).is_some());
    let shown = exist.map(|function| {
        let (runs, arguments) = (function.runs().to_owned(), &function.arguments);
        let arguments = match arguments.positional.as_slice() {
            [] if !arguments.named.is_empty() => Value::Map(arguments.named.clone()),
            positional => {
                let named = arguments.named.iter();
                let named = named.map(|entry| Value::Map(vec![entry.clone()]));
                Value::List(positional.iter().cloned().chain(named).collect())
            }
        };
        let shown = match function.function {
            None => arguments,
            Some(_) => Value::Map(vec![(runs, arguments)]),
        };
        (function.name, shown)
    });
    Value::Map(shown.collect())
}

fn done(job: &JobContext<'_>, request: &MineRequest) -> Result<bool, Failure> {
    match ask(job, request)? {
        MineReply::Done => Ok(true),
        MineReply::Refused(why) => Err(Failure::Execution(why.to_string())),
        _ => Err(wrong_answer()),
    }
}

/// Reads a target: a text, or a list of ids.
fn target(tgt: Value, kind: TargetKind) -> Result<Target, Failure> {
    match tgt {
        Value::Text(expression) => Ok(Target { kind, expression }),
        Value::List(ids) => {
            let ids: Option<Vec<&str>> = ids.iter().map(Value::as_str).collect();
            let ids = ids.ok_or_else(|| {
                Failure::Invocation("a list in tgt has the ids of minions alone".to_owned())
            })?;
            Ok(Target::list(ids))
        }
        _ => Err(Failure::Invocation(
            "tgt takes a target, or a list of ids".to_owned(),
        )),
    }
}
