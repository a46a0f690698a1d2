//! What happens to connections and datagrams.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::kit::Dice;

/// The most bytes that are kept of what a client says first.
const MAX_HEARD_BYTES: usize = 4096;

/// Set by the proxy's owner, read by its tasks.
#[derive(Debug)]
pub(super) struct NetworkFaults {
    /// Of the connections that stand: silence for ever, without a FIN.
    pub frozen: Signal,
    /// Of the connections that stand: reset.
    pub reset: Signal,
    /// Of the connections that stand: nothing more from the server.
    pub mute: Signal,
    /// Whether new connections come to nothing.
    pub gone: AtomicBool,
    /// Whether new connections are closed as soon as they are there.
    pub closed: AtomicBool,
    /// Connections that clients have begun.
    pub visits: AtomicUsize,
    /// Datagrams that clients have sent.
    pub datagrams: AtomicUsize,
    /// How many bytes one direction of a connection carries in a second, unless it is zero.
    pub pace: AtomicUsize,
    /// Whether no datagram passes.
    pub hole: AtomicBool,
    /// Whether malformed datagrams come with those of clients.
    pub malformed: AtomicBool,
    /// Whether no datagram of the server passes.
    pub unheard: AtomicBool,
    /// Whether bytes go one by one.
    pub slices: AtomicBool,
    /// How many more bytes go from clients to the server before that connection is reset.
    pub budget: AtomicUsize,
    /// Of a hundred datagrams.
    pub lost: AtomicU64,
    /// Of a hundred datagrams.
    pub doubled: AtomicU64,
    /// Of a hundred datagrams.
    pub swapped: AtomicU64,
    delay: AtomicU64,
    jitter: AtomicU64,
    dice: Mutex<Dice>,
    said: Mutex<Vec<u8>>,
    /// What clients say to which front, in the pieces in which it came, while it is recorded.
    recorded: Mutex<Option<Vec<Piece>>>,
}

/// What a client said in one piece, and to which front.
pub type Piece = (usize, Vec<u8>);

impl NetworkFaults {
    pub fn new(dice: Dice) -> Self {
        Self {
            frozen: Signal::default(),
            reset: Signal::default(),
            mute: Signal::default(),
            gone: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            visits: AtomicUsize::new(0),
            datagrams: AtomicUsize::new(0),
            pace: AtomicUsize::new(0),
            hole: AtomicBool::new(false),
            malformed: AtomicBool::new(false),
            unheard: AtomicBool::new(false),
            slices: AtomicBool::new(false),
            budget: AtomicUsize::new(usize::MAX),
            lost: AtomicU64::new(0),
            doubled: AtomicU64::new(0),
            swapped: AtomicU64::new(0),
            delay: AtomicU64::new(0),
            jitter: AtomicU64::new(0),
            dice: Mutex::new(dice),
            said: Mutex::default(),
            recorded: Mutex::default(),
        }
    }

    pub fn delay(&self, delay: Duration, jitter: Duration) {
        for (kept, time) in [(&self.delay, delay), (&self.jitter, jitter)] {
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            kept.store(micros, Ordering::Relaxed);
        }
    }

    /// How long the `count` bytes that come now have to wait.
    pub fn wait(&self, count: usize) -> Option<Duration> {
        let (delay, jitter) = (&self.delay, self.jitter.load(Ordering::Relaxed));
        let mut micros = delay.load(Ordering::Relaxed) + self.dice().roll() % (jitter + 1);
        if let (1.., pace @ 1..) = (count, self.pace.load(Ordering::Relaxed)) {
            micros += (count * 1_000_000 / pace) as u64;
        }
        (micros > 0).then(|| Duration::from_micros(micros))
    }

    /// Whether something of this chance happens now.
    pub fn happens(&self, chance: &AtomicU64) -> bool {
        let chance = chance.load(Ordering::Relaxed);
        chance > 0 && self.dice().percent(chance)
    }

    fn dice(&self) -> MutexGuard<'_, Dice> {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `datagram` cut short, changed in one bit, with other bytes behind its head, and without any.
    pub fn malformed(&self, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut dice = self.dice();
        let count = datagram.len().max(1);
        let short = datagram[..dice.below(count)].to_vec();
        let head = datagram[..dice.below(count.min(12))].to_vec();
        let mut flipped = datagram.to_vec();
        if let Some(byte) = flipped.get_mut(dice.below(count)) {
            *byte ^= 1 << dice.below(8);
        }
        let mut other = head.clone();
        other.extend((head.len()..count).map(|_| dice.roll() as u8));
        vec![short, head, flipped, other, Vec::new()]
    }

    /// What the last client said first.
    pub fn said(&self) -> MutexGuard<'_, Vec<u8>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `bytes`, said to `front`, with what was said first, and with what is recorded.
    pub fn hear(&self, front: usize, bytes: &[u8]) {
        let mut said = self.said();
        let room = MAX_HEARD_BYTES - said.len().min(MAX_HEARD_BYTES);
        said.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if let Some(recorded) = &mut *self.recorded() {
            recorded.push((front, bytes.to_vec()));
        }
    }

    /// What is recorded, if it is.
    pub fn recorded(&self) -> MutexGuard<'_, Option<Vec<Piece>>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that happens to all connections that stand at that moment.
#[derive(Debug, Default)]
pub(super) struct Signal(Mutex<CancellationToken>);

impl Signal {
    /// Lets it happen; those that come later are spared.
    pub fn renew(&self) {
        std::mem::take(&mut *self.lock()).cancel();
    }

    /// What a connection that begins now watches.
    pub fn watch(&self) -> CancellationToken {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, CancellationToken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
