//! Starts of jobs a second: `local_async` over HTTP, beside as many through `saline-client`.

use std::sync::Arc;

use saline_client::{Client, JobSpec, Progress};
use saline_protocol::transport::Clock;
use serde_json::json;
use tokio::task::JoinSet;

use super::HttpArguments;
use super::http_client::HttpClient;
use super::setting::{ONE, Setting};
use crate::Result;
use crate::row::Rows;

/// Starts that are under way at once, on both sides.
const UNDER_WAY: usize = 8;

/// Measures both by turns, so that what others do on the machine meets both.
pub(super) async fn measure(
    setting: &Setting,
    wanted: &HttpArguments,
    client: &Arc<Client>,
    rows: &mut Rows,
) -> Result<()> {
    let (mut over_http, mut direct, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut of_api, mut of_master) = (Vec::new(), Vec::new());
    let each = |cpu: std::time::Duration| cpu.as_secs_f64() * 1e6 / wanted.jobs as f64;
    for turn in 0..wanted.repeat {
        let begin = Clock.now();
        start_direct(client, wanted.jobs).await?;
        let rate = wanted.jobs as f64 / (Clock.now() - begin).as_secs_f64();
        direct.push(rate);
        all_returned(client).await?;

        let (api, master) = (setting.fleet.api_usage()?, setting.fleet.master_usage()?);
        let begin = Clock.now();
        start_over_http(setting, wanted.jobs, turn * wanted.jobs).await?;
        over_http.push(wanted.jobs as f64 / (Clock.now() - begin).as_secs_f64());
        ratios.push(over_http[turn] / rate);
        all_returned(client).await?;
        of_api.push(each(setting.fleet.api_usage()?.cpu.saturating_sub(api.cpu)));
        of_master.push(each(
            setting.fleet.master_usage()?.cpu.saturating_sub(master.cpu),
        ));
    }
    rows.show(setting.row("job starts over HTTP, 8 under way", "1/s", over_http))?;
    rows.show(setting.row("the same through saline-client", "1/s", direct))?;
    rows.show(setting.row("over HTTP for one through saline-client", "", ratios))?;
    rows.show(setting.row("CPU of the API, a job start", "us", of_api))?;
    rows.show(setting.row("CPU of the master, a job over HTTP", "us", of_master))
}

/// Starts jobs through the API, by turns as each user who is logged in.
async fn start_over_http(setting: &Setting, jobs: usize, first_turn: usize) -> Result<()> {
    let mut starting = JoinSet::new();
    for first in 0..UNDER_WAY {
        let turns = (first..jobs).step_by(UNDER_WAY);
        let tokens = turns.map(|turn| setting.token(first_turn + turn).map(str::to_owned));
        let tokens: Vec<String> = tokens.collect::<Result<_>>()?;
        let port = setting.port;
        starting.spawn(async move {
            let mut client = HttpClient::connect(port).await?;
            let chunk = json!({"client": "local_async", "tgt": ONE, "fun": "test.ping"});
            for token in tokens {
                let started = client.post("/", Some(&token), &chunk).await?;
                if !started["return"][0]["jid"].is_string() {
                    return Err(format!("no job was started: {started}").into());
                }
            }
            Ok::<_, crate::Failure>(())
        });
    }
    while let Some(started) = starting.join_next().await {
        started??;
    }
    Ok(())
}

/// Starts jobs through the client, as an operator's program does.
async fn start_direct(client: &Arc<Client>, jobs: usize) -> Result<()> {
    let mut starting = JoinSet::new();
    for first in 0..UNDER_WAY {
        let client = Arc::clone(client);
        let mine = (first..jobs).step_by(UNDER_WAY).count();
        starting.spawn(async move {
            for _ in 0..mine {
                let published = client.run_async(JobSpec::glob(ONE, "test.ping")?).await?;
                if published.jid.is_none() {
                    return Err("no job was started: the minion is gone".into());
                }
            }
            Ok::<_, crate::Failure>(())
        });
    }
    while let Some(started) = starting.join_next().await {
        started??;
    }
    Ok(())
}

/// Waits until the minion has returned from one more job, and so from those before it.
async fn all_returned(client: &Client) -> Result<()> {
    let mut job = client.run(JobSpec::glob(ONE, "test.ping")?).await?;
    while let Some(progress) = job.next().await? {
        if let Progress::Absent(absent) = progress {
            return Err(format!("{}: {}", absent.name, absent.absence.name()).into());
        }
    }
    Ok(())
}
