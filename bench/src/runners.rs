//! How long runners take that search the job store of a master.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use saline_client::{Client, RunnerSpec};
use saline_config::{JobStoreSize, MasterConfig, Paths};
use saline_data::{Packed, Value};
use saline_master::Master;
use saline_master::clock::MasterClock;
use saline_master::jobs::{CarriedOut, JobStore, NewJob, StoreSettings};
use saline_messages::{
    Arguments, Jid, Job, MinionId, MinionJobState, MustClaim, RequestId, Return, SignedJob,
};
use saline_protocol::transport::{Clock, Registry};
use saline_targeting::Target;
use tokio::task::JoinSet;

use crate::Result;

/// The arguments of `runners`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunnersArguments {
    /// How many returns the store has
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    returns: usize,
    /// How many minions each job has
    #[arg(long, value_name = "N", default_value_t = 100)]
    minions: usize,
    /// How often each search is run
    #[arg(long, value_name = "N", default_value_t = 21)]
    repeat: usize,
    /// Fail if the median of a search is longer than this
    #[arg(long, value_name = "MS")]
    limit: Option<f64>,
}

/// The functions of the stored jobs, in turns.
const FUNCTIONS: [&str; 10] = [
    "test.ping",
    "cmd.run",
    "pkg.install",
    "service.restart",
    "grains.items",
    "saltutil.running",
    "disk.usage",
    "network.ping",
    "file.read",
    "test.version",
];

/// The largest number of stores of returns under way at once.
const UNDER_WAY: usize = 64;

/// The number of returns in one request, as a minion sends them at most.
const RETURNS: usize = 64;

/// Every how many jobs one has metadata.
const NOTED: usize = 20;

/// Fills a store, starts a master on it in this process, and measures runs of its runners as an operator's program
/// has them run.
pub(crate) fn run(wanted: &RunnersArguments, registry: &Registry) -> Result<()> {
    let root = tempfile::Builder::new().prefix("saline-bench-").tempdir()?;
    let mut config = MasterConfig::default();
    config.paths = Paths::master().under(root.path());
    config.transport = vec!["inproc".to_owned()];
    config.ipc_transport = Some("inproc".to_owned());
    // About as much as it takes, so that the files are as many as those of a day.
    let bytes = (wanted.returns as u64).saturating_mul(150).max(1 << 20);
    config.job_store_size = JobStoreSize::Bytes(bytes.saturating_mul(4));
    let runtime = crate::runtime(2)?;
    runtime.block_on(async {
        let began = Clock.now();
        let jids = fill(wanted, &config, bytes).await?;
        println!(
            "{} jobs with {} returns stored in {:.1} s: {} files of {} MiB",
            jids.len(),
            jids.len() * wanted.minions,
            (Clock.now() - began).as_secs_f64(),
            files(&config)?.0,
            files(&config)?.1 / (1024 * 1024)
        );
        let master = Master::start(config.clone(), registry).await?;
        let client = Client::connect(&config, registry).await?;
        let measured = measure_all(wanted, &client, &jids).await;
        client.shutdown().await;
        master.shutdown(Duration::from_secs(10)).await;
        measured
    })
}

/// Returns the number of files of the store, and their size.
fn files(config: &MasterConfig) -> Result<(usize, u64)> {
    let (mut count, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(config.job_store())? {
        let entry = entry?;
        bytes += entry.metadata()?.len();
        count += usize::from(entry.path().extension().is_some_and(|end| end == "sqlite"));
    }
    // That of the minions is no part of it.
    Ok((count.saturating_sub(1), bytes))
}

/// Stores the jobs and the returns, and returns the jids.
async fn fill(wanted: &RunnersArguments, config: &MasterConfig, bytes: u64) -> Result<Vec<Jid>> {
    let settings = StoreSettings {
        folder: config.job_store(),
        secrets_key: config.secrets_key_file(),
        keep: config.keep_jobs,
        max_bytes: Some(bytes),
        heartbeat: config.heartbeat_interval,
        largest_payload: 64 << 20,
        cache_bytes: config.job_store_cache,
    };
    let store = Arc::new(JobStore::open(settings, MasterClock::new(Clock))?);
    let ids = (0..wanted.minions.max(1)).map(|number| MinionId::parse(&format!("web{number:05}")));
    let ids: Vec<MinionId> = ids.collect::<std::result::Result<_, _>>()?;
    let jobs = (wanted.returns / ids.len()).max(1);
    let mut jids = Vec::with_capacity(jobs);
    let mut waiting: VecDeque<Vec<Jid>> = VecDeque::new();
    let mut storing = JoinSet::new();
    for number in 0..jobs {
        let new = job(&store, number, &ids)?;
        let jid = new.job.job.jid.clone();
        if store.publish(new).await? != CarriedOut::Now {
            return Err("a job was published before".into());
        }
        jids.push(jid.clone());
        match waiting.back_mut().filter(|group| group.len() < RETURNS) {
            Some(group) => group.push(jid),
            None => waiting.push_back(vec![jid]),
        }
        if number % RETURNS != RETURNS - 1 && number + 1 != jobs {
            continue;
        }
        // Every minion returns from these jobs in one request.
        let Some(group) = waiting.pop_front() else {
            continue;
        };
        for id in &ids {
            if storing.len() >= UNDER_WAY
                && let Some(stored) = storing.join_next().await
            {
                stored??;
            }
            let (store, id) = (Arc::clone(&store), id.clone());
            let returns: Vec<Return> = group.iter().map(returned).collect();
            storing.spawn(async move { store.store_returns(&id, returns).await });
        }
    }
    while let Some(stored) = storing.join_next().await {
        stored??;
    }
    store.close().await;
    Ok(jids)
}

fn job(store: &JobStore, number: usize, ids: &[MinionId]) -> Result<NewJob> {
    let jid = store.next_jid();
    let arguments = Arguments {
        positional: vec![Value::from(format!("argument {number}"))],
        named: Vec::new(),
    };
    let job = Job {
        jid,
        target: Target::glob(["*", "web*", "web0*"][number % 3]),
        fun: FUNCTIONS[number % FUNCTIONS.len()].to_owned(),
        arg: arguments.pack(),
        user: "root".to_owned(),
        created: 0,
        expires: u64::MAX / 2_000,
        claims: MustClaim::NOBODY,
    };
    let ticket = Value::from(number as u64);
    let noted = number.is_multiple_of(NOTED);
    Ok(NewJob {
        job: SignedJob {
            job,
            signature: vec![0; 64],
            secrets: None,
        },
        operator: "root".to_owned(),
        request: RequestId::random()?,
        minions: ids
            .iter()
            .map(|id| (id.clone(), MinionJobState::Offered))
            .collect(),
        unknown: Vec::new(),
        batch: None,
        resolved: None,
        metadata: noted.then(|| Packed::pack(&Value::map([("ticket", ticket)]))),
        returners: Vec::new(),
    })
}

fn returned(jid: &Jid) -> Return {
    Return {
        jid: jid.clone(),
        fun: String::new(),
        retcode: 0,
        success: true,
        payload: Packed::pack(&Value::from("a line that a command has printed")),
    }
}

/// Runs each search and prints a line for each.
async fn measure_all(wanted: &RunnersArguments, client: &Client, jids: &[Jid]) -> Result<()> {
    let middle = &jids[jids.len() / 2];
    let last = &jids[jids.len() - 1];
    let ticket = Value::from((jids.len() / 2 / NOTED * NOTED) as u64);
    let text = |text: &str| Value::from(text);
    let searches: [(&str, Vec<(&str, Value)>); 7] = [
        ("list_jobs", vec![("search_function", text("test.version"))]),
        ("list_jobs", vec![("search_function", text("*.nothing"))]),
        (
            "list_jobs",
            vec![
                ("search_function", text("cmd.*,pkg.install")),
                ("search_target", text("web0*")),
            ],
        ),
        (
            "list_jobs",
            vec![("search_metadata", Value::map([("ticket", ticket.clone())]))],
        ),
        (
            "list_jobs",
            vec![
                ("start_time", text(middle.as_str())),
                ("end_time", text(middle.as_str())),
            ],
        ),
        ("last_run", vec![("function", text("grains.items"))]),
        ("exit_success", vec![("jid", text(last.as_str()))]),
    ];
    println!("median ms   longest ms   found   search");
    for (function, named) in searches {
        let shown: Vec<String> = named
            .iter()
            .map(|(name, value)| format!("{name}={}", shown(value)))
            .collect();
        let arguments = Arguments {
            positional: Vec::new(),
            named: named
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        };
        let (times, found) = measure(client, function, &arguments, wanted.repeat).await?;
        let at = |index: usize| {
            times
                .get(index)
                .map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        let (median, longest) = (at(times.len() / 2), at(times.len().saturating_sub(1)));
        println!(
            "{median:9.2}   {longest:10.2}   {found:5}   jobs.{function} {}",
            shown.join(" ")
        );
        if wanted.limit.is_some_and(|limit| median > limit) {
            return Err(format!("jobs.{function} took {median:.2} ms").into());
        }
    }
    Ok(())
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Map(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{key}: {}", shown(value)))
                .collect();
            format!("'{{{}}}'", entries.join(", "))
        }
        Value::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// Runs a function again and again. Returns the times in order, and how many entries it returned.
async fn measure(
    client: &Client,
    function: &str,
    arguments: &Arguments,
    repeat: usize,
) -> Result<(Vec<Duration>, usize)> {
    let mut times = Vec::with_capacity(repeat);
    let mut found = 0;
    for _ in 0..repeat.max(1) {
        let spec = RunnerSpec::new(format!("jobs.{function}")).with_arguments(arguments.clone());
        let began = Clock.now();
        let end = client.runner(spec)?.end().await?;
        let value = end.value()?;
        times.push(Clock.now() - began);
        if let Some(error) = end.error {
            return Err(error.into());
        }
        found = match value {
            Value::Map(entries) => entries.len(),
            _ => 0,
        };
    }
    times.sort();
    Ok((times, found))
}
