//! The half with the clients, in a process of its own: this program again.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;

use saline_protocol::transport::{Clock, Registry};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::process::cpu_time;
use crate::transports::flow_limit::FlowLimit;
use crate::transports::halves;
use crate::transports::plan::{Spec, Work};
use crate::{Result, on_workers};
use saline_daemon::raise_descriptors;

/// The work of the clients between `mark` and the end, and its cost.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Requests answered, or messages delivered.
    pub(crate) operations: u64,
    /// How long the requests took.
    pub(crate) seconds: f64,
    /// The CPU time of this process.
    pub(crate) cpu_seconds: f64,
}

/// The process: talks with the server process over its standard input, which is a socket.
pub(crate) fn main(spec: &str, registry: Registry) -> Result<()> {
    let spec: Spec = serde_json::from_str(spec)?;
    raise_descriptors()?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    on_workers(spec.workers, async move {
        let control = StdUnixStream::from(socket);
        control.set_nonblocking(true)?;
        run(spec, registry, UnixStream::from_std(control)?).await
    })
}

/// Does the clients' part of `spec`, and tells `control`.
pub(crate) async fn run(spec: Spec, registry: Registry, control: UnixStream) -> Result<()> {
    let (reader, mut writer) = control.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut clients = halves::client_side(&spec, &registry).await?;
    let account = match spec.work {
        Work::Requests { outstanding, bytes } => {
            clients.ask(outstanding, bytes, spec.warm_up()).await?;
            writer.write_all(b"ready\n").await?;
            lines.next_line().await?;
            let (cpu, begin) = (cpu_time(), Clock.now());
            let operations = clients.ask(outstanding, bytes, spec.run()).await?;
            Account {
                operations,
                seconds: (Clock.now() - begin).as_secs_f64(),
                cpu_seconds: (cpu_time() - cpu).as_secs_f64(),
            }
        }
        Work::FanOut { subscribers, bytes } => {
            let (limit, mut steps) = FlowLimit::new(subscribers);
            clients.subscribe(subscribers, bytes, &limit).await?;
            writer.write_all(b"ready\n").await?;
            let mut mark = (cpu_time(), Clock.now(), 0);
            loop {
                tokio::select! {
                    Some(()) = steps.recv() => writer.write_all(b"had\n").await?,
                    line = lines.next_line() => match line?.as_deref() {
                        Some("mark") => {
                            mark = (cpu_time(), Clock.now(), limit.delivered());
                            writer.write_all(b"marked\n").await?;
                        }
                        _ => break,
                    },
                }
            }
            let (cpu, begin, before) = mark;
            Account {
                operations: limit.delivered() - before,
                seconds: (Clock.now() - begin).as_secs_f64(),
                cpu_seconds: (cpu_time() - cpu).as_secs_f64(),
            }
        }
    };
    let account = serde_json::to_string(&account)?;
    writer.write_all(format!("{account}\n").as_bytes()).await?;
    // The server process reads that and closes.
    while lines.next_line().await?.is_some() {}
    Ok(())
}
