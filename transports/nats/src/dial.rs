//! Connecting: a link of its own for each connection, and on it a greeting, which the server answers.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_engine::net::{Candidate, candidates};
use saline_engine::{Dialer, Lifetime};
use saline_protocol::transport::{Context, Endpoint, Result, jitter};
use tokio::sync::Notify;

use crate::client::{Connector, Handler, Link, LinkEnd, Next};
use crate::connection::{ClientSide, Connection, Side};
use crate::message::{Announcement, Hello};
use crate::options::NatsOptions;
use crate::pipe::{NatsPipe, Owner};
use crate::protocol::Message;
use crate::subjects::Subjects;
use crate::{FAREWELL, NO_RESPONDERS, random_name};

/// The subscriptions of a client: what its server sends it, and what servers say to all.
const DOWN: u64 = 1;
const ALL: u64 = 2;

/// When a greeting that was not answered is repeated: the subscription may not have reached every server of NATS.
const REPEAT: Duration = Duration::from_millis(500);

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
    /// The links of earlier attempts, and of the connection that stands.
    attempts: Mutex<Vec<Arc<Lifetime>>>,
}

impl NatsDialer {
    /// Returns a dialer, with TLS as `context` asks for it.
    ///
    /// # Errors
    /// `Config` when `ssl` asks for what cannot be.
    pub(crate) fn new(options: NatsOptions, context: &Context) -> Result<Self> {
        let (authentication, name) = (options.authentication.clone(), options.name.clone());
        Ok(Self {
            connector: Connector::new(authentication, name, context)?,
            options,
            context: context.clone(),
            attempts: Mutex::default(),
        })
    }

    /// Returns the endpoint with the servers of NATS as its addresses.
    pub(crate) fn servers(&self) -> &Endpoint {
        &self.options.endpoint
    }

    fn attempts(&self) -> MutexGuard<'_, Vec<Arc<Lifetime>>> {
        // Each change is one step, so a panic elsewhere does not spoil it.
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dialer for NatsDialer {
    type Pipe = NatsPipe;

    async fn candidates(&self, _endpoint: &Endpoint) -> Result<Vec<Candidate>> {
        candidates(&self.options.shuffled()).await
    }

    async fn dial(&self, candidate: &Candidate) -> io::Result<NatsPipe> {
        let Candidate::Network { address, host } = candidate else {
            let why = format!("{candidate:?} is not an address that NATS can use");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        // The link of the connection before this one is gone by now, and its task with it.
        self.close().await;
        let context = &self.context;
        let established = self.connector.connect(*address, host, context).await?;
        let tasks = Lifetime::new(context.clone(), Duration::ZERO);
        self.attempts().push(Arc::clone(&tasks));
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
        let pipe = NatsPipe::new(Arc::clone(&connection), Owner::Client);
        let down = subjects.down(&user, &id);
        link.subscribe(&down, DOWN);
        link.subscribe(&subjects.all(), ALL);
        let hello = format!("{} {down}", subjects.hello(&user));
        let clock = context.clock;
        let asking = async {
            let until = clock.after(PROPAGATION);
            let mut pause = UNHEARD;
            loop {
                link.publish(&hello, &Hello::encode(&id));
                let answer = clock.deadline(clock.after(REPEAT), unheard.notified());
                if answer.await.is_ok() {
                    if clock.now() >= until {
                        return nobody_serves(subjects, &link.server);
                    }
                    clock.pause(pause).await;
                    pause *= 2;
                }
            }
        };
        tokio::select! {
            biased;
            opened = poll_fn(|cx| connection.poll_open(cx)) => opened.map(|()| pipe),
            why = asking => Err(io::Error::new(io::ErrorKind::ConnectionRefused, why)),
        }
    }

    async fn close(&self) {
        loop {
            let Some(attempt) = self.attempts().last().cloned() else {
                return;
            };
            // An error says that something was cut, which it was.
            let _ = attempt.shutdown(FAREWELL).await;
            self.attempts()
                .retain(|other| !Arc::ptr_eq(other, &attempt));
        }
    }
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
