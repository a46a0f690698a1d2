//! A mutant, as a backend of the suite.

use std::fmt;
use std::process::Command;
use std::sync::Arc;

use saline_conformance::{Backend, KnownGap, RawTransport, UnixSocket, Wire, answer_if_asked};
use saline_protocol::layer;
use saline_protocol::transport::Transport;

use crate::fault::{FAULTS, Fault};
use crate::toy::Toy;
use crate::transport::Wrong;
use crate::wire_fault::{DATAGRAM_FAULTS, WIRE_FAULTS, WireFault};

/// Which transport, and what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The in-memory transport.
    Memory(Fault),
    /// The toy, over TCP, and over Unix sockets beside it.
    Toy(WireFault),
    /// The toy over UDP.
    Datagrams(WireFault),
    /// The toy over Unix sockets of this kind and nothing else.
    Paths(UnixSocket, WireFault),
}

impl Which {
    /// Every mutant and its targets.
    pub fn all() -> impl Iterator<Item = (Self, &'static [&'static str])> {
        let memory = FAULTS
            .iter()
            .map(|(fault, own)| (Self::Memory(*fault), *own));
        let toy = WIRE_FAULTS
            .iter()
            .map(|(fault, own)| (Self::Toy(*fault), *own));
        let datagrams = DATAGRAM_FAULTS
            .iter()
            .map(|(fault, own)| (Self::Datagrams(*fault), *own));
        memory.chain(toy).chain(datagrams)
    }

    fn named(name: &str) -> Option<Self> {
        let null = [
            Self::Memory(Fault::None),
            Self::Toy(WireFault::None),
            Self::Datagrams(WireFault::None),
            Self::Paths(UnixSocket::Stream, WireFault::None),
            Self::Paths(UnixSocket::SeqPacket, WireFault::None),
        ];
        let all = Self::all().map(|(which, _)| which);
        null.into_iter()
            .chain(all)
            .find(|which| which.to_string() == name)
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(fault) => write!(f, "inproc/{fault:?}"),
            Self::Toy(fault) => write!(f, "toy/{fault:?}"),
            Self::Datagrams(fault) => write!(f, "toy over Udp/{fault:?}"),
            Self::Paths(kind, fault) => write!(f, "toy over {kind:?}/{fault:?}"),
        }
    }
}

/// A mutant under test.
#[derive(Debug)]
pub struct Mutant {
    /// Which one.
    pub which: Which,
    /// Whether its time stands still while it waits.
    pub paused: bool,
    /// What it declares.
    pub gaps: &'static [KnownGap],
}

impl Mutant {
    /// In paused time where it can be.
    pub fn new(which: Which) -> Self {
        Self {
            which,
            paused: matches!(which, Which::Memory(_)),
            gaps: &[],
        }
    }
}

impl Backend for Mutant {
    fn name(&self) -> &'static str {
        "mutant"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        match self.which {
            Which::Memory(fault) => Wrong::declaring(Arc::new(saline_inproc::InProc::new()), fault),
            Which::Toy(fault) => Arc::new(Toy::new(fault, UnixSocket::Stream)),
            Which::Datagrams(fault) => Arc::new(Toy::over_datagrams(fault)),
            Which::Paths(kind, fault) => Arc::new(Toy::new(fault, kind)),
        }
    }
    fn layered(&self) -> Arc<dyn Transport> {
        match self.which {
            Which::Memory(fault) => Wrong::around(Arc::new(saline_inproc::InProc::new()), fault),
            Which::Toy(_) | Which::Datagrams(_) | Which::Paths(..) => layer::wrap(self.transport()),
        }
    }
    fn known_gaps(&self) -> &[KnownGap] {
        self.gaps
    }
    fn time_may_be_paused(&self) -> bool {
        self.paused
    }
    fn wire(&self) -> Option<Wire> {
        match self.which {
            Which::Memory(_) => None,
            Which::Toy(_) => Some(Wire::Tcp),
            Which::Datagrams(_) => Some(Wire::Udp),
            Which::Paths(kind, _) => Some(Wire::UnixPath(kind)),
        }
    }
    fn raw(&self) -> Option<RawTransport> {
        match self.which {
            Which::Datagrams(fault) => Some(RawTransport::of(Toy::over_datagrams(fault))),
            _ => None,
        }
    }
    fn process(&self) -> std::io::Result<Command> {
        let mut process = Command::new(std::env::current_exe()?);
        process.args(["--exact", "mutant::in_a_process_of_its_own", "--ignored"]);
        process.env(MUTANT, self.which.to_string());
        process.env(PAUSED, self.paused.to_string());
        Ok(process)
    }
}

/// Which mutant a process of its own is about.
const MUTANT: &str = "SALINE_MUTANT";

/// And in which time.
const PAUSED: &str = "SALINE_MUTANT_PAUSED";

/// What a mutant's process runs; by itself, nothing.
#[test]
#[ignore = "started by the others"]
fn in_a_process_of_its_own() {
    let Ok(name) = std::env::var(MUTANT) else {
        return;
    };
    let mut mutant = Mutant::new(Which::named(&name).unwrap());
    mutant.paused = std::env::var(PAUSED).is_ok_and(|paused| paused == "true");
    answer_if_asked(&(Arc::new(mutant) as Arc<dyn Backend>));
}
