//! The connections of a toy as pipes, so that the suite can speak inside of them. The engine has no part in a toy otherwise.

use std::io;

use saline_engine::net::Candidate;
use saline_engine::{Connections, Dialer, Incoming, Listener, StreamPipe};
use saline_protocol::transport::{Context, Endpoint, HostPort, Result, Source};
use tokio::io::{ReadHalf, WriteHalf};

use super::Toy;
use super::socket::{self, Kind, Stream};

type ToyPipe = StreamPipe<ReadHalf<Box<dyn Stream>>, WriteHalf<Box<dyn Stream>>>;

impl Connections for Toy {
    type Dialer = ToyDialer;
    type Listener = ToyListener;

    fn dialer(&self, endpoint: &Endpoint, context: &Context) -> Result<ToyDialer> {
        Ok(ToyDialer {
            endpoint: endpoint.clone(),
            kind: self.kind,
            context: context.clone(),
        })
    }

    async fn bind(
        &self,
        endpoint: &Endpoint,
        context: &Context,
    ) -> Result<(Vec<ToyListener>, Endpoint)> {
        let bound = socket::bind(endpoint, self.kind, context).await?;
        Ok((vec![ToyListener(bound.listener)], bound.at))
    }
}

pub struct ToyDialer {
    endpoint: Endpoint,
    kind: Kind,
    context: Context,
}

impl Dialer for ToyDialer {
    type Pipe = ToyPipe;

    async fn candidates(&self, _: &Endpoint) -> Result<Vec<Candidate>> {
        // Its one endpoint, whatever it is called.
        Ok(vec![Candidate::Name(HostPort::new("toy", 0))])
    }

    async fn dial(&self, _: &Candidate) -> io::Result<ToyPipe> {
        let stream = socket::dial(&self.endpoint, self.kind, &self.context).await?;
        Ok(StreamPipe::of(stream))
    }
}

pub struct ToyListener(socket::Listener);

impl Listener for ToyListener {
    type Incoming = Accepted;

    async fn accept(&mut self) -> io::Result<Accepted> {
        self.0.accept().await.map(Accepted)
    }
}

pub struct Accepted(Box<dyn Stream>);

impl Incoming for Accepted {
    type Pipe = ToyPipe;

    fn source(&self) -> Source {
        Source::Process
    }

    async fn establish(self) -> io::Result<ToyPipe> {
        Ok(StreamPipe::of(self.0))
    }
}
