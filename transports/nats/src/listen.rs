//! Binding and accepting, and dialling NATS again when the link breaks.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_engine::{Incoming, Lifetime, Listener};
use saline_protocol::transport::{Context, Error, ErrorKind, Result, Source};
use tokio_util::sync::DropGuard;

use crate::FAREWELL;
use crate::claim;
use crate::client::{Connector, Link};
use crate::hello_queue::{WaitingHello, WelcomePlace};
use crate::options::NatsOptions;
use crate::pipe::{NatsPipe, Owner};
use crate::serving::{HELLO, Serving, WHO};

/// A name that is served. Dropping it frees the name.
#[derive(Debug)]
pub struct NatsListener {
    serving: Arc<Serving>,
    link: Arc<Mutex<Arc<Link>>>,
    tasks: Arc<Lifetime>,
    _cut: DropGuard,
}

/// Connects to NATS and serves, if nobody else serves the same subject.
///
/// # Errors
/// `Refused` when somebody does, or NATS refuses the login or a subject; `Unreachable` when no server of NATS answers;
/// `Config` when the options or `ssl` ask for what cannot be.
///
/// # Cancel safety
/// Nothing stays when the future is dropped.
pub(crate) async fn bind(options: NatsOptions, context: &Context) -> Result<NatsListener> {
    let (authentication, name) = (options.authentication.clone(), options.name.clone());
    let connector = Connector::new(authentication, name, context)?;
    let no_randomness = |error: io::Error| {
        Error::new(ErrorKind::Refused, "the system gives no randomness").with_source(error)
    };
    let serving = Serving::new(options.subjects.clone(), context).map_err(no_randomness)?;
    let tasks = Lifetime::new(context.clone(), Duration::ZERO);
    let cut = tasks.cut.clone().drop_guard();
    let established = claim::connect(&options, &connector, context).await?;
    let started = match claim::serve(&serving, established, &tasks).await {
        Ok(link) => link,
        Err(error) => {
            // Nothing of the attempt is left.
            let _ = tasks.shutdown(Duration::ZERO).await;
            return Err(error);
        }
    };
    let link = Arc::new(Mutex::new(started));
    let supervisor = Supervisor {
        options,
        connector,
        serving: Arc::clone(&serving),
        link: Arc::clone(&link),
    };
    let supervised = Arc::clone(&tasks);
    tasks.spawn(Box::pin(async move { supervisor.run(&supervised).await }));
    Ok(NatsListener {
        serving,
        link,
        tasks,
        _cut: cut,
    })
}

/// Dials NATS again whenever the link of a server breaks.
struct Supervisor {
    options: NatsOptions,
    connector: Connector,
    serving: Arc<Serving>,
    link: Arc<Mutex<Arc<Link>>>,
}

impl Supervisor {
    async fn run(self, tasks: &Lifetime) {
        loop {
            let link = current(&self.link);
            tokio::select! {
                biased;
                () = tasks.stop.cancelled() => return,
                () = link.over.cancelled() => {}
            }
            let why = link.end().map(|end| end.0);
            tracing::warn!(
                subject = %self.options.subjects,
                why = why.as_deref().unwrap_or_default(),
                "the link to NATS is lost, and every connection over it"
            );
            let again = tokio::select! {
                biased;
                () = tasks.stop.cancelled() => return,
                again = self.dial_again(tasks) => again,
            };
            tracing::info!(server = %again.server, "serving over NATS again");
            *self.link.lock().unwrap_or_else(PoisonError::into_inner) = again;
        }
    }

    async fn dial_again(&self, tasks: &Lifetime) -> Arc<Link> {
        let context = &self.serving.context;
        let mut backoff = context.backoff.clone();
        loop {
            context.clock.pause(backoff.next_delay()).await;
            let established = claim::connect(&self.options, &self.connector, context).await;
            let served = match established {
                Ok(established) => claim::serve(&self.serving, established, tasks).await,
                Err(error) => Err(error),
            };
            match served {
                Ok(link) => return link,
                Err(error) => tracing::warn!(%error, "cannot serve over NATS"),
            }
        }
    }
}

fn current(link: &Mutex<Arc<Link>>) -> Arc<Link> {
    Arc::clone(&link.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Listener for NatsListener {
    type Incoming = NatsIncoming;

    async fn accept(&mut self) -> io::Result<NatsIncoming> {
        let (hello, welcome) = self.serving.hellos.next().await;
        Ok(NatsIncoming {
            hello,
            welcome,
            serving: Arc::clone(&self.serving),
        })
    }

    async fn close(self, ended: impl Future<Output = ()> + Send) {
        // A link that breaks now is not dialled again.
        self.tasks.stop.cancel();
        let link = current(&self.link);
        link.unsubscribe(HELLO);
        link.unsubscribe(WHO);
        for hello in self.serving.hellos.clear() {
            self.serving.refuse(&hello, "the server stops");
        }
        ended.await;
        let context = &self.serving.context;
        let link = current(&self.link);
        // What was said last has to reach NATS before the link goes.
        let until = context.clock.after(FAREWELL);
        let _ = context.clock.deadline(until, link.round_trip()).await;
        link.close();
        let _ = self.tasks.shutdown(FAREWELL).await;
    }
}

/// A client that has asked for a connection.
#[derive(Debug)]
pub struct NatsIncoming {
    hello: WaitingHello,
    welcome: WelcomePlace,
    serving: Arc<Serving>,
}

impl Incoming for NatsIncoming {
    type Pipe = NatsPipe;

    fn source(&self) -> Source {
        self.hello.source
    }

    fn refuse(self) {
        self.serving.refuse(
            &self.hello,
            "the server has too many connections that have not greeted",
        );
    }

    async fn establish(self) -> io::Result<NatsPipe> {
        let Self {
            hello,
            welcome,
            serving,
        } = self;
        let Some(connection) = serving.establish(&hello, welcome)? else {
            let why = "its greeting was repeated";
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, why));
        };
        let release = move || serving.release(&hello);
        Ok(NatsPipe::new(connection, Owner::Server(Box::new(release))))
    }
}
