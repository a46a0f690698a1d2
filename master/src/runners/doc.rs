//! `doc`: the documentation of runners, and of the functions of minions.

use std::collections::BTreeMap;

use saline_daemon::indented_doc;
use saline_data::Value;
use saline_targeting::{Glob, Target};

use super::arguments::BoundArguments;
use super::ask_minions::ask_minions;
use super::error::RunnerError;
use super::function::{Function, Returned};
use super::run::Run;
use super::{STATE_EVENT, functions};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("execution", EXECUTION, |run, given| {
        Box::pin(execution(run, given))
    })
    .with_more_positional(),
    Function::new("runner", RUNNER, |_, given| Box::pin(runner(given))).with_more_positional(),
];

const RUNNER: &str = "
Return the documentation of the runners. Names of functions or modules, or globs, choose among them.

CLI Example:

.. code-block:: bash

    saline-run doc.runner
    saline-run doc.runner jobs 'manage.*'
    saline-run -d jobs.list_jobs
";

async fn runner(given: &BoundArguments) -> Result<Returned, RunnerError> {
    let wanted = given.more_texts()?;
    let globs: Result<Vec<Glob>, _> = wanted.iter().map(|text| Glob::compile(text)).collect();
    let globs = globs.map_err(|error| RunnerError::Arguments(error.to_string()))?;
    let is_wanted = |name: &str| {
        let module = name.split('.').next().unwrap_or_default();
        wanted.is_empty()
            || wanted.iter().any(|text| text == module)
            || globs.iter().any(|glob| glob.matches(name))
    };
    let (name, doc) = STATE_EVENT;
    let mut docs: BTreeMap<String, String> = functions()
        .map(|(name, function)| (name, indented_doc(function.doc)))
        .collect();
    docs.insert(name.to_owned(), indented_doc(doc));
    docs.retain(|name, _| is_wanted(name));
    let docs = docs.into_iter().map(|(name, doc)| (name, Value::from(doc)));
    Ok(Value::Map(docs.collect()).into())
}

const EXECUTION: &str = "
Return the documentation of the functions of minions. All minions are asked (`sys.doc`), and those that are
present are waited for, at most for the master's `timeout`; what several have is returned once. Names of
functions or modules, or globs, choose among them.

CLI Example:

.. code-block:: bash

    saline-run doc.execution
    saline-run doc.execution test.ping
";

async fn execution(run: &Run, given: &BoundArguments) -> Result<Returned, RunnerError> {
    let wanted = given.more_texts()?;
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
        return Ok(Value::Map(Vec::new()).into());
    };
    let mut docs: BTreeMap<String, Value> = BTreeMap::new();
    for stored in returns {
        if let Value::Map(entries) = stored.payload.unpack_or_show() {
            docs.extend(entries);
        }
    }
    Ok(Value::Map(docs.into_iter().collect()).into())
}
