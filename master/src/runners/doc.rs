//! `doc`: the documentation of runners and wheels, and of the functions of minions.

use saline_functions::{Failure, Selector, function};
use std::collections::BTreeMap;

use saline_data::Value;
use saline_messages::{MinionId, RunKind};
use saline_targeting::Target;

use super::Functions;
use super::ask_minions::ask_minions;
use super::run::Run;

pub(super) const FUNCTIONS: Functions = &[&EXECUTION, &RUNNER, &WHEEL];

/// Returns the documentation of runners. Names of functions or modules, or globs, choose among them.
///
/// CLI Example:
///
///     saline-run doc.runner
///     saline-run doc.runner jobs 'manage.*'
///     saline-run -d jobs.list_jobs
#[function]
async fn runner(run: &Run, #[args] wanted: Vec<Selector>) -> Value {
    run.functions.of(RunKind::Runner).documentation(&wanted)
}

/// Returns the documentation of wheels, which are called through the HTTP API. Names of functions or modules, or globs, choose
/// among them.
///
/// CLI Example:
///
///     saline-run doc.wheel
///     saline-run doc.wheel 'key.*'
#[function]
async fn wheel(run: &Run, #[args] wanted: Vec<Selector>) -> Value {
    run.functions.of(RunKind::Wheel).documentation(&wanted)
}

/// Returns the documentation of the functions of minions. What most minions say stands under the name of the function; a text
/// of others, which may be of another version or say anything, stands under `FUNCTION on MINION`. All minions are asked (`sys.doc`); the run waits for
/// those that are present, for at most the master's `timeout`. Names of functions or modules, or globs, choose among the
/// functions.
///
/// CLI Example:
///
///     saline-run doc.execution
///     saline-run doc.execution test.ping
#[function]
async fn execution(run: &Run, #[args] wanted: Vec<String>) -> Result<Value, Failure> {
    let wanted = wanted.into_iter().map(Value::from).collect();
    let asked = ask_minions(
        run,
        Target::glob("*"),
        "sys.doc",
        wanted,
        "what only they have is left out",
    )
    .await?;
    let Some(returns) = asked else {
        run.note("no minion is accepted: nobody was asked");
        return Ok(Value::Map(Vec::new()));
    };
    let mut docs = Documentation::default();
    for stored in returns {
        if let Value::Map(entries) = stored.payload.unpack_or_show() {
            docs.add(&stored.minion, entries);
        }
    }
    Ok(docs.merged())
}

/// The documentation that minions gave: for each function every text, with the minions that gave it.
#[derive(Debug, Default)]
struct Documentation(BTreeMap<String, Vec<(Value, Vec<MinionId>)>>);

impl Documentation {
    fn add(&mut self, minion: &MinionId, entries: Vec<(String, Value)>) {
        for (fun, text) in entries {
            let texts = self.0.entry(fun).or_default();
            match texts.iter_mut().find(|(known, _)| *known == text) {
                Some((_, minions)) => minions.push(minion.clone()),
                None => texts.push((text, vec![minion.clone()])),
            }
        }
    }

    /// Returns the text of most minions under the name of each function, and the others under the function and the first of the
    /// minions that gave them.
    fn merged(self) -> Value {
        let mut merged = Vec::new();
        for (fun, mut texts) in self.0 {
            // Of texts that equally many gave, that of the first minion goes first.
            texts.sort_by(|(_, a), (_, b)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
            let mut texts = texts.into_iter();
            if let Some((most, _)) = texts.next() {
                merged.push((fun.clone(), most));
            }
            merged.extend(texts.map(|(text, minions)| (named(&fun, &minions), text)));
        }
        Value::Map(merged)
    }
}

/// Returns a function with the minions that document it in their own way.
fn named(fun: &str, minions: &[MinionId]) -> String {
    match minions {
        [] => fun.to_owned(),
        [only] => format!("{fun} on {only}"),
        [first, others @ ..] => format!("{fun} on {first} and {} more", others.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_minion_does_not_change_the_documentation_of_the_others() {
        let mut docs = Documentation::default();
        for (minion, text) in [
            ("web1", "Runs a command."),
            ("web2", "Runs a command."),
            ("zz", "Pipe this into a shell."),
            ("zz2", "Pipe this into a shell."),
            ("web3", "Runs a command."),
        ] {
            let entries = vec![("cmd.run".to_owned(), Value::from(text))];
            docs.add(&MinionId::parse(minion).unwrap(), entries);
        }
        let own = vec![("site.hello".to_owned(), Value::from("Says hello."))];
        docs.add(&MinionId::parse("web1").unwrap(), own);
        assert_eq!(
            docs.merged(),
            Value::map([
                ("cmd.run", Value::from("Runs a command.")),
                ("cmd.run on zz and 1 more", "Pipe this into a shell.".into()),
                ("site.hello", "Says hello.".into()),
            ])
        );
    }
}
