mod about;
mod call;
mod cmd;
mod executables;
mod file;
mod grains;
mod machine;
mod mine;
mod own_namespace;
mod pillar;
mod pkg;
mod saltutil;
mod system_clock;

use saline_config::MinionConfig;
use saline_data::Value;
use saline_messages::{Arguments, MinionId, StartId};

use super::{Modules, Outcome};
use crate::event_queue::EventQueue;
use crate::grains::GrainStore;
use crate::host::Host;
use crate::job::{Entered, RunningJob, Stop};

/// A minion without a master.
struct Bench {
    host: Host,
    modules: Modules,
    #[allow(dead_code, reason = "removed when dropped")]
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with_limit(max_message: usize) -> Self {
        Self::with(|config| config.max_message_size = max_message)
    }

    /// With a configuration of its own.
    fn with(change: impl FnOnce(&mut MinionConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let id = MinionId::parse("m000").unwrap();
        let mut config = MinionConfig::default();
        config.paths = config.paths.under(folder.path());
        config.paths.cache_dir = folder.path().to_owned();
        config.folder = Some(folder.path().to_owned());
        change(&mut config);
        let host = Host::new(
            &config,
            GrainStore::collect(id.clone(), &config),
            EventQueue::new(id, StartId([1; 16])),
            None,
            Stop::new().unwrap(),
            crate::command::tests::launcher(),
        );
        Self {
            host,
            modules: Modules::built_in(),
            folder,
        }
    }

    /// Enters a job that has begun.
    fn job(&self, jid: &str) -> Entered {
        let entered = self.host.running.enter(RunningJob::example(jid));
        entered.control().begin().unwrap();
        entered
    }

    fn call(&self, fun: &str, positional: &[Value], named: &[(&str, Value)]) -> Outcome {
        let job = self.job("20261121100000000000");
        self.call_for(&job, fun, positional, named)
    }

    fn call_for(
        &self,
        job: &Entered,
        fun: &str,
        positional: &[Value],
        named: &[(&str, Value)],
    ) -> Outcome {
        let arguments = Arguments {
            positional: positional.to_vec(),
            named: named
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        };
        self.modules.call(fun, arguments, &self.host, job.control())
    }

    /// With text arguments.
    fn texts(&self, fun: &str, positional: &[&str]) -> Outcome {
        let values: Vec<Value> = positional.iter().map(|text| Value::from(*text)).collect();
        self.call(fun, &values, &[])
    }
}

fn text(outcome: &Outcome) -> &str {
    outcome
        .value
        .as_str()
        .unwrap_or_else(|| panic!("not a text: {outcome:?}"))
}
