//! Inputs for the fuzzer to begin with: the steps of real exchanges, and of peers that do what they should not.

use std::time::Duration;

use saline_engine::fuzzing::SharedSocket;

use super::{COOKIE, OURS, SAYS, SERVER, TAG, action, address};

/// The steps of both ends of a real exchange, as the target takes them.
struct Recording {
    server: SharedSocket,
    client: SharedSocket,
    /// The steps at the server and at the client.
    steps: [Vec<u8>; 2],
}

impl Recording {
    fn new() -> Self {
        Self {
            server: SharedSocket::serving().expect("the system has randomness"),
            client: SharedSocket::dialling((address(0), OURS)),
            steps: [vec![1], vec![0]],
        }
    }

    fn step(&mut self, at_server: bool, action: u8, argument: u8) {
        self.steps[usize::from(!at_server)].extend([action << 2, argument]);
    }

    /// Carries what both have sent, until nothing more is said; those of the client are lost where `is_lost`.
    fn carry(&mut self, is_lost: bool) {
        loop {
            let both = [(true, self.client.sent()), (false, self.server.sent())];
            if both.iter().all(|(_, sent)| sent.is_empty()) {
                return;
            }
            for (to_server, sent) in both {
                for (_, datagram) in sent {
                    if to_server && is_lost {
                        continue;
                    }
                    // The target puts in what is random.
                    let mut body = datagram[..datagram.len() - TAG].to_vec();
                    match body[0] {
                        b'H' => body[SAYS + 1..][..COOKIE].fill(0),
                        b'R' => body[SAYS + 1..][..COOKIE].fill(1),
                        _ => body[SERVER..SAYS].fill(u8::from(!to_server)),
                    }
                    self.step(to_server, action::SAY, body.len() as u8);
                    self.steps[usize::from(!to_server)].extend(body);
                    let socket = if to_server {
                        &mut self.server
                    } else {
                        &mut self.client
                    };
                    socket.take(address(0), datagram);
                }
            }
            self.server.accept().expect("each waits once");
        }
    }

    /// Both say something and the end; the client loses datagrams in between, or is cut.
    fn run(mut self, is_bad: bool) -> [Vec<u8>; 2] {
        let peer = (address(0), OURS);
        self.carry(false);
        for round in 0..3_u8 {
            self.client.write(peer, &[round; 200]);
            self.step(false, action::WRITE, 12);
            self.carry(is_bad && round == 1);
            self.server.write(peer, &[round; 160]);
            self.step(true, action::WRITE, 10);
            self.carry(false);
        }
        let second = Duration::from_secs(1);
        self.client.pass(second);
        self.step(false, action::WAIT, 10);
        self.carry(false);
        self.server.read(peer);
        self.step(true, action::READ, 0);
        self.client.read(peer);
        self.step(false, action::READ, 0);
        self.client.finish(peer);
        self.step(false, action::WRITE, 0);
        if !is_bad {
            self.carry(false);
            self.server.read(peer);
            self.step(true, action::READ, 0);
            self.server.finish(peer);
            self.step(true, action::WRITE, 0);
        }
        self.carry(false);
        self.client.drop_connection(peer);
        self.step(false, action::DROP, 0);
        self.carry(false);
        self.steps
    }
}

/// Returns a datagram as the target has it: without what is random, and without its tag.
fn body(kind: u8, numbers: &[u64], bytes: &[u8]) -> Vec<u8> {
    let mut body = vec![kind];
    body.extend(OURS.to_be_bytes());
    body.extend([0; 8]);
    numbers
        .iter()
        .for_each(|number| body.extend(number.to_be_bytes()));
    body.extend(bytes);
    body
}

/// Returns the step that sends a datagram.
fn step(step: u8, body: &[u8]) -> Vec<u8> {
    [&[step, body.len() as u8][..], body].concat()
}

/// Sends a segment, in a packet of the same number.
fn data(flags: u8, segment: u64) -> Vec<u8> {
    let bytes = [segment as u8; 9];
    step(SAY | flags, &body(b'D', &[segment, segment], &bytes))
}

/// Sends the end.
fn end(flags: u8, segment: u64) -> Vec<u8> {
    step(SAY | flags, &body(b'E', &[segment, segment], &[]))
}

/// Acknowledges these segments, bits for later ones, and allows so many bytes.
fn ack(next: u64, allowed: u64, packets: u64, early: u8) -> Vec<u8> {
    step(SAY, &body(b'A', &[next, allowed, packets], &[early]))
}

const SAY: u8 = action::SAY << 2;
const MUCH: u8 = action::SAY_MUCH << 2;
const FORGE: u8 = action::FORGE << 2;

/// Our side reads the first connection, is given bytes for it, or lets go of it.
const READ: [u8; 2] = [action::READ << 2, 0];
const WRITE: [u8; 2] = [action::WRITE << 2, 255];
const FINISH: [u8; 2] = [action::WRITE << 2, 0];
const DROP: [u8; 2] = [action::DROP << 2, 0];
const WAIT: [u8; 2] = [action::WAIT << 2, 10];
/// The socket has no room, and has room again.
const FILL: [u8; 2] = [action::DROP << 2, 1];
const EMPTY: [u8; 2] = [action::DROP << 2, 2];

/// Returns the steps at a server to which a connection is opened first.
fn opened(steps: &[&[u8]]) -> Vec<u8> {
    let hello = step(MUCH, &body(b'H', &[], &[1]));
    [&[1], &hello[..], &hello, &steps.concat()].concat()
}

/// Strangers: a cookie that is not theirs, and what belongs to no connection.
fn strangers() -> Vec<u8> {
    let hello = body(b'H', &[], &[1]);
    let long = body(b'H', &[], &[1; 64]);
    let of_another = [&b"H"[..], &[0; 16], &[1; 64]].concat();
    let steps = [
        vec![1],
        step(MUCH, &hello),
        step(FORGE | 1, &hello),
        step(FORGE | 2, &long),
        step(FORGE, &of_another),
        step(MUCH | 2, &hello),
        step(MUCH | 2 | action::KEEP_WAITING, &hello),
        data(1, 0),
        step(SAY | 1, &body(b'P', &[], &[])),
        step(SAY | action::SPOILT, &body(b'P', &[], &[])),
        vec![2, 1, b'P', action::SEND << 2, 3, b'D', 0, 0],
    ];
    steps.concat()
}

/// Segments that come early, late, twice, from a stranger, changed on the way, and behind the end.
fn disorder() -> Vec<Vec<u8>> {
    const TWICE: u8 = action::TWICE;
    const SPOILT: u8 = action::SPOILT;
    let cut = body(b'X', &[], &[]);
    let foreign = body(b'D', &[0, 0], b"foreign");
    let early = [data(0, 2), data(TWICE, 1), data(0, 0)].concat();
    let late = [data(0, 0), data(0, 1), data(0, 2)].concat();
    let ending = [end(TWICE, 4), READ.to_vec(), data(0, 3)].concat();
    let ended = [data(0, 3), end(0, 4), data(0, 2)].concat();
    let behind = [data(0, 0), end(0, 1), data(0, 2)].concat();
    let spoilt = [data(SPOILT, 0), step(SAY | SPOILT, &cut)].concat();
    let again = step(MUCH, &body(b'H', &[], &[1]));
    vec![
        opened(&[
            &early, &READ, &late, &READ, &ending, &READ, &ended, &READ, &FINISH,
        ]),
        opened(&[&end(0, 1), &data(0, 2), &data(0, 0), &READ]),
        opened(&[&behind, &READ]),
        opened(&[
            &step(FORGE, &foreign),
            &step(FORGE, &cut),
            &spoilt,
            &READ,
            &data(0, 0),
            &READ,
            &step(SAY, &cut),
            &READ,
            &DROP,
            &again,
            &data(0, 0),
            &READ,
        ]),
        opened(&[&data(0, 256), &data(0, 257), &data(0, 258), &READ]),
        opened(&[&step(SAY, &body(b'D', &[u64::MAX, 0], b"x")), &READ]),
    ]
}

/// Bytes from our side: lost, acknowledged late, held back by the window, and by a socket that is full.
fn answers() -> Vec<Vec<u8>> {
    let window = 16 * 1024;
    vec![
        opened(&[
            &WRITE,
            &WAIT,
            &ack(0, window, 8, 0b110),
            &WRITE,
            &WAIT,
            &ack(4, window, 8, 0),
            &FINISH,
            &WAIT,
            &ack(u64::MAX, window, 20, 0),
            &READ,
        ]),
        opened(&[
            &WRITE,
            &WRITE,
            &ack(8, window, 8, 0),
            &WRITE,
            &WRITE,
            &ack(16, window, 16, 0),
            &WRITE,
            &ack(17, window, 17, 0),
            &WRITE,
            &WAIT,
            &ack(17, window + 5000, 17, 0),
            &WRITE,
            &WRITE,
            &FINISH,
        ]),
        opened(&[&FILL, &WRITE, &data(0, 0), &WAIT, &EMPTY, &WRITE, &READ]),
        opened(&[&FILL, &WRITE, &DROP]),
    ]
}

pub(crate) fn datagram_seeds() -> Vec<Vec<u8>> {
    let [server, client] = Recording::new().run(false);
    let [bad_server, bad_client] = Recording::new().run(true);
    let much = |number: u64| step(MUCH, &body(b'D', &[number, number], &[]));
    let flood: Vec<u8> = (0..20).flat_map(much).collect();
    let early: Vec<u8> = (1..20).flat_map(much).collect();
    let mut seeds = vec![server, client, bad_server, bad_client, strangers()];
    seeds.push(opened(&[&flood, &READ]));
    seeds.push(opened(&[&early, &READ]));
    seeds.extend(disorder());
    seeds.extend(answers());
    seeds
}
