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
