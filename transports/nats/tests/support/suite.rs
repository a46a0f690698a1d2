//! The conformance suite over servers of NATS that this process starts.

use std::io;
use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use saline_conformance::{Backend, RawTransport, run_all};
use saline_engine::Connections;
use saline_nats::Nats;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, HostPort, OptionSpec, OptionValue, Options, Result,
    ServeAt, Server, Transport,
};
use saline_testing::NatsServer;

/// Names the servers to the processes that the suite starts: where a server serves and where clients connect.
const SERVERS: &str = "SALINE_NATS_TEST_SERVERS";

/// Where a server serves and where clients connect, found when they are asked for the first time.
type Places = LazyLock<(SocketAddr, SocketAddr), Find>;

/// Finds the places: starts servers of NATS, unless there are some.
type Find = Box<dyn FnOnce() -> (SocketAddr, SocketAddr) + Send>;

/// Runs the suite. `start` starts the servers and returns where a server serves and where clients connect, with what keeps
/// them alive; none where nats-server is not installed.
pub fn run<G: Send + 'static>(
    name: &'static str,
    start: impl FnOnce() -> Option<(G, SocketAddr, SocketAddr)> + Send + 'static,
) -> ExitCode {
    if let Ok(given) = std::env::var(SERVERS) {
        let (serve, connect) = given.split_once(' ').expect("two addresses");
        let parse = |address: &str| address.parse::<SocketAddr>().expect("an address");
        let places = (parse(serve), parse(connect));
        return run_all(OverNats::new(name, Box::new(move || places)));
    }
    if NatsServer::program().is_none() {
        return ExitCode::SUCCESS;
    }
    // The suite ends the process when it cannot read its arguments, and servers that were started before that would stay.
    let servers = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&servers);
    let find = move || {
        let (started, serve, connect) = start().expect("servers of NATS");
        *kept.lock().expect("nobody has panicked") = Some(started);
        (serve, connect)
    };
    let code = run_all(OverNats::new(name, Box::new(find)));
    let started = servers.lock().expect("nobody has panicked").take();
    drop(started);
    code
}

/// The backend, with a server at one server of NATS and its clients at another one.
#[derive(Debug)]
struct OverNats {
    name: &'static str,
    places: Places,
}

impl OverNats {
    fn new(name: &'static str, find: Find) -> Self {
        Self {
            name,
            places: LazyLock::new(find),
        }
    }
}

/// Returns the endpoint with this subject at a server of NATS.
fn endpoint_at(server: SocketAddr, subject: &str) -> Endpoint {
    let given = [
        ("servers", server.to_string()),
        ("subject", subject.to_owned()),
    ];
    let given = given.map(|(name, text)| (name.to_owned(), OptionValue::Text(text)));
    let options = Options::check(Nats::new().options(), given).expect("options");
    Endpoint::network("nats", HostPort::from(server)).with_options(options)
}

impl Backend for OverNats {
    fn name(&self) -> &'static str {
        self.name
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(ClientsElsewhere(self.places.1))
    }
    fn raw(&self) -> Option<RawTransport> {
        Some(RawTransport::of(ClientsElsewhere(self.places.1)))
    }
    fn endpoint_at_broker(&self, name: &str) -> Option<Endpoint> {
        Some(endpoint_at(self.places.0, name))
    }
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("../skips.txt"))
    }
    fn process(&self) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        let (serve, connect) = *self.places;
        command.env(SERVERS, format!("{serve} {connect}"));
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
        endpoint_at(self.0, endpoint.options.text("subject").unwrap_or("saline"))
    }
}
