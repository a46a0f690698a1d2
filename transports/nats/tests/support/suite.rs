//! The conformance suite over servers of NATS that this process starts.

use std::io;
use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use async_trait::async_trait;
use saline_conformance::{Backend, RawTransport, run_all};
use saline_engine::Connections;
use saline_nats::Nats;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, HostPort, OptionSpec, OptionValue, Options, Result,
    ServeAt, Server, Transport,
};

/// Names the servers to the processes that the suite starts: where a server serves and where clients connect.
const SERVERS: &str = "SALINE_NATS_TEST_SERVERS";

/// Runs the suite. `start` starts the servers and returns where a server serves and where clients connect, with what keeps
/// them alive; none where nats-server is not installed.
pub fn run<G>(
    name: &'static str,
    start: impl FnOnce() -> Option<(G, SocketAddr, SocketAddr)>,
) -> ExitCode {
    if let Ok(given) = std::env::var(SERVERS) {
        let (serve, connect) = given.split_once(' ').expect("two addresses");
        let parse = |address: &str| address.parse().expect("an address");
        return run_all(OverNats::new(name, parse(serve), parse(connect)));
    }
    // Whoever lists the tests gets the list.
    let Some((servers, serve, connect)) = start() else {
        return ExitCode::SUCCESS;
    };
    let code = run_all(OverNats::new(name, serve, connect));
    drop(servers);
    code
}

/// The backend, with a server at one server of NATS and its clients at another one.
#[derive(Debug)]
struct OverNats {
    name: &'static str,
    serve: SocketAddr,
    connect: SocketAddr,
}

impl OverNats {
    fn new(name: &'static str, serve: SocketAddr, connect: SocketAddr) -> Self {
        Self {
            name,
            serve,
            connect,
        }
    }
}

impl Backend for OverNats {
    fn name(&self) -> &'static str {
        self.name
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(ClientsElsewhere(self.connect))
    }
    fn raw(&self) -> Option<RawTransport> {
        Some(RawTransport::of(ClientsElsewhere(self.connect)))
    }
    fn endpoint_at_broker(&self, name: &str) -> Option<Endpoint> {
        let subject = ("subject".to_owned(), OptionValue::Text(name.to_owned()));
        let options = Options::check(Nats::new().options(), [subject]).expect("an option");
        Some(Endpoint::network("nats", self.serve.into()).with_options(options))
    }
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("../skips.txt"))
    }
    fn process(&self) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(SERVERS, format!("{} {}", self.serve, self.connect));
        Ok(command)
    }
}

/// The transport, whose clients connect to this server of NATS, wherever their server has served.
#[derive(Debug)]
struct ClientsElsewhere(SocketAddr);

#[async_trait]
impl Transport for ClientsElsewhere {
    fn scheme(&self) -> &'static str {
        Nats::new().scheme()
    }
    fn capabilities(&self) -> Capabilities {
        Nats::new().capabilities()
    }
    fn options(&self) -> &'static [OptionSpec] {
        Nats::new().options()
    }
    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        Nats::new().serve(at, context).await
    }
    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        Nats::new()
            .connect(&self.instead_of(endpoint), context)
            .await
    }
}

impl Connections for ClientsElsewhere {
    type Dialer = <Nats as Connections>::Dialer;
    type Listener = <Nats as Connections>::Listener;

    fn dialer(&self, endpoint: &Endpoint, context: &Context) -> Result<Self::Dialer> {
        Nats::new().dialer(&self.instead_of(endpoint), context)
    }
    async fn bind(
        &self,
        endpoint: &Endpoint,
        context: &Context,
    ) -> Result<(Vec<Self::Listener>, Endpoint)> {
        Nats::new().bind(endpoint, context).await
    }
}

impl ClientsElsewhere {
    fn instead_of(&self, endpoint: &Endpoint) -> Endpoint {
        let there = Endpoint::network("nats", HostPort::from(self.0));
        there.with_options(endpoint.options.clone())
    }
}
