//! One link of a client: finding a server, greeting it, and the two tasks that read and write.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_engine::Silence;
use saline_protocol::transport::{
    Context, Endpoint, Error, ErrorKind, Instant, Limits, Metric, Result, Topic,
};
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

use crate::decode::{Bounds, FrameReader};
use crate::frame::{Frame, Hello, Kind, VERSION, Violation};
use crate::line::{Line, write_once};
use crate::stream::{Place, ReadHalf, Socket, Stream, WriteHalf, places};
use crate::subscriber::Subscriptions;
use crate::tls::{Connector, is_of_tls};

/// No peer can ask to be pinged more often.
const MOST_OFTEN: Duration = Duration::from_millis(50);

/// When an idle link says something, and when a silent one is dead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pulse {
    /// What was silent so long says something. Both sides do, so nobody has to answer.
    pub(crate) every: Duration,
    /// A peer that was silent so long is gone. It spoke of its own accord after three quarters of
    /// a ping, so that more than one ping is left for delays.
    pub(crate) dead: Duration,
}

impl Pulse {
    /// From our limits and what the peer asked for.
    pub(crate) fn new(limits: &Limits, peer: &Hello) -> Self {
        let often = limits.ping_interval.min(peer.ping.max(MOST_OFTEN));
        Self {
            every: often * 3 / 4,
            dead: limits.ping_interval * 39 / 20,
        }
    }
}

/// A link that stands.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    frames: FrameReader,
    server: Hello,
    /// SHA-256 of the certificate that the server showed.
    pub(crate) certificate: Option<[u8; 32]>,
}

impl Link {
    /// Tries every place of `endpoint` once, in its order, until `until`.
    ///
    /// # Errors
    /// `Unreachable` when none answers; `Config` when the endpoint can have none.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    pub(crate) async fn dial(
        endpoint: &Endpoint,
        context: &Context,
        connector: Option<&Connector>,
        until: Instant,
    ) -> Result<Self> {
        let clock = context.clock;
        let late = || {
            Error::new(
                ErrorKind::Unreachable,
                format!("{endpoint}: no answer in time"),
            )
        };
        let found = clock.deadline(until, places(endpoint)).await;
        let found = found.map_err(|_| late())??;
        let mut last = None;
        for (index, place) in found.iter().enumerate() {
            // One that does not answer leaves time for those behind it.
            let left = u32::try_from(found.len() - index).unwrap_or(u32::MAX);
            let now = clock.now();
            let share = now + until.saturating_duration_since(now) / left;
            match clock
                .deadline(share, Self::greet(place, endpoint, context, connector))
                .await
            {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(error)) => last = Some(error),
                Err(_) => last = Some(late()),
            }
        }
        Err(last.unwrap_or_else(late))
    }

    async fn greet(
        place: &Place,
        endpoint: &Endpoint,
        context: &Context,
        connector: Option<&Connector>,
    ) -> Result<Self> {
        let unreachable =
            |why: &str| Error::new(ErrorKind::Unreachable, format!("{endpoint}: {why}"));
        let broken = |error: std::io::Error| {
            if is_of_tls(&error) {
                unreachable(&saline_tls::why(&error)).with_source(error)
            } else {
                unreachable("the connection broke").with_source(error)
            }
        };
        let connected = Socket::connect(place, endpoint).await;
        let socket = connected.map_err(|error| unreachable("cannot connect").with_source(error))?;
        let greeting = async {
            let (mut stream, certificate) = match (connector, place, socket) {
                (Some(tls), Place::Network { host, .. }, Socket::Tcp(socket)) => {
                    tls.connect(endpoint, host, socket).await?
                }
                (_, _, socket) => (socket.clear(), None),
            };
            let mut frames = FrameReader::new(Bounds::client(&context.limits));
            let hello = Hello::new(&context.limits).encode();
            let said = async {
                stream.write.write_all(&hello).await?;
                stream.write.flush().await
            };
            if let Err(error) = said.await {
                // A server that refuses our certificate has said so after its own handshake.
                let told = frames.fill(&mut stream.read).await.err();
                return Err(broken(told.filter(is_of_tls).unwrap_or(error)));
            }
            loop {
                match frames.next() {
                    Ok(Some(Frame::Hello(server))) if server.version == VERSION => {
                        return Ok(Self {
                            stream,
                            frames,
                            server,
                            certificate,
                        });
                    }
                    Ok(Some(Frame::Hello(server))) => {
                        let why = format!("speaks version {}", server.version);
                        return Err(unreachable(&why));
                    }
                    Ok(Some(_)) => return Err(unreachable("holds as many connections as it may")),
                    Ok(None) => {}
                    Err(_) if frames.is_tls() => {
                        return Err(unreachable(
                            "the server speaks TLS, and ssl is not set here",
                        ));
                    }
                    Err(Violation(why)) => return Err(unreachable(why)),
                }
                if frames.fill(&mut stream.read).await.map_err(broken)? == 0 {
                    return Err(unreachable("the connection was closed at once"));
                }
            }
        };
        let until = context.clock.after(context.limits.handshake_timeout);
        let greeted = context.clock.deadline(until, greeting).await;
        greeted.map_err(|_| unreachable("nobody answers"))?
    }

    /// The two tasks of the link. Each ends when it breaks or `over` is cancelled.
    pub(crate) fn tasks(
        self,
        context: &Context,
        line: &Arc<Line>,
        subscriptions: &Arc<Subscriptions>,
        over: &CancellationToken,
    ) -> (
        impl Future<Output = ()> + Send + 'static,
        impl Future<Output = ()> + Send + 'static,
    ) {
        let pulse = Pulse::new(&context.limits, &self.server);
        let reader = Reader {
            stream: self.stream.read,
            frames: self.frames,
            line: Arc::clone(line),
            subscriptions: Arc::clone(subscriptions),
            context: context.clone(),
            pulse,
        };
        let writer = Writer {
            stream: self.stream.write,
            line: Arc::clone(line),
            subscriptions: Arc::clone(subscriptions),
            context: context.clone(),
            pulse,
            largest: self.server.max_message,
        };
        let (reading, writing) = (over.clone(), over.clone());
        let reader = async move {
            tokio::select! {
                biased;
                () = reading.cancelled() => {}
                () = reader.run() => {}
            }
        };
        let writer = async move {
            tokio::select! {
                biased;
                () = writing.cancelled() => {}
                result = writer.run() => if let Err(error) = result {
                    tracing::debug!(%error, "the link broke while writing");
                }
            }
        };
        (reader, writer)
    }
}

struct Reader {
    stream: ReadHalf,
    frames: FrameReader,
    line: Arc<Line>,
    subscriptions: Arc<Subscriptions>,
    context: Context,
    pulse: Pulse,
}

impl Reader {
    async fn run(mut self) {
        let (mut outcomes, mut arrived) = (Vec::new(), Vec::new());
        let mut silence = Silence::new(self.context.clock, self.pulse.dead);
        loop {
            let taken = self.take(&mut outcomes, &mut arrived);
            // Also before a violation: what came in before it is good.
            self.line.settle(&mut outcomes);
            self.subscriptions.publications(&mut arrived);
            if let Err(Violation(why)) = taken {
                tracing::warn!(why, "the server broke the protocol");
                self.context.count(Metric::PeersRefused);
                return;
            }
            tokio::select! {
                // First what has come in: on a busy machine both may be ready.
                biased;
                read = self.frames.fill(&mut self.stream) => match read {
                    Ok(0) => return,
                    Ok(_) => silence.heard(),
                    Err(error) => {
                        tracing::debug!(%error, "the link broke while reading");
                        return;
                    }
                },
                () = silence.over() => {
                    tracing::debug!("the server is silent");
                    return;
                }
            }
        }
    }

    fn take(
        &mut self,
        outcomes: &mut Vec<(u64, Option<Bytes>)>,
        arrived: &mut Vec<(Topic, Bytes)>,
    ) -> Result<(), Violation> {
        let subscriptions = &self.subscriptions;
        loop {
            self.frames.publications(arrived)?;
            let Some(frame) = self.frames.next()? else {
                return Ok(());
            };
            match frame {
                Frame::Reply { id, payload } => outcomes.push((id, Some(payload))),
                Frame::NoReply(id) => outcomes.push((id, None)),
                Frame::Publication { topic, payload } => arrived.push((topic, payload)),
                Frame::Subscribed(id) => {
                    // What came before is not for it.
                    subscriptions.publications(arrived);
                    subscriptions.confirmed(id);
                }
                Frame::Denied(id) => subscriptions.denied(id),
                Frame::Lagged { id, count } if count > 0 => {
                    subscriptions.publications(arrived);
                    subscriptions.lagged(id, count);
                }
                Frame::Ping => {}
                _ => return Err(Violation("a frame that means nothing here")),
            }
        }
    }
}

struct Writer {
    stream: WriteHalf,
    line: Arc<Line>,
    subscriptions: Arc<Subscriptions>,
    context: Context,
    pulse: Pulse,
    /// The largest payload that the server takes.
    largest: usize,
}

impl Writer {
    async fn run(mut self) -> std::io::Result<()> {
        let clock = self.context.clock;
        let mut spoke = clock.now();
        let quiet = clock.until(spoke + self.pulse.every);
        tokio::pin!(quiet);
        loop {
            if self.fill() {
                while !write_once(&self.line, &mut self.stream).await? {}
                spoke = clock.now();
                continue;
            }
            tokio::select! {
                biased;
                () = self.line.wake.notified() => {
                    // Others are about to ask too: all of it goes in one write.
                    tokio::task::yield_now().await;
                }
                () = &mut quiet => {
                    if clock.now() >= spoke + self.pulse.every {
                        self.ping();
                        while !write_once(&self.line, &mut self.stream).await? {}
                        spoke = clock.now();
                    }
                    quiet.set(clock.until(spoke + self.pulse.every));
                }
            }
        }
    }

    /// Says that the client is alive, when there is nothing else to say.
    fn ping(&self) {
        let mut sending = self.line.sending();
        sending.batch.rest();
        sending.batch.frame(Kind::Ping, &[], &Bytes::new());
    }

    /// Puts together what there is to say; what is about subscriptions comes first.
    fn fill(&self) -> bool {
        let mut sending = self.line.sending();
        self.subscriptions.take(&mut sending.batch);
        self.line.take(&mut sending, self.largest)
    }
}
