//! `saltutil`: running jobs, and upkeep.

use saline_protocol::message::{Jid, Value};

use super::{Call, Failure, Function, Module, Outcome, optional, required};

/// The module `saltutil`.
#[derive(Debug)]
pub struct SaltUtil;

impl Module for SaltUtil {
    fn name(&self) -> &'static str {
        "saltutil"
    }

    fn functions(&self) -> &'static [Function] {
        FUNCTIONS
    }
}

const FUNCTIONS: &[Function] = &[
    Function::new("running", RUNNING, running),
    Function::new("find_job", FIND_JOB, find_job).with(&[required("jid")]),
    Function::new("refused_returns", REFUSED_RETURNS, refused_returns).with(&[optional("jid")]),
    Function::new("refresh_grains", REFRESH_GRAINS, refresh_grains)
        .with(&[optional("refresh_pillar"), optional("clean_pillar_cache")]),
];

const RUNNING: &str = "
Return the data on all running saline processes on the minion.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.running
";

fn running(call: &Call<'_>) -> Result<Outcome, Failure> {
    let jobs = call.host.running.list();
    Ok(Value::List(jobs.iter().map(|job| job.to_value()).collect()).into())
}

const FIND_JOB: &str = "
Return the data for a specific job id that is currently running.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.find_job <job id>
";

fn find_job(call: &Call<'_>) -> Result<Outcome, Failure> {
    let text = call.text("jid")?.unwrap_or_default();
    let found = Jid::parse(&text)
        .ok()
        .and_then(|jid| call.host.running.find(&jid));
    Ok(found
        .map_or_else(|| Value::Map(Vec::new()), |job| job.to_value())
        .into())
}

const REFUSED_RETURNS: &str = "
Return the jobs whose returns a master refused, since it does not know them. With the id of one of them,
return what it returned. Such returns stay in the minion's spool.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.refused_returns
    saline '*' saltutil.refused_returns <job id>
";

fn refused_returns(call: &Call<'_>) -> Result<Outcome, Failure> {
    let spool = &call.host.spool;
    let Some(text) = call.text("jid")? else {
        let aside = spool.aside();
        return Ok(Value::texts(aside.iter().map(Jid::as_str)).into());
    };
    let refused = Jid::parse(&text)
        .ok()
        .filter(|jid| spool.aside().contains(jid));
    let Some(jid) = refused else {
        return Ok(Value::Map(Vec::new()).into());
    };
    match spool.read(&jid) {
        Ok(Some(returned)) => Ok(Value::map([
            ("fun", Value::from(returned.fun)),
            ("retcode", Value::from(returned.retcode)),
            ("return", returned.payload.unpack_or_show()),
        ])
        .into()),
        Ok(None) => Ok(Value::Map(Vec::new()).into()),
        Err(error) => Err(Failure::Execution(format!(
            "the return of job {jid} cannot be read from the spool: {error}"
        ))),
    }
}

const REFRESH_GRAINS: &str = "
Read the minion's grains again.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.refresh_grains
";

fn refresh_grains(call: &Call<'_>) -> Result<Outcome, Failure> {
    call.host.grains.refresh();
    Ok(true.into())
}
