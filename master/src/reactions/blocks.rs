//! What a rendered file of the reactor orders.
//!
//! ```yaml
//! NAME:
//!   local.FUNCTION:       # or runner., or wheel.
//!     - tgt: web1
//!     - args: [a, {key: b}]
//! ```

use saline_data::Value;
use saline_data::nearest;
use saline_messages::{Arguments, RunKind, is_function_name};
use saline_render::Step;
use saline_targeting::{Target, TargetKind};

/// The most blocks of a file.
const MAX_BLOCKS: usize = 1_000;

/// The keywords of a job.
const JOB_KEYWORDS: [&str; 6] = ["tgt", "tgt_type", "expr_form", "args", "arg", "kwarg"];

/// The keywords that have arguments.
const ARGUMENT_KEYWORDS: [&str; 3] = ["args", "arg", "kwarg"];

/// What the names of functions begin with.
const KINDS: [&str; 4] = ["local", "cmd", "runner", "wheel"];

/// One order of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    /// The name of the block.
    pub(crate) name: String,
    /// The function with its kind, as it is written.
    pub(crate) function: String,
    pub(crate) act: Act,
}

/// What is ordered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// A job for minions.
    Job {
        target: Target,
        fun: String,
        arguments: Arguments,
    },
    /// A function of the master.
    Run {
        kind: RunKind,
        fun: String,
        arguments: Arguments,
    },
}

/// Why a rendered file orders nothing.
#[derive(Debug, PartialEq)]
pub(super) struct BlockError {
    /// The steps to the mistake in the file.
    pub(super) steps: Vec<Step>,
    pub(super) why: String,
}

/// Reads what a rendered file orders.
///
/// # Errors
/// Why it orders nothing.
pub(super) fn read(rendered: Value) -> Result<Vec<Block>, BlockError> {
    let wrong = |steps: &[&str], why: String| {
        let steps = steps.iter().copied().map(Step::key);
        Err(BlockError {
            steps: steps.collect(),
            why,
        })
    };
    let entries = match rendered {
        Value::Null => return Ok(Vec::new()),
        Value::Map(entries) => entries,
        _ => return wrong(&[], "it is not a mapping of names to blocks".to_owned()),
    };
    let mut blocks = Vec::new();
    for (name, functions) in entries {
        let Value::Map(functions) = functions else {
            let why = format!(
                "the block {name:?} is not a mapping of a function such as `local.test.ping` to its keywords"
            );
            return wrong(&[&name], why);
        };
        for (function, keywords) in functions {
            if blocks.len() >= MAX_BLOCKS {
                let why = format!("it has more than {MAX_BLOCKS} blocks");
                return wrong(&[&name, &function], why);
            }
            let act = match act(&function, keywords) {
                Ok(act) => act,
                Err(why) => {
                    let why = format!("the block {name:?}, {function}: {why}");
                    return wrong(&[&name, &function], why);
                }
            };
            blocks.push(Block {
                name: name.clone(),
                function,
                act,
            });
        }
    }
    Ok(blocks)
}

type Entries = Vec<(String, Value)>;

fn act(function: &str, keywords: Value) -> Result<Act, String> {
    let keywords = entries(keywords).ok_or("its keywords are no list of `KEYWORD: VALUE`")?;
    for (at, (keyword, _)) in keywords.iter().enumerate() {
        if keywords[..at].iter().any(|(other, _)| other == keyword) {
            return Err(format!("the keyword {keyword:?} occurs twice"));
        }
    }
    let (kind, fun) = function.split_once('.').unwrap_or((function, ""));
    match kind {
        "local" | "cmd" | "runner" | "wheel" if !is_function_name(fun) || !fun.contains('.') => {
            Err(format!("{fun:?} cannot be the name of a function"))
        }
        "local" | "cmd" => job(fun, keywords),
        "runner" => run(RunKind::Runner, fun, keywords),
        "wheel" => run(RunKind::Wheel, fun, keywords),
        "caller" => Err(
            "there are no caller blocks: a master runs no functions of minions on itself"
                .to_owned(),
        ),
        other => Err(match nearest(other, KINDS) {
            Some(near) => format!("{other:?} is not a kind of function; did you mean {near:?}?"),
            None => {
                format!("{other:?} is not a kind of function: there are local, runner and wheel")
            }
        }),
    }
}

/// Returns the entries of a mapping, or of a list of mappings of one entry each.
fn entries(value: Value) -> Option<Entries> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::Map(entries) => Some(entries),
        Value::List(values) => values
            .into_iter()
            .map(|value| match value {
                Value::Map(mut entries) if entries.len() == 1 => entries.pop(),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

fn take(keywords: &mut Entries, name: &str) -> Option<Value> {
    let at = keywords.iter().position(|(keyword, _)| keyword == name)?;
    Some(keywords.remove(at).1)
}

fn job(fun: &str, mut keywords: Entries) -> Result<Act, String> {
    let mut unknown = keywords.iter();
    if let Some((keyword, _)) = unknown.find(|(own, _)| !JOB_KEYWORDS.contains(&own.as_str())) {
        return Err(match nearest(keyword, JOB_KEYWORDS) {
            Some(near) => format!("unknown keyword {keyword:?}; did you mean {near:?}?"),
            None => format!(
                "unknown keyword {keyword:?}: there are {}",
                JOB_KEYWORDS.join(", ")
            ),
        });
    }
    let kind = take(&mut keywords, "tgt_type").or_else(|| take(&mut keywords, "expr_form"));
    let kind = match kind {
        None => TargetKind::Glob,
        Some(Value::Text(name)) => TargetKind::from_name(&name)
            .ok_or_else(|| format!("{name:?} is not a tgt_type of a target"))?,
        Some(_) => return Err("tgt_type is not a text".to_owned()),
    };
    let target = take(&mut keywords, "tgt").ok_or("it has no tgt")?;
    let target = match target {
        Value::List(ids) => {
            let ids: Option<Vec<&str>> = ids.iter().map(Value::as_str).collect();
            Target::list(ids.ok_or("tgt is a list with something else than ids")?)
        }
        value => Target {
            kind,
            expression: word(&value).ok_or("tgt is neither a text nor a list of ids")?,
        },
    };
    target.parse().map_err(|error| format!("tgt: {error}"))?;
    Ok(Act::Job {
        target,
        fun: fun.to_owned(),
        arguments: arguments(&mut keywords)?,
    })
}

/// Returns a text, or a number as it is written.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::UInt(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the run of a function of the master. Keywords that are none of ours are arguments too, as in older files.
fn run(kind: RunKind, fun: &str, mut keywords: Entries) -> Result<Act, String> {
    let mut arguments = arguments(&mut keywords)?;
    for (name, value) in keywords {
        put(&mut arguments.named, name, value)?;
    }
    Ok(Act::Run {
        kind,
        fun: fun.to_owned(),
        arguments,
    })
}

fn put(named: &mut Entries, name: String, value: Value) -> Result<(), String> {
    if named.iter().any(|(known, _)| *known == name) {
        return Err(format!("the argument {name:?} occurs twice"));
    }
    named.push((name, value));
    Ok(())
}

/// Reads `args`, and the older `arg` and `kwarg`.
fn arguments(keywords: &mut Entries) -> Result<Arguments, String> {
    let [args, arg, kwarg] = ARGUMENT_KEYWORDS.map(|name| take(keywords, name));
    let mut read = Arguments {
        positional: Vec::new(),
        named: Vec::new(),
    };
    match arg {
        None | Some(Value::Null) => {}
        Some(Value::List(values)) => read.positional = values,
        Some(value) => read.positional.push(value),
    }
    let named = kwarg.map_or(Some(Vec::new()), entries);
    for (name, value) in named.ok_or("kwarg is not a mapping")? {
        put(&mut read.named, name, value)?;
    }
    match args {
        None | Some(Value::Null) => {}
        Some(Value::Map(entries)) => {
            for (name, value) in entries {
                put(&mut read.named, name, value)?;
            }
        }
        Some(Value::List(values)) => {
            for value in values {
                match value {
                    Value::Map(mut entries) if entries.len() == 1 => {
                        if let Some((name, value)) = entries.pop() {
                            put(&mut read.named, name, value)?;
                        }
                    }
                    Value::Map(_) => {
                        return Err(
                            "an entry of args is a value or one `NAME: VALUE`, no larger mapping: put it behind a name"
                                .to_owned(),
                        );
                    }
                    value => read.positional.push(value),
                }
            }
        }
        Some(value) => read.positional.push(value),
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
