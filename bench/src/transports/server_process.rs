//! One measurement, seen from the serving half: it starts the client process, and times both.
//!
//! The halves talk in lines. The client one says `ready` and, in a fan-out, `had` for each step that
//! all subscribers made; the server one says `mark` when counting begins (a fan-out waits until that
//! is `marked`) and `end` when a fan-out is over; the client one's last line is its [`Account`].

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Clock, Registry};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinSet;

use crate::process::cpu_time;
use crate::transports::client_process::{self, Account};
use crate::transports::flow_limit::{STEP, STEPS};
use crate::transports::halves;
use crate::transports::plan::{Spec, Work};
use crate::transports::side::ServerSide;
use crate::{Result, on_workers};

/// How long a thousand clients may take to connect, on a machine that is busy with other things.
const SETTING_UP: Duration = Duration::from_secs(60);

/// How long nothing may come. A loss is told within two pings, which are five seconds apart.
const STALLED: Duration = Duration::from_secs(15);

/// The result of one measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Requests answered, or messages delivered.
    pub(crate) operations: u64,
    /// Messages that were published and not delivered.
    pub(crate) lost: u64,
    /// How long that took.
    pub(crate) elapsed: Duration,
    /// The CPU time of both halves.
    pub(crate) cpu: Duration,
}

/// Measures `spec`.
///
/// # Errors
/// When a half cannot start or fails, or nothing happens for too long.
pub(crate) fn measure(mut spec: Spec, registry: &Registry) -> Result<Measured> {
    let registry = registry.clone();
    on_workers(spec.workers, async move {
        let mut server = halves::server_side(&spec, &registry).await?;
        spec.at = server.at();
        let mut client = ClientProcess::start(&spec, &registry)?;
        if client.line(SETTING_UP).await? != "ready" {
            return Err("the client process began with something else".into());
        }
        let measured = match spec.work {
            Work::Requests { .. } => requests(&mut client, &spec).await,
            Work::FanOut { .. } => fan_out(&mut *server, &mut client, &spec).await,
        };
        drop(client);
        server.stop().await?;
        measured
    })
}

async fn requests(client: &mut ClientProcess, spec: &Spec) -> Result<Measured> {
    let cpu = cpu_time();
    client.say("mark").await?;
    let account: Account = serde_json::from_str(&client.line(spec.run() + SETTING_UP).await?)?;
    Ok(Measured {
        operations: account.operations,
        lost: 0,
        elapsed: Duration::from_secs_f64(account.seconds),
        cpu: client.both(cpu_time() - cpu, account),
    })
}

async fn fan_out(
    server: &mut dyn ServerSide,
    client: &mut ClientProcess,
    spec: &Spec,
) -> Result<Measured> {
    let subscribers = spec.work.clients();
    server.subscribed(subscribers).await?;
    let payload = Bytes::from(vec![7; spec.work.bytes()]);
    publish(server, client, &payload, spec.warm_up()).await?;
    client.say("mark").await?;
    if client.line(STALLED).await? != "marked" {
        return Err("the client process did not begin to count".into());
    }
    let (cpu, begin) = (cpu_time(), Clock.now());
    let published = publish(server, client, &payload, spec.run()).await?;
    let elapsed = Clock.now() - begin;
    client.say("end").await?;
    let account: Account = serde_json::from_str(&client.line(SETTING_UP).await?)?;
    let cpu = client.both(cpu_time() - cpu, account);
    Ok(Measured {
        operations: account.operations,
        lost: (published * subscribers as u64).saturating_sub(account.operations),
        elapsed,
        cpu,
    })
}

/// Publishes for so long, never more than [`STEPS`] ahead of the slowest subscriber, and waits until
/// all have all. Returns how many it published. What never comes is waited for once.
async fn publish(
    server: &mut dyn ServerSide,
    client: &mut ClientProcess,
    payload: &Bytes,
    run: Duration,
) -> Result<u64> {
    let end = Clock.after(run);
    let (mut published, mut ahead) = (0, 0);
    loop {
        while ahead < STEPS && Clock.now() < end {
            server.publish(payload, STEP).await?;
            (published, ahead) = (published + STEP, ahead + 1);
        }
        if ahead == 0 {
            return Ok(published);
        }
        match client.line(STALLED).await {
            Ok(line) if line == "had" => ahead -= 1,
            Ok(line) => return Err(format!("the client process said {line:?}").into()),
            // The account says how much did not come.
            Err(error) => {
                eprintln!("saline-bench: after {published} publications: {error}");
                return Ok(published);
            }
        }
    }
}

/// The other half, in a process of its own or, where the transport does not leave this one, here.
#[derive(Debug)]
struct ClientProcess {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    child: Option<Child>,
    /// Aborted when dropped.
    _here: JoinSet<()>,
}

impl ClientProcess {
    fn start(spec: &Spec, registry: &Registry) -> Result<Self> {
        let (ours, theirs) = StdUnixStream::pair()?;
        let mut here = JoinSet::new();
        let child = if spec.backend == "inproc" {
            let (spec, registry) = (spec.clone(), registry.clone());
            theirs.set_nonblocking(true)?;
            let control = UnixStream::from_std(theirs)?;
            here.spawn(async move {
                if let Err(error) = client_process::run(spec, registry, control).await {
                    eprintln!("saline-bench: the clients: {error}");
                }
            });
            None
        } else {
            let mut command = Command::new(std::env::current_exe()?);
            command
                .arg("client-process")
                .arg(serde_json::to_string(spec)?);
            command.stdin(Stdio::from(OwnedFd::from(theirs)));
            Some(command.spawn()?)
        };
        ours.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(ours)?.into_split();
        Ok(Self {
            lines: BufReader::new(reader).lines(),
            writer,
            child,
            _here: here,
        })
    }

    async fn say(&mut self, word: &str) -> Result<()> {
        Ok(self
            .writer
            .write_all(format!("{word}\n").as_bytes())
            .await?)
    }

    async fn line(&mut self, patience: Duration) -> Result<String> {
        match tokio::time::timeout(patience, self.lines.next_line()).await {
            Ok(line) => Ok(line?.ok_or("the client process has ended")?),
            Err(_) => Err(format!("nothing happened for {} s", patience.as_secs()).into()),
        }
    }

    /// The CPU time of both halves, of which this one had `server`.
    fn both(&self, server: Duration, account: Account) -> Duration {
        match self.child {
            Some(_) => server + Duration::from_secs_f64(account.cpu_seconds),
            None => server,
        }
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It has said all that it had to say, or it hangs.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
