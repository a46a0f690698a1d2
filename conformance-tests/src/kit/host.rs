//! A server under test.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{
    Clock, Context, Counters, Departure, Departures, ErrorKind, Limits, LocalAccess, Peer,
    Publisher, Request, Requests, Result, ServeAt, Server, ServerControl, Topic,
};

use tokio::sync::Mutex;

use super::{Caller, TEST_TIMEOUT, World};
use crate::{Expecting, Failure, Outcome};

/// A server that runs, with what it was given.
#[derive(Debug)]
pub struct Host {
    /// What clients ask, until it is given to [`answering`](Self::answering).
    pub requests: Inbox,
    /// Publishes.
    pub publisher: Arc<dyn Publisher>,
    /// Cuts and ends.
    pub control: Arc<dyn ServerControl>,
    /// Who has gone.
    pub departures: Departed,
    /// What was bound.
    pub bound: ServeAt,
    /// What it was given.
    pub context: Context,
    /// What it counted.
    pub counters: Arc<Counters>,
}

impl World {
    /// Starts a server at a fresh place.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn serve(&self) -> Outcome<Host> {
        self.serve_with(self.limits()).await
    }

    /// The same with other limits.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn serve_with(&self, limits: Limits) -> Outcome<Host> {
        let host = self.try_serve(self.fresh(), limits).await;
        host.expecting("serving at a fresh endpoint")
    }

    /// Starts a server where another was before.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn serve_again(&self, at: &ServeAt) -> Outcome<Host> {
        let host = self.try_serve(at.clone(), self.limits()).await;
        let host = host.expecting("serving again where a server was shut down");
        host.map_err(|failure| failure.about("SHU-004"))
    }

    /// Starts a server where another was given up, whose end nobody could wait for.
    ///
    /// # Errors
    /// When the place does not become free within [`TEST_TIMEOUT`].
    pub async fn serve_soon(&self, at: &ServeAt) -> Outcome<Host> {
        let deadline = self.clock().after(TEST_TIMEOUT);
        loop {
            match self.try_serve(at.clone(), self.limits()).await {
                Err(error)
                    if error.kind() == ErrorKind::Refused && self.clock().now() < deadline =>
                {
                    self.clock().pause(Duration::from_millis(10)).await;
                }
                host => {
                    let host = host.expecting("serving where a server was given up");
                    return host.map_err(|failure| failure.about("SHU-014"));
                }
            }
        }
    }

    /// Starts a server at `at`, if the backend lets it.
    ///
    /// # Errors
    /// The backend's.
    pub async fn try_serve(&self, at: ServeAt, limits: Limits) -> Result<Host> {
        let (context, counters) = self.context_with(limits);
        let server = self.transport.serve(at, context.clone()).await?;
        Ok(Host::new(server, context, counters))
    }

    /// The same, letting these users of this machine in.
    ///
    /// # Errors
    /// The backend's.
    pub async fn try_serve_to(&self, at: ServeAt, access: LocalAccess) -> Result<Host> {
        let (context, counters) = self.context_with(self.limits());
        let context = context.with_local_access(access);
        let server = self.transport.serve(at, context.clone()).await?;
        Ok(Host::new(server, context, counters))
    }

    /// Connects a client to `host`.
    ///
    /// # Errors
    /// When it does not connect.
    pub async fn client(&self, host: &Host) -> Outcome<Caller> {
        self.client_with(host, self.limits()).await
    }

    /// The same with other limits.
    ///
    /// # Errors
    /// When it does not connect.
    pub async fn client_with(&self, host: &Host, limits: Limits) -> Outcome<Caller> {
        let caller = self.try_client(&host.bound, limits).await;
        caller.expecting("connecting to a server that is up")
    }

    /// Connects a client to a server at `at`, if the backend lets it.
    ///
    /// # Errors
    /// The backend's.
    pub async fn try_client(&self, at: &ServeAt, limits: Limits) -> Result<Caller> {
        let (context, counters) = self.context_with(limits);
        self.try_client_in(at, (context, counters)).await
    }

    /// Connects a client with this context and the counters in it, if the backend lets it.
    ///
    /// # Errors
    /// The backend's.
    pub async fn try_client_in(
        &self,
        at: &ServeAt,
        (context, counters): (Context, Arc<Counters>),
    ) -> Result<Caller> {
        let client = self
            .transport
            .connect(&at.requests, context.clone())
            .await?;
        Ok(Caller {
            client,
            context,
            counters,
            publications: at.publications.clone(),
        })
    }
}

impl Host {
    pub(crate) fn new(server: Server, context: Context, counters: Arc<Counters>) -> Self {
        Self {
            requests: Inbox(Some(Mutex::new(server.requests))),
            publisher: server.publisher,
            control: server.control,
            departures: Departed(Mutex::new(server.departures)),
            bound: server.bound,
            context,
            counters,
        }
    }

    /// Gives every request to `handler`, from a task.
    #[must_use]
    pub fn answering(
        mut self,
        world: &World,
        handler: impl Fn(Request) + Send + Sync + 'static,
    ) -> Self {
        if let Some(mut requests) = self.requests.0.take() {
            world.spawn(async move {
                let requests = requests.get_mut();
                while let Some(request) = requests.next().await {
                    handler(request);
                }
            });
        }
        self
    }

    /// Answers every request with its own payload.
    #[must_use]
    pub fn echoing(self, world: &World) -> Self {
        self.answering(world, echo)
    }

    /// Publishes, and fails if the publisher makes it wait.
    ///
    /// # Errors
    /// When it is not taken, or not in time.
    pub async fn publish(&self, topic: &Topic, payload: impl Into<Bytes>) -> Outcome {
        let taken = self.publisher.publish(topic, payload.into());
        Clock
            .deadline(Clock.after(TEST_TIMEOUT), taken)
            .await
            .expecting("publishing")?
            .expecting("publishing")
    }

    /// Shuts down with that much time for what is owed; the suite fails if it takes much longer.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn shut_down(
        &self,
        deadline: Duration,
    ) -> Outcome<saline_protocol::transport::Result<()>> {
        let down = self.control.shutdown(deadline);
        let latest = Clock.after(deadline + TEST_TIMEOUT);
        Clock
            .deadline(latest, down)
            .await
            .expecting("shutting a server down")
    }

    /// Ends it as quickly as can be, cutting what is owed.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn kill(&self) -> Outcome {
        // Whether something had to be cut is for the requirements of shutdown to judge.
        self.shut_down(Duration::ZERO).await.map(|_| ())
    }
}

/// Sends a request's own payload back.
pub fn echo(request: Request) {
    let payload = request.payload.clone();
    // A reply of the size of a request is never too large.
    let _ = request.reply.send(payload);
}

/// The requests of a server, read by hand. The lock is never waited for: it only lets a [`Host`] be
/// shared, which the stream alone cannot be.
#[derive(Debug, Default)]
pub struct Inbox(Option<Mutex<Box<dyn Requests>>>);

impl Inbox {
    /// The next request, within [`TEST_TIMEOUT`].
    ///
    /// # Errors
    /// When none comes.
    pub async fn next(&mut self) -> Outcome<Request> {
        self.within(TEST_TIMEOUT)
            .await?
            .expecting("waiting for a request to arrive at the server")
    }

    /// The next request, `None` when the stream ends.
    ///
    /// # Errors
    /// When neither happens within `limit`.
    pub async fn within(&mut self, limit: Duration) -> Outcome<Option<Request>> {
        let deadline = Clock.after(limit);
        Clock
            .deadline(deadline, self.stream()?.next())
            .await
            .expecting("waiting for a request to arrive at the server")
    }

    /// A batch of at most `most` requests, within [`TEST_TIMEOUT`]. Returns how many were added.
    ///
    /// # Errors
    /// When none comes.
    pub async fn batch(&mut self, into: &mut Vec<Request>, most: usize) -> Outcome<usize> {
        let deadline = Clock.after(TEST_TIMEOUT);
        let taken = Clock
            .deadline(deadline, self.stream()?.next_batch(into, most))
            .await
            .expecting("waiting for a batch of requests")?;
        match taken {
            0 => Err(Failure::new("the stream of requests has ended")),
            taken => Ok(taken),
        }
    }

    /// The stream itself.
    ///
    /// # Errors
    /// When it was given away.
    pub fn stream(&mut self) -> Outcome<&mut Box<dyn Requests>> {
        self.0
            .as_mut()
            .map(Mutex::get_mut)
            .ok_or_else(|| Failure::new("the requirement has given its requests away"))
    }
}

/// The departures of a server, read by hand. As of an [`Inbox`], its lock is never waited for.
#[derive(Debug)]
pub struct Departed(Mutex<Box<dyn Departures>>);

impl Departed {
    /// The next departure, within [`TEST_TIMEOUT`]; `None` at the end.
    ///
    /// # Errors
    /// When neither comes.
    pub async fn next(&mut self) -> Outcome<Option<Departure>> {
        self.within(TEST_TIMEOUT).await
    }

    /// The next departure within `limit`; `None` at the end.
    ///
    /// # Errors
    /// When neither comes.
    pub async fn within(&mut self, limit: Duration) -> Outcome<Option<Departure>> {
        let deadline = Clock.after(limit);
        Clock
            .deadline(deadline, self.0.get_mut().next())
            .await
            .expecting("waiting for a departure")
    }
}

/// Lets `caller` ask something, and tells `host` that it is admitted. Returns its peer.
pub(crate) async fn admit(host: &mut Host, caller: &Caller) -> Outcome<Peer> {
    let (reply, peer) = tokio::join!(caller.ask("let me in"), async {
        let request = host.requests.next().await?;
        host.control.admitted(request.peer);
        request.reply.send("come in".into())?;
        Outcome::Ok(request.peer)
    });
    reply.expecting("the request of a client that is to be admitted")?;
    peer
}
