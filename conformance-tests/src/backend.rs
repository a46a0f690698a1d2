//! The description of a backend that the suite is to test.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use saline_protocol::layer;
use saline_protocol::transport::{Endpoint, HostPort, Transport};

use crate::kit::RawTransport;

/// A backend under test. Two methods are required; each of the others lets the suite test more, or
/// declares what is known. All of them must always return the same for the same arguments: the suite
/// calls them before anything runs, and again in the processes that it starts.
///
/// # A backend whose endpoints are paths
///
/// By default the suite serves at hosts with a port of the system's choice, and skips local endpoints.
/// A transport over Unix sockets that has no other endpoints implements [`wire`](Self::wire) alone, and
/// gets all the tests that a backend over TCP gets:
///
/// ```
/// # use std::sync::Arc;
/// # use saline_conformance::{Backend, UnixSocket, Wire};
/// # use saline_protocol::transport::Transport;
/// # #[derive(Debug)] struct OverPaths;
/// # impl Backend for OverPaths {
/// #     fn name(&self) -> &'static str { "paths" }
/// #     fn transport(&self) -> Arc<dyn Transport> { Arc::new(saline_inproc::InProc::new()) }
/// fn wire(&self) -> Option<Wire> {
///     Some(Wire::UnixPath(UnixSocket::Stream))
/// }
/// # }
/// # assert!(OverPaths.endpoint_in("/tmp".as_ref(), "a").is_some() && OverPaths.local_sockets());
/// ```
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// Returns the name in reports and file names: lower-case letters, digits and dashes. Usually the
    /// scheme.
    fn name(&self) -> &'static str;

    /// Returns a fresh instance. Every requirement gets one of its own, for both ends.
    fn transport(&self) -> Arc<dyn Transport>;

    /// Returns a fresh instance as a registry would hand it out, in its [layers](layer). Only the self-test
    /// of the suite has reason to change this.
    fn layered(&self) -> Arc<dyn Transport> {
        layer::wrap(self.transport())
    }

    /// Returns an endpoint on `host` that can be served with a port of the system's choice. `host` is an
    /// address or a name of this machine. Called only where [`endpoint_in`](Self::endpoint_in) and
    /// [`endpoint_at_broker`](Self::endpoint_at_broker) return none.
    fn endpoint(&self, host: &str) -> Endpoint {
        Endpoint::network(self.transport().scheme(), HostPort::new(host, 0))
    }

    /// Returns the endpoint called `name` in `folder`, if every endpoint of this backend is a path: the
    /// same for the same arguments. The suite chooses a folder for each run and a name for each server, so
    /// that every server has a fresh path, and skips the requirements that need hosts and ports. The
    /// default is right where the [`wire`](Self::wire) is a Unix path.
    fn endpoint_in(&self, folder: &Path, name: &str) -> Option<Endpoint> {
        let paths = matches!(self.wire(), Some(Wire::UnixPath(_)));
        paths.then(|| Endpoint::local(self.transport().scheme(), folder.join(name)))
    }

    /// Returns an endpoint at a broker for the server called `name`, if every endpoint of this backend is a name at a broker
    /// that runs already: the same for the same arguments, and another one for every name. A name is made of lower-case
    /// and upper-case letters, digits and dashes, and the suite gives each server of all of its runs a name of its own. What
    /// the broker shares among its endpoints, it keeps: the suite starts and stops servers, never the broker.
    ///
    /// The requirements that need hosts and ports are skipped then, and so are those that need a [`wire`](Self::wire),
    /// which would be the broker's.
    fn endpoint_at_broker(&self, name: &str) -> Option<Endpoint> {
        let _ = name;
        None
    }

    /// Whether everything in the backend follows `tokio::time::pause`, so that time-outs cost no time.
    fn time_may_be_paused(&self) -> bool {
        false
    }

    /// Returns the kind of socket under its endpoints, so that the suite can send hostile bytes to them: that
    /// of its network endpoints, or of its paths where it has no others. With `None`, the suite skips the
    /// areas that need a wire (`SEC`, and the bad networks of `CON`), as far as they need sockets.
    fn wire(&self) -> Option<Wire> {
        None
    }

    /// Returns a fresh instance of a transport over the engine together with its connections, so that the suite can
    /// speak inside of them as strangers do: `Some(RawTransport::of(Mine::new()))`. It takes the place of
    /// [`transport`](Self::transport) in those runs. Where a connection is a socket of the system and nothing else, the
    /// [`wire`](Self::wire) says as much.
    fn raw(&self) -> Option<RawTransport> {
        None
    }

    /// Whether its local endpoints (`Address::Local`) are sockets in the file system, so that `BUS`
    /// applies. By default they are if there is a [`wire`](Self::wire).
    fn local_sockets(&self) -> bool {
        self.wire().is_some() && self.transport().capabilities().local_endpoints
    }

    /// Returns the checked-in list of the requirements that are skipped by declaration: the lines of a file,
    /// each an id and a reason. With a list, a skip that is not on it is a failure, and so is a line
    /// whose skip has gone. Usually `Some(include_str!("skips.txt"))`.
    fn skips(&self) -> Option<&'static str> {
        None
    }

    /// Returns a command that starts this program again and comes to [`run_all`](crate::run_all) with an
    /// equal backend. Requirements that measure memory or descriptors run in such a process.
    ///
    /// # Errors
    /// When the system does not tell the path of this program.
    fn process(&self) -> io::Result<Command> {
        std::env::current_exe().map(Command::new)
    }

    /// Returns the known gaps that show only when the machine is fast enough, or slow enough: passing one
    /// of these proves nothing, and is reported as a gap all the same. An example is memory that a library
    /// takes in a race against its own clean-up. A requirement that fails every time belongs into
    /// [`known_gaps`](Self::known_gaps).
    fn unsteady_gaps(&self) -> &[KnownGap] {
        &[]
    }

    /// Returns the requirements that the backend is known not to keep, with reasons. Each is run, and passing
    /// it is a failure. A backend with a gap in a [`MUST`](crate::Level::Must) is not finished; the gap can
    /// be declared all the same, so that it is visible.
    ///
    /// ```
    /// use saline_conformance::KnownGap;
    ///
    /// const GAPS: &[KnownGap] = &[KnownGap {
    ///     id: "CON-026",
    ///     reason: "the broker tells nobody who left: a client that vanished counts for 60 s",
    /// }];
    /// ```
    fn known_gaps(&self) -> &[KnownGap] {
        &[]
    }
}

/// The socket under an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wire {
    /// A TCP listener on the bound port.
    Tcp,
    /// A UDP socket on the bound port.
    Udp,
    /// A listener at the bound path, for a backend whose endpoints are paths and nothing else.
    UnixPath(UnixSocket),
}

/// The kind of socket at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnixSocket {
    /// `SOCK_STREAM`: bytes.
    Stream,
    /// `SOCK_SEQPACKET`: connections of packets, which the suite's proxy carries whole.
    SeqPacket,
}

/// A requirement that a backend is known not to keep.
#[derive(Debug, Clone, Copy)]
pub struct KnownGap {
    /// The requirement's id.
    pub id: &'static str,
    /// The reason, with figures where there are any.
    pub reason: &'static str,
}
