//! What the suite has to be told about a backend.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use saline_protocol::layer;
use saline_protocol::transport::{Endpoint, HostPort, Transport};

/// A backend under test. Two methods are needed; each of the others lets the suite test more, or says
/// what is known. All of them have to give the same answer to the same question, since they are asked
/// before anything runs and again in the processes that the suite starts.
///
/// # A backend whose endpoints are paths
///
/// By default the suite serves at hosts with a port of the system's choice, and skips local endpoints
/// that it knows nothing of. A transport over Unix sockets that has no other endpoints says
/// [`wire`](Self::wire) alone, and is tested with all that a backend over TCP is tested with:
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
    /// Its name in reports and file names: lower-case letters, digits and dashes. Usually its scheme.
    fn name(&self) -> &'static str;

    /// A fresh instance. Every requirement gets one of its own, for both ends.
    fn transport(&self) -> Arc<dyn Transport>;

    /// A fresh instance as a registry would hand it out, in its [layers](layer). Only the self-test
    /// of the suite has reason to change this.
    fn layered(&self) -> Arc<dyn Transport> {
        layer::wrap(self.transport())
    }

    /// An endpoint on `host` that can be served with a port of the system's choice. `host` is an
    /// address or a name of this machine. Asked only where [`endpoint_in`](Self::endpoint_in) gives
    /// none.
    fn endpoint(&self, host: &str) -> Endpoint {
        Endpoint::network(self.transport().scheme(), HostPort::new(host, 0))
    }

    /// The endpoint called `name` in `folder`, if every endpoint of this backend is a path: the same
    /// for the same words. The suite gives each run a folder of its own and each server a name of its
    /// own, so that every server has a fresh path. What needs hosts and ports is skipped then. Given
    /// by itself where the [`wire`](Self::wire) is a Unix path.
    fn endpoint_in(&self, folder: &Path, name: &str) -> Option<Endpoint> {
        let paths = matches!(self.wire(), Some(Wire::UnixPath(_)));
        paths.then(|| Endpoint::local(self.transport().scheme(), folder.join(name)))
    }

    /// Whether all that it does follows `tokio::time::pause`, so that time-outs cost no time.
    fn time_may_be_paused(&self) -> bool {
        false
    }

    /// What its endpoints are made of, if hostile bytes can be sent to them: its network endpoints, or
    /// its paths where it has no others. Without, the areas that need a wire (`SEC`, and the bad
    /// networks of `CON`) are skipped.
    fn wire(&self) -> Option<Wire> {
        None
    }

    /// Whether its local endpoints (`Address::Local`) are sockets in the file system, so that `BUS`
    /// applies. So it is taken to be where there is a [`wire`](Self::wire).
    fn local_sockets(&self) -> bool {
        self.wire().is_some() && self.transport().capabilities().local_endpoints
    }

    /// The list of what is skipped by declaration, as it is checked in: the lines of a file, each
    /// an id and a reason. With one, a skip that is not on it is a failure, and so is a line whose
    /// skip has gone. Usually `Some(include_str!("skips.txt"))`.
    fn skips(&self) -> Option<&'static str> {
        None
    }

    /// A process that comes to [`run_all`](crate::run_all) with an equal backend: this program,
    /// started again. What measures memory or descriptors runs there.
    ///
    /// # Errors
    /// When the system does not say what this program is.
    fn process(&self) -> io::Result<Command> {
        std::env::current_exe().map(Command::new)
    }

    /// Known gaps that show only when the machine is quick enough, or slow enough: passing one of
    /// these proves nothing and is reported as the gap that it is. For memory that a library takes
    /// in a race against its own clean-up, say. What fails every time belongs into
    /// [`known_gaps`](Self::known_gaps).
    fn unsteady_gaps(&self) -> &[KnownGap] {
        &[]
    }

    /// What it is known not to keep, with reasons. Each is run, and passing it is a failure. A gap in
    /// a [`MUST`](crate::Level::Must) is a backend that is not one yet; the suite lets it be declared,
    /// so that it is seen.
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

/// What kind of socket is at a path.
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
    /// Why, with figures where there are any.
    pub reason: &'static str,
}
