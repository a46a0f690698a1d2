//! Servers and clients over a server of NATS.

pub mod nats_keys;
pub mod raw_client;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use saline_nats::Nats;
use saline_protocol::transport::{
    Backoff, Client, Clock, Context, Counters, Endpoint, HostPort, Limits, Metric, OptionValue,
    Options, Result, ServeAt, Server, ServerControl, Source, Tls, Transport,
};
use saline_testing::NatsServer;

/// How long anything may take that has no time promised.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Options of the section `nats`.
pub type Section<'a> = &'a [(&'a str, &'a str)];

/// Pings that are far apart, so that whatever is noticed is noticed by something else.
pub fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.ping_interval = Duration::from_secs(60);
    limits
}

pub fn context() -> (Context, Arc<Counters>) {
    let counters = Counters::new();
    let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200));
    let context = Context::new(limits())
        .with_metrics(Arc::clone(&counters) as _)
        .with_backoff(backoff);
    (context, counters)
}

pub fn endpoint(server: &NatsServer, section: Section<'_>) -> Endpoint {
    let given = section.iter().map(|(name, value)| {
        let value = OptionValue::Text((*value).to_owned());
        ((*name).to_owned(), value)
    });
    let at = OptionValue::Text(server.address().to_string());
    let given = given.chain([("servers".to_owned(), at)]);
    let options = Options::check(Nats::new().options(), given).unwrap();
    Endpoint::network("nats", HostPort::from(server.address())).with_options(options)
}

/// A server that answers every request with its payload.
pub struct Host {
    pub control: Arc<dyn ServerControl>,
    pub counters: Arc<Counters>,
    /// The source of the last request.
    source: Arc<Mutex<Option<Source>>>,
    pub context: Context,
}

impl Host {
    pub async fn start(server: &NatsServer, section: Section<'_>) -> Self {
        Self::try_start(server, section, None).await.unwrap()
    }

    pub async fn try_start(
        server: &NatsServer,
        section: Section<'_>,
        tls: Option<Tls>,
    ) -> Result<Self> {
        let (context, counters) = context();
        let context = context.with_tls(tls);
        let at = ServeAt {
            requests: endpoint(server, section),
            publications: None,
        };
        let Server {
            mut requests,
            control,
            ..
        } = Nats::new().serve(at, context.clone()).await?;
        let source = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&source);
        context.spawn(async move {
            while let Some(request) = requests.next().await {
                *seen.lock().unwrap() = Some(request.peer.source);
                let payload = request.payload.clone();
                let _ = request.reply.send(payload);
            }
        });
        Ok(Self {
            control,
            counters,
            source,
            context,
        })
    }

    /// Returns the source of the last request, as it is displayed.
    pub fn source(&self) -> String {
        self.source.lock().unwrap().unwrap().to_string()
    }

    pub fn refused(&self) -> u64 {
        self.counters.get(Metric::PeersRefused)
    }
}

pub async fn connect(server: &NatsServer, section: Section<'_>) -> Result<Arc<dyn Client>> {
    let (context, _) = context();
    Nats::new()
        .connect(&endpoint(server, section), context)
        .await
}

pub async fn client(server: &NatsServer, section: Section<'_>) -> Arc<dyn Client> {
    connect(server, section).await.unwrap()
}

pub async fn ask(client: &Arc<dyn Client>, payload: impl Into<Bytes>) -> Result<Bytes> {
    client
        .request(payload.into(), Clock.after(TEST_TIMEOUT))
        .await
}

/// Asks until there is an answer, and returns it.
pub async fn ask_until_answered(client: &Arc<dyn Client>, payload: &'static str) -> Bytes {
    let until = Clock.after(TEST_TIMEOUT);
    loop {
        match ask(client, payload).await {
            Ok(answer) => return answer,
            Err(error) => assert!(Clock.now() < until, "{error}"),
        }
    }
}

/// Waits until `condition` holds, where there is nothing to await.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let until = Clock.after(TEST_TIMEOUT);
    while !condition() {
        assert!(Clock.now() < until, "{what}: not in time");
        Clock.pause(Duration::from_millis(5)).await;
    }
}
