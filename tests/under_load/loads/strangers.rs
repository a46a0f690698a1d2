//! A thousand strangers at a real master over TCP: what they hold of it is bounded, and they go.
#![allow(
    clippy::disallowed_methods,
    reason = "the time that strangers are given, by the clock of the machine; nothing here sleeps"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use saline_protocol::transport::AdmissionLimits;
use saline_testing::Fleet;
use saline_testing::processes::resident_bytes;

const STRANGERS: usize = 1000;
/// What each would send if it were let.
const MAX_BYTES_EACH: usize = 1 << 20;
const KIB: usize = 1024;

/// Returns the memory of a process in bytes.
fn resident(pid: u32) -> usize {
    usize::try_from(resident_bytes(pid).unwrap()).unwrap()
}

/// Returns a greeting as clients say it, and the head of a request that announces so many bytes.
fn opening(announced: usize) -> Vec<u8> {
    let mut body = b"saline\x01\x01".to_vec();
    body.extend_from_slice(&5000_u32.to_le_bytes());
    body.extend_from_slice(&(64_u64 << 20).to_le_bytes());
    body.push(0);
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.push(1);
    bytes.append(&mut body);
    bytes.extend_from_slice(&(8 + announced as u32).to_le_bytes());
    bytes.push(3);
    bytes.extend_from_slice(&7_u64.to_le_bytes());
    bytes
}

struct Stranger {
    stream: TcpStream,
    /// Bytes of the request that it has not sent.
    left: usize,
}

impl Stranger {
    /// Comes, announces a request of so many bytes, and sends all of it but `short`.
    fn come(port: u16, announced: usize, short: usize) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        // It may be cut in the middle.
        let _ = stream.write_all(&opening(announced));
        stream.set_nonblocking(true).unwrap();
        let mut stranger = Self {
            stream,
            left: announced.min(MAX_BYTES_EACH),
        };
        stranger.send(stranger.left - short);
        stranger
    }

    /// Sends what is taken of so many bytes.
    fn send(&mut self, most: usize) {
        let bytes = vec![0; most];
        let mut sent = 0;
        while sent < most {
            match self.stream.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(_) => break,
            }
        }
        self.left -= sent;
    }

    /// Sends one byte, never the last one. Returns whether the master still holds the connection.
    fn trickle(&mut self) -> bool {
        if self.left > 1 {
            self.send(1);
        }
        loop {
            match self.stream.read(&mut [0; 4096]) {
                Ok(1..) => {}
                Ok(0) => return false,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}

#[test]
fn a_thousand_strangers_hold_little_of_a_master_and_are_cut() {
    let _turn = crate::alone();
    let mut descriptors = getrlimit(Resource::Nofile);
    descriptors.current = descriptors.maximum;
    setrlimit(Resource::Nofile, descriptors).unwrap();
    let limits = AdmissionLimits::default();
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let master = fleet.master().pid();
    let ping = || fleet.saline(&["m1", "test.ping"]).expect(0);
    ping();
    let before = resident(master);

    let (port, began) = (fleet.port(), Instant::now());
    // The largest that the master takes from those it knows, and the largest that it takes from these.
    let announced = |number| match number % 2 {
        0 => 64 << 20,
        _ => limits.max_message,
    };
    let come = |number| Stranger::come(port, announced(number), number % 40 + 1);
    let mut strangers: Vec<Stranger> = (0..STRANGERS).map(come).collect();
    let (mut most, mut last) = (0, Duration::ZERO);
    while !strangers.is_empty() {
        most = most.max(resident(master));
        // Real minions answer meanwhile.
        ping();
        strangers.retain_mut(Stranger::trickle);
        if !strangers.is_empty() {
            last = began.elapsed();
        }
        let held = strangers.len();
        assert!(
            last < 3 * limits.time,
            "{held} strangers are there after {last:?}"
        );
    }
    // A buffer that grows holds its bytes twice. Each connection has its tasks, and the buffers of one
    // that has said little.
    let bound = 2 * limits.partial_bytes + STRANGERS * 24 * KIB;
    let grown = most.saturating_sub(before);
    println!(
        "{} KiB more, of {} KiB; the last was cut after {last:?}",
        grown / KIB,
        bound / KIB
    );
    assert!(
        grown < bound,
        "{} KiB more than the {} KiB before; they may make it {}",
        grown / KIB,
        before / KIB,
        bound / KIB
    );
    let minion = &fleet.minions["m1"].log;
    assert_eq!(minion.count("is down"), 0, "{}", minion.text());
}
