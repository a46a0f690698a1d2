//! `doc`: the documentation of runners, and of the functions of minions.

use std::collections::BTreeMap;

use saline_daemon::indented_doc;
use saline_protocol::message::{
    Arguments, BatchRequest, OperatorReply, PublishRequest, RequestId, Value,
};
use saline_protocol::target::{Glob, Target};

use super::arguments::BoundArguments;
use super::error::RunnerError;
use super::function::{Function, Returned};
use super::job_report::{self, State};
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
    let arguments = Arguments {
        positional: wanted.into_iter().map(Value::from).collect(),
        named: Vec::new(),
    };
    let request_id = RequestId::random();
    let request = PublishRequest {
        request_id: request_id.map_err(|error| RunnerError::Failed(error.to_string()))?,
        target: Target::glob("*"),
        fun: "sys.doc".to_owned(),
        arg: arguments.pack(),
        user: run.user.clone(),
        ttl_ms: None,
        private: false,
        subset: None,
        batch: BatchRequest {
            // The whole fleet is asked at once, also where jobs for many are made batches.
            safe_limit: Some(0),
            ..BatchRequest::default()
        },
    };
    let publish = &run.parts.publish;
    let published = publish.carry_out(&run.operator, request, None).await?;
    let jid = match published {
        OperatorReply::Published(published) => published.jid,
        OperatorReply::Failed(why) => return Err(RunnerError::Failed(why)),
        other => return Err(RunnerError::Failed(format!("{other:?}"))),
    };
    let Some(jid) = jid else {
        run.note("no minion is accepted: nobody was asked");
        return Ok(Value::Map(Vec::new()).into());
    };
    let waits = |run: &Run, (minion, state): &State| !state.is_final() && run.is_alive(minion);
    let until = job_report::patience(run);
    let states = job_report::settled_states(run, &jid, until, waits).await?;
    let mut silent = states.iter().filter(|state| waits(run, state));
    if let Some((first, _)) = silent.next() {
        run.note(format!(
            "{} minions did not answer in time, {first} among them: what only they have is left out",
            silent.count() + 1
        ));
    }
    let mut docs: BTreeMap<String, Value> = BTreeMap::new();
    for stored in job_report::returns(run, &jid).await? {
        if let Value::Map(entries) = stored.payload.unpack_or_show() {
            docs.extend(entries);
        }
    }
    Ok(Value::Map(docs.into_iter().collect()).into())
}
