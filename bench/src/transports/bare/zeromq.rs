//! Bare libzmq on blocking threads: ROUTER facing DEALER, XPUB facing SUB.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::Clock;
use tokio::task::block_in_place;

use crate::Result;
use crate::transports::flow_limit::{FlowLimit, STEP, STEPS, SubscriberCount};
use crate::transports::plan::Work;
use crate::transports::side::{ClientSide, ServerSide, first};

/// How often a thread that waits looks whether it is over, in milliseconds.
const POLL_INTERVAL_MS: i32 = 100;

/// The high-water mark, well above what a publisher is ahead: libzmq hears of what was read in lots
/// of half a mark, and drops silently at the mark.
const HIGH_WATER: i32 = 8 * STEP as i32 * STEPS as i32;

/// How long a message may take, in milliseconds.
const RECEIVE_TIMEOUT_MS: i32 = 30_000;

/// Ends and joins a thread.
#[derive(Debug)]
struct Thread {
    stop: Arc<AtomicBool>,
    running: Option<JoinHandle<()>>,
}

impl Thread {
    fn start(work: impl FnOnce(&AtomicBool) -> zmq::Result<()> + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let running = std::thread::spawn(move || {
            if let Err(error) = work(&stopped) {
                eprintln!("saline-bench: bare libzmq: {error}");
            }
        });
        Self {
            stop,
            running: Some(running),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(running) = self.running.take() {
            // One that panicked has said so.
            let _ = running.join();
        }
    }
}

/// Returns the result of a blocking call, or `None` when it only timed out.
fn unless_again<T>(result: zmq::Result<T>) -> zmq::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A bound socket.
pub(crate) struct Serving {
    at: String,
    /// Publishes; requests are echoed by the thread, which owns its socket.
    publisher: Option<zmq::Socket>,
    next: u64,
    _echo: Option<Thread>,
}

impl Serving {
    /// Binds.
    pub(crate) fn start(work: Work) -> Result<Self> {
        let kind = match work {
            Work::Requests { .. } => zmq::ROUTER,
            Work::FanOut { .. } => zmq::XPUB,
        };
        let socket = zmq::Context::new().socket(kind)?;
        socket.set_linger(0)?;
        // A thousand connect at once, and the default backlog is 100.
        socket.set_backlog(4096)?;
        if kind == zmq::XPUB {
            socket.set_xpub_verbose(true)?;
            socket.set_sndhwm(HIGH_WATER)?;
        }
        socket.bind("tcp://127.0.0.1:*")?;
        let at = socket.get_last_endpoint()?;
        let at = at.map_err(|_| "libzmq bound something that is not text")?;
        let (publisher, echo) = match work {
            Work::FanOut { .. } => (Some(socket), None),
            Work::Requests { .. } => (None, Some(Thread::start(move |stop| echo(&socket, stop)))),
        };
        Ok(Self {
            at,
            publisher,
            next: 0,
            _echo: echo,
        })
    }

    fn publisher(&self) -> Result<&zmq::Socket> {
        Ok(self.publisher.as_ref().ok_or("this one echoes")?)
    }
}

fn echo(router: &zmq::Socket, stop: &AtomicBool) -> zmq::Result<()> {
    router.set_rcvtimeo(POLL_INTERVAL_MS)?;
    while !stop.load(Ordering::Relaxed) {
        if let Some(from) = unless_again(router.recv_msg(0))? {
            let body = router.recv_msg(0)?;
            router.send(from, zmq::SNDMORE)?;
            router.send(body, 0)?;
        }
    }
    Ok(())
}

#[async_trait]
impl ServerSide for Serving {
    fn at(&self) -> Vec<String> {
        vec![self.at.clone()]
    }

    async fn subscribed(&mut self, subscribers: usize) -> Result<()> {
        let publisher = self.publisher()?;
        publisher.set_rcvtimeo(RECEIVE_TIMEOUT_MS)?;
        for _ in 0..subscribers {
            block_in_place(|| publisher.recv_msg(0))?;
        }
        Ok(())
    }

    async fn publish(&mut self, payload: &Bytes, times: u64) -> Result<()> {
        let mut message = b"job/all/".to_vec();
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(payload);
        for _ in 0..times {
            message[8..16].copy_from_slice(&self.next.to_le_bytes());
            self.next += 1;
            self.publisher()?.send(&message[..], 0)?;
        }
        Ok(())
    }

    async fn stop(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The connecting half.
pub(crate) struct Clients {
    at: String,
    context: zmq::Context,
    asking: Option<zmq::Socket>,
    reading: Option<Thread>,
}

impl Clients {
    /// None is connected yet.
    pub(crate) fn new(at: Vec<String>) -> Result<Self> {
        Ok(Self {
            at: first(&at)?,
            context: zmq::Context::new(),
            asking: None,
            reading: None,
        })
    }

    fn ask_blocking(&mut self, outstanding: usize, bytes: usize, run: Duration) -> Result<u64> {
        if self.asking.is_none() {
            let dealer = self.context.socket(zmq::DEALER)?;
            dealer.set_linger(0)?;
            dealer.set_rcvtimeo(RECEIVE_TIMEOUT_MS)?;
            dealer.connect(&self.at)?;
            self.asking = Some(dealer);
        }
        let dealer = self.asking.as_ref().ok_or("not connected")?;
        let payload = vec![7; bytes];
        for _ in 0..outstanding {
            dealer.send(&payload[..], 0)?;
        }
        let end = Clock.after(run);
        let mut answered = 0;
        while Clock.now() < end {
            for _ in 0..outstanding {
                dealer.recv_msg(0)?;
                dealer.send(&payload[..], 0)?;
            }
            answered += outstanding as u64;
        }
        for _ in 0..outstanding {
            dealer.recv_msg(0)?;
        }
        Ok(answered + outstanding as u64)
    }
}

#[async_trait]
impl ClientSide for Clients {
    async fn ask(&mut self, outstanding: usize, bytes: usize, run: Duration) -> Result<u64> {
        block_in_place(|| self.ask_blocking(outstanding, bytes, run))
    }

    async fn subscribe(
        &mut self,
        subscribers: usize,
        _: usize,
        limit: &Arc<FlowLimit>,
    ) -> Result<()> {
        let mut sockets = Vec::new();
        for _ in 0..subscribers {
            let socket = self.context.socket(zmq::SUB)?;
            socket.set_linger(0)?;
            socket.set_rcvtimeo(POLL_INTERVAL_MS)?;
            socket.set_rcvhwm(HIGH_WATER)?;
            socket.set_subscribe(b"job/all/")?;
            socket.connect(&self.at)?;
            sockets.push((socket, limit.subscriber()));
        }
        self.reading = Some(Thread::start(move |stop| read(sockets, stop)));
        Ok(())
    }
}

/// Reads a step from each in turn: all of them get it, and none is asked in vain.
fn read(mut sockets: Vec<(zmq::Socket, SubscriberCount)>, stop: &AtomicBool) -> zmq::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        for (socket, count) in &mut sockets {
            for _ in 0..STEP {
                match unless_again(socket.recv_msg(0))? {
                    Some(message) => match message.get(8..16).and_then(|n| n.first_chunk()) {
                        Some(number) => count.numbered(u64::from_le_bytes(*number)),
                        None => return Err(zmq::Error::EPROTO),
                    },
                    None => break,
                }
            }
        }
    }
    Ok(())
}
