//! Events a second to listeners of `/events`.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use saline_client::{Client, JobSpec};
use saline_data::Value;
use saline_protocol::transport::Clock;
use tokio::task::JoinSet;

use super::HttpArguments;
use super::http_client::HttpClient;
use super::setting::{ONE, Setting};
use crate::Result;
use crate::row::Rows;

/// The most events that are fired at once: the master keeps some more for listeners that are behind.
const MAX_EVENTS: usize = 10_000;

/// Has the minion fire events, and counts those that all listeners get.
pub(super) async fn measure(
    setting: &Setting,
    wanted: &HttpArguments,
    listeners: usize,
    client: &Client,
    rows: &mut Rows,
) -> Result<()> {
    let events = (wanted.deliveries / listeners).clamp(1, MAX_EVENTS);
    let all = events * listeners;
    let (mut rates, mut losses) = (Vec::new(), Vec::new());
    let (mut of_api, mut of_master) = (Vec::new(), Vec::new());
    for _ in 0..wanted.repeat {
        let mut listening = JoinSet::new();
        for number in 0..listeners {
            let listener = Listener::begin(setting, number).await?;
            listening.spawn(listener.count(events));
        }
        let (api, master) = (setting.fleet.api_usage()?, setting.fleet.master_usage()?);
        let begin = Clock.now();
        let mut spec = JobSpec::glob(ONE, "test.events")?;
        spec.arg.positional.push(Value::Int(i64::try_from(events)?));
        client.run_async(spec).await?;
        let mut delivered = 0;
        while let Some(counted) = listening.join_next().await {
            delivered += counted??;
        }
        rates.push(delivered as f64 / (Clock.now() - begin).as_secs_f64());
        losses.push((all - delivered) as f64 / all as f64);
        let each = |cpu: std::time::Duration| cpu.as_secs_f64() * 1e6 / delivered.max(1) as f64;
        of_api.push(each(setting.fleet.api_usage()?.cpu.saturating_sub(api.cpu)));
        of_master.push(each(
            setting.fleet.master_usage()?.cpu.saturating_sub(master.cpu),
        ));
    }
    let name = format!("events to {listeners} listening over HTTP, all");
    rows.show(setting.row(name, "1/s", rates))?;
    rows.show(setting.row("those of them that were lost in gaps", "", losses))?;
    rows.show(setting.row("CPU of the API, a delivered event", "us", of_api))?;
    rows.show(setting.row("CPU of the master, a delivered event", "us", of_master))
}

/// A client that listens.
struct Listener {
    /// Keeps the connection.
    _client: HttpClient,
    body: Incoming,
    /// What has come and was not looked at.
    unread: BytesMut,
}

impl Listener {
    /// Begins to listen, by turns as each user who is logged in.
    async fn begin(setting: &Setting, turn: usize) -> Result<Self> {
        let mut client = HttpClient::connect(setting.port).await?;
        let body = client.get("/events", Some(setting.token(turn)?)).await?;
        Ok(Self {
            _client: client,
            body,
            unread: BytesMut::new(),
        })
    }

    /// Counts the events of the minion until the last of so many.
    async fn count(mut self, events: usize) -> Result<usize> {
        let (mut is_counted, mut count) = (false, 0);
        loop {
            let line = self.next_line().await?;
            if let Some(tag) = line.strip_prefix(b"tag: ") {
                is_counted = tag.ends_with(b"/bench\n");
            }
            if let Some(data) = line.strip_prefix(b"data: ").filter(|_| is_counted) {
                count += 1;
                let event: serde_json::Value = serde_json::from_slice(data)?;
                let number = event["data"]["number"].as_u64();
                let number = number.ok_or("an event without its number")?;
                if number + 1 >= events as u64 {
                    return Ok(count);
                }
            }
        }
    }

    /// Returns the next line, with its end.
    async fn next_line(&mut self) -> Result<Bytes> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                return Ok(self.unread.split_to(end + 1).freeze());
            }
            let frame = self.body.frame().await.ok_or("the stream has ended")??;
            if let Ok(data) = frame.into_data() {
                self.unread.extend_from_slice(&data);
            }
        }
    }
}
