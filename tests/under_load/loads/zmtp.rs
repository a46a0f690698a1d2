//! Strangers who speak ZMTP, and not as they should, to a master over ZeroMQ.
#![allow(
    clippy::disallowed_methods,
    reason = "the time that strangers are given, by the clock of the machine; nothing here sleeps"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use saline_testing::Fleet;

/// How long strangers come.
const STRANGERS_TIME: Duration = Duration::from_secs(10);
/// How many come at once.
const AT_ONCE: u64 = 6;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// A sequence of numbers that a seed decides (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: u64) -> usize {
        (self.roll() % most) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.roll() as u8).collect()
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64)]
    }
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = match u8::try_from(body.len()) {
        Ok(length) if flags & LONG == 0 => vec![flags, length],
        _ => {
            let mut head = vec![flags | LONG];
            head.extend_from_slice(&(body.len() as u64).to_be_bytes());
            head
        }
    };
    bytes.extend_from_slice(body);
    bytes
}

fn command(name: &str, rest: &[u8]) -> Vec<u8> {
    let body = [&[name.len() as u8], name.as_bytes(), rest].concat();
    frame(COMMAND, &body)
}

fn greeting(minor: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    (bytes[0], bytes[9], bytes[10], bytes[11]) = (0xff, 0x7f, 3, minor);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

fn ready(socket: &str, identity: &[u8]) -> Vec<u8> {
    let mut properties = Vec::new();
    for (name, value) in [("Socket-Type", socket.as_bytes()), ("Identity", identity)] {
        properties.push(name.len() as u8);
        properties.extend_from_slice(name.as_bytes());
        properties.extend_from_slice(&(value.len() as u32).to_be_bytes());
        properties.extend_from_slice(value);
    }
    command("READY", &properties)
}

fn ping(dice: &mut Dice) -> Vec<u8> {
    let size = dice.pick(&[0, 1, 2, 2, 2, 10, 18, 19, 40, 300]);
    let mut rest = dice.bytes(size);
    if let Some(time_to_live) = rest.get_mut(..2) {
        // Most often none: its end is one of the connection.
        time_to_live.fill(u8::from(dice.below(8) == 0));
    }
    command(dice.pick(&["PING", "PING", "PING", "PONG"]), &rest)
}

/// What no peer of ours would say.
fn oddity(dice: &mut Dice) -> Vec<u8> {
    let size = dice.below(64);
    let bytes = dice.bytes(size);
    match dice.below(9) {
        0 => frame(COMMAND, &[]),
        1 => frame(COMMAND, &[200]),
        2 => command("SUBSCRIBE", &bytes),
        3 => command("CANCEL", &bytes),
        4 => command("ERROR", &bytes),
        5 => ready("DEALER", b"again"),
        // Larger than anything that is taken, or that is there.
        6 => [&[dice.pick(&[LONG, LONG | COMMAND]), 0x7f][..], &[0xff; 7]].concat(),
        7 => frame(MORE | COMMAND, &bytes),
        _ => bytes,
    }
}

/// What the peers of a port say, in number enough that what comes in has to wait.
fn flood(dice: &mut Dice, is_subscriber: bool) -> Vec<u8> {
    let count = dice.pick(&[1, 3, 70, 200, 1000]);
    let mut bytes = Vec::new();
    for _ in 0..count {
        let size = dice.below(12);
        let mut body = dice.bytes(size);
        if is_subscriber {
            body.insert(0, dice.pick(&[1, 1, 0]));
        }
        bytes.append(&mut frame(dice.pick(&[0, 0, 0, 0, MORE]), &body));
        if dice.below(20) == 0 {
            bytes.append(&mut ping(dice));
        }
    }
    bytes
}

/// Comes, says what the seed decides, and goes. That it is cut is as it should be.
fn come(port: u16, is_subscriber: bool, seed: u64) -> std::io::Result<()> {
    let mut dice = Dice(seed);
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_millis(20)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    if dice.below(4) > 0 {
        // What was sent is not waited for: the other end hears of a connection that broke.
        set_socket_linger(&stream, Some(Duration::ZERO))?;
    }
    let mut said = greeting(dice.pick(&[1, 1, 1, 0]));
    if dice.below(8) == 0 {
        said.append(&mut ping(&mut dice));
    }
    let ours = if is_subscriber { "SUB" } else { "DEALER" };
    let socket = dice.pick(&[ours, ours, ours, ours, ours, "ROUTER", "XXXX", ""]);
    let identity = dice.pick(&[&[][..], &[], &[], b"one", &[0, 0, 0, 0, 1], &[7; 255]]);
    said.append(&mut ready(socket, identity));
    if dice.below(2) == 0 {
        // The handshake first, so that what follows is taken in at once.
        stream.write_all(&said)?;
        said.clear();
        let _ = stream.read(&mut [0; 512]);
    }
    for _ in 0..=dice.below(4) {
        said.append(&mut match dice.below(6) {
            0 => oddity(&mut dice),
            1 => ping(&mut dice),
            _ => flood(&mut dice, is_subscriber),
        });
    }
    for _ in 0..dice.pick(&[0, 1, 1, 5, 100]) {
        said.append(&mut ping(&mut dice));
    }
    let end = match dice.below(4) {
        0 => dice.below(said.len() as u64 + 1),
        _ => said.len(),
    };
    stream.write_all(&said[..end])?;
    if dice.below(8) == 0 {
        let _ = stream.read(&mut [0; 512]);
    }
    Ok(())
}

#[test]
fn strangers_do_not_end_a_master() {
    let _turn = crate::alone();
    let fleet = Fleet::with_minions("zeromq", &["m1"]);
    let ports = [(fleet.port(), false), (fleet.publish_port(), true)];
    let (next, began) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while began.elapsed() < STRANGERS_TIME {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let (port, is_subscriber) = ports[(seed % 2) as usize];
                    // One that is cut in the middle has been answered.
                    let _ = come(port, is_subscriber, seed);
                }
            });
        }
    });
    let came = next.into_inner();
    println!("{came} strangers came");
    assert!(came >= 500, "only {came} strangers came");
    let pong = fleet.saline(&["m1", "test.ping"]);
    let master = fleet.master().log.text();
    assert_eq!(pong.code, Some(0), "{}\nthe master:\n{master}", pong.stderr);
    // It is the same master, and it has lost nobody.
    assert_eq!(fleet.minions["m1"].log.count("subscribed"), 1);
}
