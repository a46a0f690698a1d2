//! Connecting: a link of its own for each connection, and on it a greeting, which the server answers.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_engine::net::{Candidate, candidates};
use saline_engine::{Dialer, Lifetime};
use saline_protocol::transport::{Context, Elapsed, Endpoint, Instant, Limits, Result, jitter};
use tokio::sync::Notify;

use crate::client::{Connector, Handler, Link, LinkEnd, Next};
use crate::connection::{ClientSide, Connection, Side};
use crate::message::{Announcement, Hello};
use crate::options::NatsOptions;
use crate::patience::Patience;
use crate::pipe::{NatsPipe, Owner};
use crate::protocol::Message;
use crate::subjects::Subjects;
use crate::{FAREWELL, NO_RESPONDERS, random_name};

/// The subscriptions of a client: what its server sends it, and what servers say to all.
const DOWN: u64 = 1;
const ALL: u64 = 2;

/// When a greeting that was not answered is repeated for the first time: the subscription may not have reached every server of
/// NATS. The next pauses are twice as long each.
const REPEAT: Duration = Duration::from_millis(500);

/// The longest pause before a greeting is repeated.
const MAX_REPEAT: Duration = Duration::from_secs(8);

/// How long a server of NATS may not know yet that a master serves, which has begun at another server of NATS.
const PROPAGATION: Duration = Duration::from_millis(500);

/// The first pause before a greeting that nobody has heard is repeated.
const UNHEARD: Duration = Duration::from_millis(20);

/// Clients leave their server within this time when another instance says that it serves.
const SPREAD: Duration = Duration::from_secs(1);

/// Connects to the servers of one endpoint.
#[derive(Debug)]
pub struct NatsDialer {
    options: NatsOptions,
    connector: Connector,
    context: Context,
    patience: Arc<Patience>,
    attempts: Mutex<Attempts>,
}

/// The attempt that is made, and what earlier ones have left.
#[derive(Debug, Default)]
struct Attempts {
    /// The links of these attempts, and of the connection that stands.
    links: Vec<Arc<Lifetime>>,
    /// When a greeting of this attempt is given up.
    until: Option<Instant>,
    /// How many servers of NATS this attempt has not run out of time at.
    untried: usize,
    /// The greeting that is not answered yet. The turns of the next servers of NATS go on waiting for it.
    asked: Option<Asked>,
}

/// A greeting that was sent.
#[derive(Debug, Clone)]
struct Asked {
    connection: Arc<Connection>,
    /// The subject of the greeting, and that of the answer.
    head: String,
    /// The name of the connection.
    id: String,
    /// Tells that nobody has heard the greeting.
    unheard: Arc<Notify>,
    since: Instant,
    until: Instant,
}

impl NatsDialer {
    /// Returns a dialer, with TLS as `context` asks for it.
    ///
    /// # Errors
    /// `Config` when `ssl` asks for what cannot be.
    pub(crate) fn new(
        options: NatsOptions,
        patience: Arc<Patience>,
        context: &Context,
    ) -> Result<Self> {
        let (authentication, name) = (options.authentication.clone(), options.name.clone());
        Ok(Self {
            connector: Connector::new(authentication, name, context)?,
            options,
            context: context.clone(),
            patience,
            attempts: Mutex::default(),
        })
    }

    /// Returns the endpoint with the servers of NATS as its addresses.
    pub(crate) fn servers(&self) -> &Endpoint {
        &self.options.endpoint
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        // Each change is one step, so a panic elsewhere does not spoil it.
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NatsDialer {
    /// Ends the link of a greeting that nobody will wait for any more.
    fn drop(&mut self) {
        if let Some(asked) = self.attempts().asked.take() {
            asked.connection.link().close();
        }
    }
}

impl Dialer for NatsDialer {
    type Pipe = NatsPipe;

    fn attempt_time(&self, limits: &Limits) -> Duration {
        self.patience.attempt(limits.connect_timeout)
    }

    async fn candidates(&self, _endpoint: &Endpoint) -> Result<Vec<Candidate>> {
        self.attempts().until = Some(self.patient_until());
        let found = candidates(&self.options.shuffled()).await?;
        self.attempts().untried = found.len();
        Ok(found)
    }

    async fn dial(&self, candidate: &Candidate) -> io::Result<NatsPipe> {
        let clock = self.context.clock;
        let asked = match self.asked() {
            // The answer to a greeting that was sent is worth more than a new greeting, which waits behind all others.
            Some(asked) => asked,
            None => {
                // The links of earlier attempts are over by now, and their tasks with them.
                self.close().await;
                let until = clock.after(self.share());
                let asked = clock.deadline(until, self.ask(candidate)).await;
                asked.unwrap_or_else(|Elapsed| {
                    self.not_let_in();
                    Err(timed_out("no answer in time"))
                })?
            }
        };
        let answered = clock.deadline(asked.until, self.answered(&asked)).await;
        answered.unwrap_or_else(|Elapsed| {
            self.lose_patience();
            Err(timed_out("no master answers"))
        })
    }

    async fn close(&self) {
        loop {
            let Some(link) = self.attempts().links.last().cloned() else {
                return;
            };
            // An error says that something was cut, which it was.
            let _ = link.shutdown(FAREWELL).await;
            let mut attempts = self.attempts();
            attempts.links.retain(|other| !Arc::ptr_eq(other, &link));
        }
    }
}

impl NatsDialer {
    /// Returns the greeting that is not answered, if an answer to it may still come.
    fn asked(&self) -> Option<Asked> {
        let mut attempts = self.attempts();
        let is_over = |asked: &Asked| {
            let link = asked.connection.link();
            self.context.clock.now() >= asked.until || link.end().is_some()
        };
        if let Some(over) = attempts.asked.take_if(|asked| is_over(asked)) {
            over.connection.link().close();
        }
        attempts.asked.clone()
    }

    /// Notes that a server of NATS did not let this client in in time. When none did, the next attempt gets more time: links
    /// that are given up half way are work for servers that are too busy already.
    fn not_let_in(&self) {
        let mut attempts = self.attempts();
        attempts.untried = attempts.untried.saturating_sub(1);
        if attempts.untried == 0 {
            self.patience.grow();
        }
    }

    /// Gives the greeting up, and the next ones more time.
    fn lose_patience(&self) {
        if let Some(asked) = self.attempts().asked.take() {
            asked.connection.link().close();
        }
        self.patience.grow();
    }

    /// Returns when the greeting of an attempt that begins now is given up.
    fn patient_until(&self) -> Instant {
        let patience = self.patience.greeting(self.context.limits.connect_timeout);
        self.context.clock.after(patience)
    }

    /// Returns how long one server of NATS may take to let a client in.
    fn share(&self) -> Duration {
        let servers = self.options.servers().try_into().unwrap_or(u32::MAX);
        // Shorter than its turn, so that this end notices that nothing comes of it.
        let patience = self.patience.greeting(self.context.limits.connect_timeout);
        patience / servers.max(1)
    }

    /// Connects to a server of NATS, and asks for a connection.
    async fn ask(&self, candidate: &Candidate) -> io::Result<Asked> {
        let Candidate::Network { address, host } = candidate else {
            let why = format!("{candidate:?} is not an address that NATS can use");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        let context = &self.context;
        let established = self.connector.connect(*address, host, context).await?;
        let tasks = Lifetime::new(context.clone(), Duration::ZERO);
        self.attempts().links.push(Arc::clone(&tasks));
        let id = random_name()?;
        let subjects = &self.options.subjects;
        let user = established.user.clone();
        let mut made = None;
        let unheard = Arc::new(Notify::new());
        let link = Link::start(established, &tasks, |link| {
            let side = Side::Client(ClientSide::new(subjects, &user, &id));
            let connection = Connection::new(link, side);
            made = Some(Arc::clone(&connection));
            ClientHandler {
                connection,
                link: Arc::clone(link),
                subjects: subjects.clone(),
                server: None,
                unheard: Arc::clone(&unheard),
            }
        });
        let Some(connection) = made else {
            return Err(io::Error::other("a link without a connection"));
        };
        let down = subjects.down(&user, &id);
        link.subscribe(&down, DOWN);
        link.subscribe(&subjects.all(), ALL);
        let mut attempts = self.attempts();
        let asked = Asked {
            head: format!("{} {down}", subjects.hello(&user)),
            since: context.clock.now(),
            until: attempts.until.unwrap_or_else(|| self.patient_until()),
            connection,
            id,
            unheard,
        };
        attempts.asked = Some(asked.clone());
        Ok(asked)
    }

    /// Repeats a greeting until it is answered.
    ///
    /// # Cancel safety
    /// The greeting stands when the future is dropped, and may be waited for again.
    async fn answered(&self, asked: &Asked) -> io::Result<NatsPipe> {
        let opened = tokio::select! {
            biased;
            opened = poll_fn(|cx| asked.connection.poll_open(cx)) => opened,
            why = self.greet(asked) => Err(io::Error::new(io::ErrorKind::ConnectionRefused, why)),
        };
        let mut attempts = self.attempts();
        attempts.asked = None;
        match opened {
            Ok(()) => {
                self.patience.shrink();
                let connection = Arc::clone(&asked.connection);
                Ok(NatsPipe::new(connection, Owner::Client))
            }
            Err(why) => {
                asked.connection.link().close();
                Err(why)
            }
        }
    }

    /// Sends a greeting again and again. Returns why nobody will answer it, if nobody serves.
    async fn greet(&self, asked: &Asked) -> String {
        let (clock, link) = (self.context.clock, asked.connection.link());
        let (mut pause, mut repeat) = (UNHEARD, REPEAT);
        loop {
            link.publish(&asked.head, &Hello::encode(&asked.id));
            let answer = clock.deadline(clock.after(repeat), asked.unheard.notified());
            if answer.await.is_ok() {
                if clock.now() >= asked.since + PROPAGATION {
                    return nobody_serves(&self.options.subjects, &link.server);
                }
                clock.pause(pause).await;
                pause *= 2;
            } else {
                repeat = (repeat * 2).min(MAX_REPEAT);
            }
        }
    }
}

fn timed_out(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

fn nobody_serves(subjects: &Subjects, server: &str) -> String {
    format!("no master serves subject {subjects} at {server}")
}

/// What a client does with what arrives.
struct ClientHandler {
    connection: Arc<Connection>,
    link: Arc<Link>,
    subjects: Subjects,
    /// The instance of the server, and its connection to NATS.
    server: Option<(String, u64)>,
    /// Tells that nobody has heard the greeting.
    unheard: Arc<Notify>,
}

impl ClientHandler {
    fn announced(&self, payload: Option<&[u8]>) -> Next {
        let announced = payload.and_then(Announcement::decode);
        match (announced, &self.server) {
            (Some(new), Some((instance, epoch)))
                if new.instance != instance || new.epoch != *epoch =>
            {
                tracing::debug!(subject = %self.subjects, "another instance serves");
                Next::EndAfter(jitter(SPREAD))
            }
            _ => Next::GoOn,
        }
    }
}

impl Handler for ClientHandler {
    fn message(&mut self, message: Message) -> Next {
        let payload = message.payload.as_deref();
        if message.subscription == ALL {
            return self.announced(payload);
        }
        if message.status == Some(NO_RESPONDERS) {
            if self.server.is_none() {
                self.unheard.notify_one();
                return Next::GoOn;
            }
            let why = nobody_serves(&self.subjects, &self.link.server);
            self.connection
                .break_off(io::ErrorKind::ConnectionReset, &why);
            return Next::GoOn;
        }
        if let Some(server) = self.connection.take(payload) {
            self.server = Some((server.instance.to_owned(), server.epoch));
        }
        Next::GoOn
    }

    fn refused(&mut self, why: &str) {
        let why = self.link.refusal(why);
        self.connection.break_off(io::ErrorKind::InvalidData, &why);
    }

    fn ended(&mut self, end: &LinkEnd) {
        self.connection
            .break_off(io::ErrorKind::ConnectionReset, &end.0);
    }
}
