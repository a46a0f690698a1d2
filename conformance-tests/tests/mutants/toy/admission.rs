//! Who is admitted, and who has gone.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use saline_protocol::transport::{AdmissionLimits, Departure, Departures, Peer, Source};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::wire_fault::WireFault;

/// What a connection may do before it is admitted.
#[derive(Debug, Clone)]
pub struct Entry {
    pub admitted: Arc<AtomicBool>,
    pub limits: Option<AdmissionLimits>,
    /// Bytes of all that are not admitted.
    pub partial: Arc<AtomicUsize>,
    pub fault: WireFault,
}

impl Entry {
    fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Relaxed) && self.fault != WireFault::StayTight
    }

    /// The largest payload of a request, if that is less than the limit of all.
    pub fn most(&self) -> Option<usize> {
        let tight = self.limits.as_ref().filter(|_| !self.is_admitted())?;
        (self.fault != WireFault::AdmitAll).then_some(tight.max_message)
    }

    /// A message that is arriving.
    pub fn partial(&self) -> Partial<'_> {
        Partial {
            entry: self,
            bytes: 0,
        }
    }
}

/// The bytes of one message that have arrived, counted with those of all others until it is dropped.
pub struct Partial<'a> {
    entry: &'a Entry,
    bytes: usize,
}

impl Partial<'_> {
    /// Counts `bytes` more; false when these are too many.
    pub fn add(&mut self, bytes: usize) -> bool {
        let Some(tight) = self
            .entry
            .limits
            .as_ref()
            .filter(|_| !self.entry.is_admitted())
        else {
            return true;
        };
        self.bytes += bytes;
        let all = self.entry.partial.fetch_add(bytes, Ordering::Relaxed) + bytes;
        all <= tight.partial_bytes || self.entry.fault == WireFault::AnyPartial
    }
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        if self.entry.fault != WireFault::KeepRoom || self.bytes < 8192 {
            self.entry.partial.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct Gone {
    queue: VecDeque<Peer>,
    missed: u64,
}

#[derive(Debug)]
struct Connection {
    cut: CancellationToken,
    admitted: Arc<AtomicBool>,
    /// Has its peer told.
    told: Arc<Notify>,
}

/// Returns the peer of this connection. Whoever comes to a toy is the user of its tests.
pub fn peer(connection: u64, fault: WireFault) -> Peer {
    let source = match fault {
        WireFault::HideUser => Source::Process,
        _ => Source::User(rustix::process::getuid().as_raw()),
    };
    Peer::new(connection, source)
}

/// The connections of a server.
#[derive(Debug)]
pub struct Peers {
    fault: WireFault,
    most: usize,
    standing: Mutex<HashMap<u64, Connection>>,
    gone: Mutex<Gone>,
    wake: Notify,
    down: CancellationToken,
}

impl Peers {
    pub fn new(fault: WireFault, most: usize, down: CancellationToken) -> Self {
        Self {
            fault,
            most,
            down,
            standing: Mutex::default(),
            gone: Mutex::default(),
            wake: Notify::new(),
        }
    }

    pub fn enter(
        &self,
        number: u64,
        cut: &CancellationToken,
        admitted: &Arc<AtomicBool>,
        told: &Arc<Notify>,
    ) {
        let connection = Connection {
            cut: cut.clone(),
            admitted: Arc::clone(admitted),
            told: Arc::clone(told),
        };
        self.standing.lock().unwrap().insert(number, connection);
    }

    pub fn admit(&self, number: u64) -> bool {
        let standing = self.standing.lock().unwrap();
        let found = standing.get(&number);
        found
            .inspect(|connection| {
                connection.admitted.store(true, Ordering::Relaxed);
                connection.told.notify_one();
            })
            .is_some()
    }

    pub fn cut(&self, number: u64) -> bool {
        let standing = self.standing.lock().unwrap();
        let found = standing.get(&number).filter(|own| !own.cut.is_cancelled());
        found.map(|own| own.cut.cancel()).is_some()
    }

    /// Takes leave of a connection, which ended of itself or not.
    pub fn leave(&self, number: u64, of_itself: bool) {
        let left = self.standing.lock().unwrap().remove(&number);
        let admitted = left.is_some_and(|left| left.admitted.load(Ordering::Relaxed));
        let times = match self.fault {
            WireFault::DepartTwice if admitted => 2,
            WireFault::DepartOnFin => usize::from(admitted && of_itself),
            WireFault::DepartStrangers => 1,
            _ => usize::from(admitted),
        };
        let mut gone = self.gone.lock().unwrap();
        for _ in 0..times {
            if gone.queue.len() < self.most || self.fault == WireFault::KeepDepartures {
                gone.queue.push_back(peer(number, self.fault));
            } else {
                gone.missed += 1;
            }
        }
        self.wake.notify_one();
    }
}

/// The stream of departures.
#[derive(Debug)]
pub struct Told {
    peers: Arc<Peers>,
    ended: bool,
}

impl Told {
    pub fn of(peers: &Arc<Peers>) -> Self {
        Self {
            peers: Arc::clone(peers),
            ended: false,
        }
    }
}

#[async_trait]
impl Departures for Told {
    async fn next(&mut self) -> Option<Departure> {
        while !self.ended {
            {
                let mut gone = self.peers.gone.lock().unwrap();
                if let Some(peer) = gone.queue.pop_front() {
                    return Some(Departure::Gone(peer));
                }
                if gone.missed > 0 {
                    return Some(Departure::Missed(std::mem::take(&mut gone.missed)));
                }
            }
            tokio::select! {
                () = self.peers.wake.notified() => {}
                () = self.peers.down.cancelled(), if self.peers.fault != WireFault::DeparturesStay => {
                    self.ended = true;
                }
            }
        }
        None
    }
}
