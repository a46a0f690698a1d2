//! The serving side of a link: what arrives on it, and the connections that stand.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_protocol::transport::{Context, Metric};
use tokio::sync::Notify;

use crate::client::{Handler, Link, LinkEnd, Next, broken};
use crate::connection::{Connection, Side};
use crate::hello_queue::{HelloQueue, WaitingHello, WelcomePlace};
use crate::message::{self, Announcement, Content, Hello, NAME, Numbered, VERSION};
use crate::protocol::{Message, publish};
use crate::subjects::{Subjects, is_token};
use crate::{NO_RESPONDERS, random_name};

/// The subscriptions of a server: greetings, messages of connections, questions whether the name is taken, and the
/// answers to its own question.
pub(crate) const HELLO: u64 = 1;
pub(crate) const UP: u64 = 2;
pub(crate) const WHO: u64 = 3;
pub(crate) const ANSWERS: u64 = 4;

/// What the parts of one server share.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) subjects: Subjects,
    /// The random name of this server, new with every start.
    pub(crate) instance: String,
    /// How many links there were.
    epoch: AtomicU64,
    pub(crate) hellos: Arc<HelloQueue>,
    connections: Mutex<HashMap<Box<[u8]>, Arc<Connection>>>,
    claim: Mutex<ClaimState>,
    /// Tells that an answer to the own question has come.
    pub(crate) answered: Notify,
    pub(crate) context: Context,
}

/// What is known of others that serve the name.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClaimState {
    /// This server serves: it is past asking.
    pub(crate) is_serving: bool,
    /// Nobody has subscribed to the question.
    pub(crate) is_free: bool,
    /// The instance that serves, or that asks as well and comes first.
    pub(crate) taken_by: Option<String>,
}

impl Serving {
    /// Returns the state of a server that does not serve yet.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub(crate) fn new(subjects: Subjects, context: &Context) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            subjects,
            instance: random_name()?,
            epoch: AtomicU64::new(0),
            hellos: Arc::default(),
            connections: Mutex::default(),
            claim: Mutex::default(),
            answered: Notify::new(),
            context: context.clone(),
        }))
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Arc<Connection>>> {
        // Each change is one step, so a panic elsewhere does not spoil it.
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of others that serve the name.
    pub(crate) fn claim(&self) -> MutexGuard<'_, ClaimState> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a new link.
    pub(crate) fn next_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns what this server says of itself.
    pub(crate) fn announcement(&self) -> Announcement<'_> {
        Announcement {
            instance: &self.instance,
            epoch: self.epoch.load(Ordering::Relaxed),
        }
    }

    /// Returns the subject of questions' answers for `user`.
    pub(crate) fn answers(&self, user: &str) -> String {
        self.subjects.down(user, &self.instance)
    }

    /// Makes a connection of a greeting. None when it was a greeting that was repeated.
    ///
    /// # Errors
    /// When the link has ended.
    pub(crate) fn establish(
        &self,
        hello: &WaitingHello,
        welcome: WelcomePlace,
    ) -> io::Result<Option<Arc<Connection>>> {
        let key = self.key(hello);
        let mut connections = self.connections();
        if let Some(known) = connections.get(&key) {
            let known = Arc::clone(known);
            drop(connections);
            self.welcome_again(hello, &known);
            return Ok(None);
        }
        let head = self.subjects.down(&hello.user, &hello.id);
        let connection = Connection::new(&hello.link, Side::Server(head));
        connection.keep(welcome);
        connections.insert(key, Arc::clone(&connection));
        drop(connections);
        // Whoever ends the link after this line finds the connection in the table.
        if let Some(end) = hello.link.end() {
            self.release(hello);
            return Err(broken(&end));
        }
        self.welcome(hello, &connection);
        Ok(Some(connection))
    }

    /// Tells a client that it has a connection. Where nobody has subscribed to what the client listens to, NATS says so on the
    /// subject of the connection, which then ends: its client gave up before its turn came.
    fn welcome(&self, hello: &WaitingHello, connection: &Connection) {
        let up = self.subjects.up(&hello.user, &self.instance, &hello.id);
        connection.welcome(self.announcement(), &up);
    }

    /// Answers a greeting that was repeated: the first answer may have met no subscription.
    fn welcome_again(&self, hello: &WaitingHello, known: &Connection) {
        if known.is_fresh() {
            self.welcome(hello, known);
        }
    }

    /// Forgets a connection.
    pub(crate) fn release(&self, hello: &WaitingHello) {
        let mut connections = self.connections();
        connections.remove(&self.key(hello));
        if connections.is_empty() {
            connections.shrink_to_fit();
        }
    }

    /// Returns what is behind `up.` in the subject of a connection.
    fn key(&self, hello: &WaitingHello) -> Box<[u8]> {
        let (user, id) = (&hello.user, &hello.id);
        format!("{user}.{}.{id}", self.instance).into_bytes().into()
    }

    /// Tells a client why it gets no connection.
    pub(crate) fn refuse(&self, hello: &WaitingHello, why: &str) {
        let head = self.subjects.down(&hello.user, &hello.id);
        tell(&hello.link, &head, &refusal(why));
    }
}

fn refusal(why: &str) -> Vec<u8> {
    let refused = Numbered {
        number: 0,
        content: Content::Refused(why.to_owned()),
    };
    refused.encode()
}

/// Publishes what a peer can cause at will.
fn tell(link: &Link, subject: &str, payload: &[u8]) {
    link.say_if_there_is_room(|buffer| {
        publish(buffer, subject, &[io::IoSlice::new(payload)]);
    });
}

/// What a server does with what arrives on one link.
pub(crate) struct ServerHandler {
    pub(crate) serving: Arc<Serving>,
    pub(crate) link: Arc<Link>,
}

impl ServerHandler {
    fn hello(&self, subject: &[u8], payload: Option<&[u8]>) {
        let serving = &self.serving;
        let user = serving.subjects.user("hello", subject);
        let hello = payload.and_then(Hello::decode);
        let (Some(user), Some(hello)) = (user, hello) else {
            tracing::debug!(subject = %String::from_utf8_lossy(subject), "a malformed greeting");
            return serving.context.count(Metric::PeersRefused);
        };
        match hello {
            Hello::Connection(id) => {
                let hello = WaitingHello {
                    user: user.as_str().to_owned(),
                    source: user.source(),
                    id: id.to_owned(),
                    link: Arc::clone(&self.link),
                };
                let known = serving.connections().get(&serving.key(&hello)).cloned();
                if let Some(known) = known {
                    return serving.welcome_again(&hello, &known);
                }
                if !serving.hellos.push(hello) {
                    // Not told: whoever waits asks again, and one that is refused does that over a new link.
                    serving.context.count(Metric::PeersRefused);
                }
            }
            Hello::Foreign(version, id) => {
                serving.context.count(Metric::PeersRefused);
                let why = format!(
                    "the server speaks version {VERSION} of virtual connections, this end {version}: upgrade the older one"
                );
                let down = serving.subjects.down(user.as_str(), id);
                tell(&self.link, &down, &refusal(&why));
            }
        }
    }

    /// Hands a message to its connection. A peer whose connection this server does not have is told that it is over.
    fn up(&self, subject: &[u8], status: Option<u16>, payload: Option<&[u8]>) {
        let Some(key) = self.serving.subjects.behind_up(subject) else {
            return;
        };
        let connection = self.serving.connections().get(key).cloned();
        if status == Some(NO_RESPONDERS) {
            if let Some(connection) = connection {
                let why = "the client has gone before its turn came";
                connection.break_off(io::ErrorKind::ConnectionReset, why);
            }
            return;
        }
        if let Some(connection) = connection {
            // What a client says of servers means nothing, and breaks its connection.
            let _ = connection.take(payload);
            return;
        }
        if payload.is_some_and(message::says_the_end) {
            return;
        }
        let mut tokens = key.split(|byte| *byte == b'.');
        let (user, id) = (tokens.next(), tokens.nth(1));
        let text = |token: Option<&[u8]>| {
            let token = str::from_utf8(token?).ok()?;
            is_token(token).then(|| token.to_owned())
        };
        if let (Some(user), Some(id)) = (text(user), text(id)) {
            let down = self.serving.subjects.down(&user, &id);
            tell(&self.link, &down, &message::cut());
        }
    }

    /// Answers a server that asks whether the name is taken.
    fn who(&self, subject: &[u8], payload: Option<&[u8]>) {
        let user = self.serving.subjects.user("who", subject);
        let asker = payload.and_then(Hello::decode);
        if let (Some(user), Some(Hello::Connection(asker))) = (user, asker)
            && asker != self.serving.instance
        {
            let is_serving = self.serving.claim().is_serving;
            let mut answer = vec![u8::from(is_serving)];
            answer.extend_from_slice(self.serving.instance.as_bytes());
            let down = self.serving.subjects.down(user.as_str(), asker);
            tell(&self.link, &down, &answer);
        }
    }

    /// Takes an answer to the own question.
    fn answer(&self, status: Option<u16>, payload: Option<&[u8]>) {
        let serving = &self.serving;
        let mut claim = serving.claim();
        if status == Some(NO_RESPONDERS) {
            claim.is_free = true;
        } else if let Some((is_serving, other)) = payload.and_then(<[u8]>::split_first)
            && let Ok(other) = str::from_utf8(other)
            && other.len() == NAME
            && is_token(other)
            && other != serving.instance
            // Of two that ask at once, the one whose name comes first serves.
            && (*is_serving == 1 || other < serving.instance.as_str())
        {
            claim.taken_by = Some(other.to_owned());
        }
        drop(claim);
        serving.answered.notify_one();
    }
}

impl Handler for ServerHandler {
    fn message(&mut self, message: Message) -> Next {
        let payload = message.payload.as_deref();
        match message.subscription {
            UP => self.up(&message.subject, message.status, payload),
            HELLO => self.hello(&message.subject, payload),
            WHO => self.who(&message.subject, payload),
            ANSWERS => self.answer(message.status, payload),
            _ => {}
        }
        Next::GoOn
    }

    /// A publication that NATS refuses is of one connection, which ends.
    fn refused(&mut self, why: &str) {
        let why = self.link.refusal(why);
        tracing::warn!("{why}");
        let subject = why.split('"').nth(1).unwrap_or_default();
        let behind = self.serving.subjects.behind_down(subject);
        if let Some((user, id)) = behind.and_then(|behind| behind.split_once('.')) {
            let key = format!("{user}.{}.{id}", self.serving.instance);
            let found = self.serving.connections().get(key.as_bytes()).cloned();
            if let Some(connection) = found {
                connection.break_off(io::ErrorKind::ConnectionReset, &why);
            }
        }
    }

    fn ended(&mut self, end: &LinkEnd) {
        let connections: Vec<_> = {
            let connections = self.serving.connections();
            let own = |connection: &&Arc<Connection>| Arc::ptr_eq(connection.link(), &self.link);
            connections.values().filter(own).cloned().collect()
        };
        for connection in connections {
            connection.break_off(io::ErrorKind::ConnectionReset, &end.0);
        }
    }
}
