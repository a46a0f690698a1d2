//! The datagrams of connections that share a socket, at the end that takes connections and at the end that asks for one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use saline_engine::fuzzing::{Peer, SharedSocket, check_encoding, sealed};

use streams::{Arriving, Leaving};

pub(crate) use seeds::datagram_seeds;

mod seeds;
mod streams;

/// A datagram is its kind, the number of the client, that of the server, what it says, and a tag.
const CLIENT: usize = 1;
const SERVER: usize = 9;
const SAYS: usize = 17;
const COOKIE: usize = 16;
const TAG: usize = 8;
const LARGEST: usize = 1200;

/// A question for a connection is at least as large as every answer to it.
const HELLO: usize = 64;

/// The number of the client that the target plays.
const OURS: u64 = 7;

/// Returns one of the addresses of the other side, of which the first is that of the server at a client.
fn address(step: u8) -> SocketAddr {
    match step & 3 {
        0 => SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        1 => SocketAddr::from((Ipv4Addr::LOCALHOST, 2)),
        2 => SocketAddr::from((Ipv6Addr::LOCALHOST, 1)),
        _ => SocketAddr::from((Ipv4Addr::BROADCAST, 1)),
    }
}

/// Returns the bytes of a field, if they are there.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Whether the tag of a datagram is right.
fn is_sealed(datagram: &[u8]) -> bool {
    let body = datagram.split_last_chunk::<TAG>();
    body.is_some_and(|(body, _)| sealed(body.to_vec()) == datagram)
}

/// Writes a field, if there is room for it.
fn put(into: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = into.get_mut(at..at + field.len()) {
        place.copy_from_slice(field);
    }
}

/// The other side may do all this, a step each: an input is its steps, of two bytes or more.
mod action {
    /// Says something, with the numbers and the cookie that it was told.
    pub(super) const SAY: u8 = 0;
    /// The same, in the largest datagram.
    pub(super) const SAY_MUCH: u8 = 1;
    /// Says something with a right tag, and numbers of its own; a greeting has the cookie of somebody else.
    pub(super) const FORGE: u8 = 2;
    /// Sends bytes as the input has them, without a tag.
    pub(super) const SEND: u8 = 3;
    /// Lets as many tenths of a second pass as its argument says.
    pub(super) const WAIT: u8 = 4;
    /// Our side reads, or writes, or says that nothing follows.
    pub(super) const READ: u8 = 5;
    pub(super) const WRITE: u8 = 6;
    /// Our side lets go of a connection, or its socket is full for a while.
    pub(super) const DROP: u8 = 7;
    /// A datagram comes twice.
    pub(super) const TWICE: u8 = 0x20;
    /// A bit of a datagram changes on the way.
    pub(super) const SPOILT: u8 = 0x40;
    /// Nothing is accepted after this step.
    pub(super) const KEEP_WAITING: u8 = 0x80;
}

/// Our socket, and what the other side knows.
struct Exchange {
    socket: SharedSocket,
    is_server: bool,
    cookies: BTreeMap<Peer, [u8; COOKIE]>,
    /// Those that have shown that they receive at their address.
    proven: BTreeSet<Peer>,
    servers: BTreeMap<Peer, [u8; 8]>,
    arriving: BTreeMap<Peer, Arriving>,
    leaving: BTreeMap<Peer, Leaving>,
}

impl Exchange {
    fn new(is_server: bool) -> Self {
        let server = (address(0), OURS);
        let mut exchange = Self {
            socket: match is_server {
                true => SharedSocket::serving().expect("the system has randomness"),
                false => SharedSocket::dialling(server),
            },
            is_server,
            cookies: BTreeMap::new(),
            proven: BTreeSet::new(),
            servers: BTreeMap::new(),
            arriving: BTreeMap::new(),
            leaving: BTreeMap::new(),
        };
        if !is_server {
            exchange.proven.insert(server);
        }
        exchange
    }

    fn is_proven(&self, address: SocketAddr) -> bool {
        self.proven.iter().any(|(proven, _)| *proven == address)
    }

    /// Puts in what only those can know who have received it.
    fn fill_in(&self, from: SocketAddr, body: &mut [u8]) {
        let client = if self.is_server {
            field(body, CLIENT).map(u64::from_be_bytes)
        } else {
            Some(OURS)
        };
        let Some(client) = client else {
            return;
        };
        let peer = (from, client);
        put(body, CLIENT, &client.to_be_bytes());
        if body.first() == Some(&b'H') {
            if let Some(cookie) = self.cookies.get(&peer) {
                put(body, SAYS + 1, cookie);
            }
        } else if let Some(server) = self.servers.get(&peer) {
            put(body, SERVER, server);
        }
    }

    /// Puts the cookie of another address into a greeting, or else one of the same address under another number.
    fn steal_cookie(&self, from: SocketAddr, body: &mut [u8]) {
        let Some(client) = field(body, CLIENT).map(u64::from_be_bytes) else {
            return;
        };
        let own = (from, client);
        let stolen = self.cookies.iter().find(|(peer, _)| **peer != own);
        if let (b'H', Some(((address, client), cookie))) = (body[0], stolen) {
            if *address != from {
                put(body, CLIENT, &client.to_be_bytes());
            }
            put(body, SAYS + 1, cookie);
        }
    }

    /// Sends a datagram, and looks at the answers.
    fn say(&mut self, from: SocketAddr, datagram: Vec<u8>) {
        check_encoding(&datagram);
        let (size, is_proven) = (datagram.len(), self.is_proven(from));
        let is_sealed = is_sealed(&datagram);
        if is_sealed {
            self.note(from, &datagram);
        }
        self.socket.take(from, datagram);
        let answers = self.socket.sent();
        assert!(
            answers.iter().all(|(to, _)| *to == from),
            "it answers somebody else"
        );
        assert!(is_sealed || answers.is_empty(), "it answers what is spoilt");
        let answered: usize = answers.iter().map(|(_, answer)| answer.len()).sum();
        assert!(is_proven || answered <= size, "{answered} bytes for {size}");
        answers
            .iter()
            .for_each(|(to, answer)| self.learn(*to, answer));
    }

    /// Takes note of a datagram whose tag is right: it may prove an address or belong to a connection.
    fn note(&mut self, from: SocketAddr, datagram: &[u8]) {
        let Some((body, _)) = datagram.split_last_chunk::<TAG>() else {
            return;
        };
        let (Some(client), Some(server)) = (field(body, CLIENT), field(body, SERVER)) else {
            return;
        };
        let peer = (from, u64::from_be_bytes(client));
        let told = self.servers.get(&peer);
        let (is_asked, is_theirs) = (told.is_none() && !self.is_server, told == Some(&server));
        let number = field(body, SAYS + 8).map(u64::from_be_bytes);
        match (body[0], number) {
            (b'H', _) if datagram.len() >= HELLO && body[SAYS] == 1 => {
                let cookie = field(body, SAYS + 1);
                if cookie.is_some() && cookie.as_ref() == self.cookies.get(&peer) {
                    self.proven.insert(peer);
                }
            }
            (b'W', _) if !self.is_server => {
                self.servers.entry(peer).or_insert(server);
            }
            (b'E', Some(segment)) if is_theirs => {
                self.arriving.entry(peer).or_default().add(segment, &[]);
            }
            (b'D', Some(segment)) if is_theirs && body.len() > SAYS + 16 => {
                let arriving = self.arriving.entry(peer).or_default();
                arriving.add(segment, &body[SAYS + 16..]);
            }
            (b'A', Some(allowed)) if is_theirs => {
                self.leaving.entry(peer).or_default().allow(allowed);
            }
            (b'X', _) if is_theirs || is_asked => {
                self.arriving.entry(peer).or_default().cut();
            }
            _ => {}
        }
    }

    /// Reads what our side has sent, as its peer does.
    fn learn(&mut self, to: SocketAddr, said: &[u8]) {
        assert!(is_sealed(said), "a tag of its own is wrong");
        let (Some(client), Some(server)) = (field(said, CLIENT), field(said, SERVER)) else {
            return;
        };
        let peer = (to, u64::from_be_bytes(client));
        let number = |at| field(said, at).map(u64::from_be_bytes);
        match (said[0], field(said, SAYS + 1)) {
            // Zeros say that it speaks another version.
            (b'R', Some(cookie)) if self.is_server && cookie != [0; COOKIE] => {
                self.cookies.insert(peer, cookie);
            }
            (b'W', _) if self.is_server => {
                self.servers.insert(peer, server);
            }
            (b'X', _) if self.servers.get(&peer) == Some(&server) => {
                self.arriving.entry(peer).or_default().cut();
            }
            (b'D' | b'E', _) => {
                if let (Some(packet), Some(segment)) = (number(SAYS), number(SAYS + 8)) {
                    let bytes = &said[SAYS + 16..said.len() - TAG];
                    let leaving = self.leaving.entry(peer).or_default();
                    leaving.send(packet, segment, bytes);
                }
            }
            _ => {}
        }
    }

    /// Has our side accept those that wait, and looks at what it has sent.
    fn accept(&mut self) {
        for peer in self.socket.accept().expect("each waits once") {
            assert!(self.proven.contains(&peer), "a stranger was accepted");
        }
        self.look();
    }

    fn look(&mut self) {
        for (to, said) in self.socket.sent() {
            assert!(self.is_proven(to), "something was sent to a stranger");
            self.learn(to, &said);
        }
    }

    /// Has our side do something with a connection.
    fn act(&mut self, action: u8, which: u8, argument: u8) {
        let peers = self.socket.peers();
        let Some(peer) = peers.get(usize::from(which)).copied() else {
            return;
        };
        match (action, argument) {
            (action::READ, _) => {
                let came = self.socket.read(peer);
                self.arriving.entry(peer).or_default().read(came);
            }
            (action::WRITE, 0) => {
                self.leaving.entry(peer).or_default().finish();
                self.socket.finish(peer);
            }
            (action::WRITE, many) => {
                let bytes = vec![many; usize::from(many) * 16];
                let taken = self.socket.write(peer, &bytes);
                self.leaving.entry(peer).or_default().write(&bytes[..taken]);
            }
            (_, 0) => {
                self.socket.drop_connection(peer);
                self.servers.remove(&peer);
                self.arriving.remove(&peer);
                self.leaving.remove(&peer);
            }
            (_, many) => self.socket.set_full(many % 2 == 1),
        }
    }

    /// Takes the next step. Returns those after it.
    fn step<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let ([step, argument], mut rest) = bytes.split_first_chunk()?;
        let action = (step >> 2) & 7;
        if action <= action::SEND {
            let (body, after) = rest.split_at(rest.len().min(usize::from(*argument)));
            rest = after;
            let (from, mut body) = (address(*step), body.to_vec());
            if action == action::SAY_MUCH {
                body.resize(LARGEST - TAG, 0);
            }
            match action {
                action::SAY | action::SAY_MUCH => self.fill_in(from, &mut body),
                action::FORGE => self.steal_cookie(from, &mut body),
                _ => {}
            }
            if action != action::SEND {
                body = sealed(body);
            }
            if step & action::SPOILT != 0
                && let Some(byte) = body.iter_mut().nth_back(TAG)
            {
                *byte ^= 1;
            }
            if step & action::TWICE != 0 {
                self.say(from, body.clone());
            }
            self.say(from, body);
        } else if action == action::WAIT {
            let tenth = Duration::from_millis(100);
            self.socket.pass(tenth * u32::from(*argument));
        } else {
            self.act(action, step & 3, *argument);
        }
        self.look();
        if step & action::KEEP_WAITING == 0 {
            self.accept();
        }
        self.socket.check_bounds();
        Some(rest)
    }
}

/// The first byte says at which end the datagrams arrive.
pub(crate) fn datagrams(bytes: &[u8]) {
    let Some((side, mut rest)) = bytes.split_first() else {
        return;
    };
    let mut exchange = Exchange::new(side % 2 == 1);
    // The question of a client.
    exchange.look();
    while let Some(after) = exchange.step(rest) {
        rest = after;
    }
    exchange.accept();
    for peer in exchange.socket.peers() {
        exchange.socket.drop_connection(peer);
    }
    exchange.look();
    assert!(
        exchange.socket.is_idle(),
        "something is left of connections"
    );
}
