//! The measurements, one function for each figure.

use std::time::Duration;

use saline_client::{BusEvent, Client, EventFilter, JobSpec, RunnerSpec};
use saline_data::Value;
use saline_protocol::transport::{Clock, Lost, Registry};
use tokio::task::JoinSet;

use std::sync::Arc;

use super::arguments::Only;
use super::latency;
use super::setting::{Setting, ping};
use crate::Result;
use crate::fleet::Fleet;
use crate::row::Row;

/// The minion that is asked alone.
const ONE: &str = "swarm-00000";

/// Events that are fired at once.
const EVENTS: u64 = 50_000;

/// Jobs that the long-lived client has under way.
const OUTSTANDING: usize = 64;

/// Jobs for all minions that are under way where returns are counted.
const JOBS_FOR_ALL: usize = 4;

/// Pings of one minion, which take milliseconds each, are repeated this often at least.
const PINGS: usize = 50;

/// Measures everything with one fleet.
pub(super) async fn all(
    setting: &Setting<'_>,
    registry: &Registry,
    show: &mut impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let mut fleet = Fleet::new(setting.fleet())?;
    let client = Arc::new(fleet.start_master(registry).await?);
    let idle = fleet.master_usage()?.memory;
    show(setting.row("memory of an idle master", "MiB", vec![idle as f64 / MIB]))?;
    let begin = Clock.now();
    fleet.start_swarm()?;
    fleet.all_present(&client).await?;
    let started = (Clock.now() - begin).as_secs_f64();
    show(setting.row("first contact of all, keys made", "s", vec![started]))?;
    memory(
        setting,
        &fleet,
        idle,
        "memory a minion, after the start",
        show,
    )?;
    if let Some(only) = setting.only {
        match only {
            Only::Idle => nothing(setting, &fleet, show).await?,
            Only::Pings => pings(setting, &fleet, show).await?,
            Only::Recovery => {
                client.shutdown().await;
                let last = recovery(setting, &mut fleet, registry, show).await?;
                last.shutdown().await;
                return Ok(());
            }
        }
        client.shutdown().await;
        return Ok(());
    }
    nothing(setting, &fleet, show).await?;
    pings(setting, &fleet, show).await?;
    jobs(setting, &client, show).await?;
    returns(setting, &fleet, &client, show).await?;
    events(setting, &client, show).await?;
    large_output(setting, &fleet, show).await?;
    for _ in 0..2 {
        fleet.kill_swarm().await?;
        fleet.none_present(&client).await?;
        fleet.start_swarm()?;
        fleet.all_present(&client).await?;
        answering(setting, &client).await?;
    }
    memory(
        setting,
        &fleet,
        idle,
        "memory a minion, after two short outages",
        show,
    )?;
    client.shutdown().await;
    let client = recovery(setting, &mut fleet, registry, show).await?;
    latency::pings(setting, &mut fleet, &Arc::new(client), show).await
}

const MIB: f64 = 1024.0 * 1024.0;

fn memory(
    setting: &Setting<'_>,
    fleet: &Fleet,
    idle: u64,
    bench: &'static str,
    show: &mut impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let grown = fleet.master_usage()?.memory.saturating_sub(idle);
    let each = grown as f64 / 1024.0 / setting.minions as f64;
    show(setting.row(bench, "KiB", vec![each]))?;
    let swarm = fleet.swarm_usage()?.memory as f64 / 1024.0 / setting.minions as f64;
    show(setting.row("memory of a minion in the swarm", "KiB", vec![swarm]))?;
    if let Some(usage) = fleet.nats_usage()? {
        let each = usage.memory as f64 / 1024.0 / setting.minions as f64;
        let bench = "memory of the servers of NATS, a minion";
        show(setting.row(bench, "KiB", vec![each]))?;
    }
    Ok(())
}

/// What the master and the swarm need while nothing happens: heartbeats, pings of connections, and regular upkeep.
async fn nothing(
    setting: &Setting<'_>,
    fleet: &Fleet,
    show: &mut impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    // The first heartbeats, and what is written after the minions have come, belong to their arrival.
    Clock
        .pause(Duration::from_secs_f64(setting.heartbeat))
        .await;
    let begin = Clock.now();
    let (master, swarm) = (fleet.master_usage()?.cpu, fleet.swarm_usage()?.cpu);
    Clock.pause(Duration::from_secs_f64(setting.idle)).await;
    let each = |cpu: Duration| {
        let seconds = (Clock.now() - begin).as_secs_f64();
        vec![cpu.as_secs_f64() * 1e6 / seconds / setting.minions as f64]
    };
    let master = each(fleet.master_usage()?.cpu.saturating_sub(master));
    let swarm = each(fleet.swarm_usage()?.cpu.saturating_sub(swarm));
    show(setting.row("CPU of an idle master, a minion and second", "us", master))?;
    show(setting.row("CPU of an idle minion, a second", "us", swarm))
}

/// `saline '*' test.ping`, as an operator types it: the whole process, and the CPU time of each part.
async fn pings(
    setting: &Setting<'_>,
    fleet: &Fleet,
    show: &mut impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let times = match setting.minions {
        0..=100 => PINGS.max(setting.repeat),
        _ => setting.repeat,
    };
    let ping = ["-t", "60", "*", "test.ping"];
    fleet.saline(&ping).await?;
    let (master, swarm) = (fleet.master_usage()?.cpu, fleet.swarm_usage()?.cpu);
    let servers = fleet.nats_usage()?;
    let (mut walls, mut client) = (Vec::new(), Duration::ZERO);
    for _ in 0..times {
        let run = fleet.saline(&ping).await?;
        if run.lines < setting.minions {
            return Err(format!("{} lines of {} minions", run.lines, setting.minions).into());
        }
        walls.push(run.wall.as_secs_f64());
        client += run.usage.cpu;
    }
    show(setting.row("saline '*' test.ping, whole process", "s", walls))?;
    let each = |cpu: Duration| vec![cpu.as_secs_f64() * 1e6 / (times * setting.minions) as f64];
    let master = each(fleet.master_usage()?.cpu.saturating_sub(master));
    let swarm = each(fleet.swarm_usage()?.cpu.saturating_sub(swarm));
    show(setting.row("CPU of the master, a ping and minion", "us", master))?;
    show(setting.row("CPU of the minion, a ping and minion", "us", swarm))?;
    if let (Some(now), Some(before)) = (fleet.nats_usage()?, servers) {
        let each = each(now.cpu.saturating_sub(before.cpu));
        let bench = "CPU of the servers of NATS, a ping and minion";
        show(setting.row(bench, "us", each))?;
    }
    show(setting.row(
        "CPU of the command line, a ping and minion",
        "us",
        each(client),
    ))
}

/// Keeps jobs on `glob` under way for the time of the setting. Returns the jobs and the returns a
/// second.
async fn keep_running(
    setting: &Setting<'_>,
    client: &Arc<Client>,
    glob: &'static str,
    outstanding: usize,
) -> Result<(f64, f64)> {
    let begin = Clock.now();
    let end = begin + setting.run();
    let mut callers = JoinSet::new();
    for _ in 0..outstanding {
        let client = Arc::clone(client);
        callers.spawn(async move {
            let (mut jobs, mut returns) = (0_u64, 0);
            while Clock.now() < end {
                returns += ping(&client, glob).await?;
                jobs += 1;
            }
            Ok::<_, crate::Failure>((jobs, returns))
        });
    }
    let (mut jobs, mut returns) = (0, 0);
    while let Some(caller) = callers.join_next().await {
        let (more, returned) = caller??;
        jobs += more;
        returns += returned;
    }
    let seconds = (Clock.now() - begin).as_secs_f64();
    Ok((jobs as f64 / seconds, returns as f64 / seconds))
}

/// Jobs a second with their returns: one client, one minion.
async fn jobs(
    setting: &Setting<'_>,
    client: &Arc<Client>,
    show: &mut impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let (rate, _) = keep_running(setting, client, ONE, OUTSTANDING).await?;
    show(setting.row(
        "jobs with returns, one minion, 64 under way",
        "1/s",
        vec![rate],
    ))
}

/// Returns of all minions a second, each of them read from the store or an event after its commit.
async fn returns(
    setting: &Setting<'_>,
    fleet: &Fleet,
    client: &Arc<Client>,
    show: &mut impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let stored = stored_returns(client).await?;
    let before = fleet.master_usage()?.cpu;
    let (_, rate) = keep_running(setting, client, "*", JOBS_FOR_ALL).await?;
    show(setting.row("returns, 4 jobs on all under way", "1/s", vec![rate]))?;
    let cpu = fleet.master_usage()?.cpu.saturating_sub(before);
    let returned = (stored_returns(client).await? - stored) as f64;
    let each = cpu.as_secs_f64() * 1e6 / returned.max(1.0);
    show(setting.row("CPU of the master, a return under load", "us", vec![each]))
}

/// Checks the master's job store, and returns how many returns it has.
async fn stored_returns(client: &Client) -> Result<i64> {
    let end = client.runner(RunnerSpec::new("store.check"))?.end().await?;
    if !end.success {
        return Err(end.notes.join("; ").into());
    }
    let returns = end.value()?.get("returns").and_then(Value::as_i64);
    returns.ok_or_else(|| "store.check does not tell the number of returns".into())
}

/// Events a second from one minion to a listener that counts them.
async fn events(
    setting: &Setting<'_>,
    client: &Client,
    show: &mut impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let filter = EventFilter::Below(format!("salt/minion/{ONE}/bench"));
    let (mut rates, mut losses) = (Vec::new(), Vec::new());
    for _ in 0..setting.repeat {
        let mut bus = client.events(&filter).await?;
        let begin = Clock.now();
        let mut spec = JobSpec::glob(ONE, "test.events")?;
        spec.arg.positional.push(Value::Int(EVENTS as i64));
        client.run_async(spec).await?;
        let (mut received, mut lost) = (0, 0);
        while received + lost < EVENTS {
            match bus.next().await {
                Some(BusEvent::Event(_)) => received += 1,
                // The bus is best effort: it drops what its listener does not read in time.
                Some(BusEvent::Lost(Lost::Messages(some))) => lost += some,
                Some(_) => {}
                None => return Err("the bus has ended".into()),
            }
        }
        rates.push(received as f64 / (Clock.now() - begin).as_secs_f64());
        losses.push(lost as f64 / EVENTS as f64);
    }
    show(setting.row("events of one minion, one listener", "1/s", rates))?;
    show(setting.row("those of them that the bus dropped", "", losses))
}

/// `saline ONE test.text 1000000`, as an operator types it.
async fn large_output(
    setting: &Setting<'_>,
    fleet: &Fleet,
    show: &mut impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let mut walls = Vec::new();
    for _ in 0..PINGS {
        let run = fleet
            .saline(&["-t", "60", ONE, "test.text", "1000000"])
            .await?;
        walls.push(run.wall.as_secs_f64());
    }
    show(setting.row("an output of 1 MB, whole process", "s", walls))
}

/// Runs `test.ping` until every minion has answered one job.
async fn answering(setting: &Setting<'_>, client: &Client) -> Result<()> {
    match ping(client, "*").await? {
        all if all == setting.minions => Ok(()),
        some => Err(format!("{some} of {} minions answered", setting.minions).into()),
    }
}

/// The time until all minions are back after the master was killed, counted from when the new one
/// answers; and whether what was acknowledged is still there. Returns a client of the last master.
async fn recovery(
    setting: &Setting<'_>,
    fleet: &mut Fleet,
    registry: &Registry,
    show: &mut impl FnMut(Row) -> Result<()>,
) -> Result<Client> {
    let mut last: Option<Client> = None;
    let (mut up, mut present, mut answered) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setting.repeat.min(3) {
        if let Some(client) = last.take() {
            client.shutdown().await;
        }
        let killed = Clock.now();
        fleet.kill_master();
        let client = fleet.start_master(registry).await?;
        let begin = Clock.now();
        up.push((begin - killed).as_secs_f64());
        fleet.all_present(&client).await?;
        present.push((Clock.now() - begin).as_secs_f64());
        answering(setting, &client).await?;
        answered.push((Clock.now() - begin).as_secs_f64());
        let newest = client
            .runner(RunnerSpec::new("jobs.last_run"))?
            .end()
            .await?;
        let Value::Map(newest) = newest.value()? else {
            return Err("the store has no job".into());
        };
        let stored = newest.first().and_then(|(_, job)| job.get("Minions"));
        let stored = match stored {
            Some(Value::List(minions)) => minions.len(),
            _ => 0,
        };
        if stored != setting.minions {
            return Err(format!("the store has {stored} minions of the job").into());
        }
        last = Some(client);
    }
    show(setting.row("a new master answers, after kill -9", "s", up))?;
    show(setting.row("all are present, from then on", "s", present))?;
    show(setting.row("all have answered, from then on", "s", answered))?;
    last.ok_or_else(|| "nothing was repeated".into())
}
