//! `SEC`: hostile bytes, where the suite knows what an endpoint is made of.

mod datagrams;
mod deaf_askers;
mod floods;
mod garbage_connections;
mod handshakes;
mod replays;

use std::time::Duration;

use saline_protocol::transport::Limits;

use crate::failure::ensure_eq;
use crate::kit::{Caller, Host, Listener, Place, World, number, numbered, topic};
use crate::{Expecting, Failure, Level, Need, Outcome, Requirement};

/// The requirements of this area.
pub const ALL: &[Requirement] = &[
    Requirement {
        id: "SEC-001",
        name: "garbage",
        level: Level::Must,
        sentence: "Connections that send garbage of every kind never reach the stream of requests and delay nobody.",
        why: "Ports are scanned.",
        look_at: "what the backend does with a peer that breaks its protocol",
        needs: &[Need::RawConnections],
        run: |world| Box::pin(garbage_connections::garbage(world)),
    },
    Requirement {
        id: "SEC-002",
        name: "short_visits",
        level: Level::Must,
        sentence: "Three hundred connections that are closed or reset at once leave the server as it was.",
        why: "Load balancers look whether somebody is there, all day.",
        look_at: "an accept loop that ends at the first error",
        needs: &[Need::RawConnections],
        run: |world| Box::pin(garbage_connections::short_visits(world)),
    },
    Requirement {
        id: "SEC-003",
        name: "silence",
        level: Level::Must,
        sentence: "A hundred connections that never say anything do not keep a client from connecting and working.",
        why: "It is the cheapest attack there is.",
        look_at: "handshakes that are awaited in the accept loop",
        needs: &[Need::RawConnections],
        run: |world| Box::pin(garbage_connections::silence(world)),
    },
    Requirement {
        id: "SEC-004",
        name: "silence_is_cut",
        level: Level::Should,
        sentence: "A connection that does not shake hands is closed after the handshake time-out.",
        why: "Descriptors are finite.",
        look_at: "Limits::handshake_timeout",
        needs: &[Need::RawConnections],
        run: |world| Box::pin(garbage_connections::silence_is_cut(world)),
    },
    Requirement {
        id: "SEC-005",
        name: "half_handshakes",
        level: Level::Must,
        sentence: "Connections that begin as a client does and stop at whatever byte, staying, closing or resetting, delay nobody and leave nothing behind.",
        why: "Every crash of a client and every cut line is one of these.",
        look_at: "states of a handshake that nobody leaves",
        needs: &[Need::RawConnections],
        run: |world| Box::pin(handshakes::half_handshakes(world)),
    },
    Requirement {
        id: "SEC-006",
        name: "announced_lengths",
        level: Level::Must,
        sentence: "Whatever length a stranger announces, at whatever place of what a client says first, costs neither memory nor address space.",
        why: "Four bytes must not be able to take a master's memory.",
        look_at: "buffers of the announced length; where it is compared with the limit",
        needs: &[Need::RawConnections, Need::OwnProcess],
        run: |world| Box::pin(handshakes::announced_lengths(world)),
    },
    Requirement {
        id: "SEC-007",
        name: "slow_loris",
        level: Level::Should,
        sentence: "A connection that shakes hands one byte at a time is closed after the handshake time-out all the same, and delays nobody meanwhile.",
        why: "A time-out that starts over with every byte is none.",
        look_at: "Limits::handshake_timeout as a deadline of the whole handshake",
        needs: &[Need::RawConnections],
        run: |world| Box::pin(handshakes::slow_loris(world)),
    },
    Requirement {
        id: "SEC-008",
        name: "connects_in_waves",
        level: Level::Must,
        sentence: "Ten thousand connections in waves of a thousand (inside of the transport's own connections, a thousand in waves of twenty-five) do not keep a client from working, stay below a ceiling of memory, and leave no descriptor and no thread behind.",
        why: "It is what a fleet does whose master comes back, and what anybody on the network can do.",
        look_at: "what is kept for a connection before it has shaken hands, and when it goes",
        needs: &[Need::RawConnections, Need::OwnProcess, Need::QuietMachine],
        run: |world| Box::pin(floods::connects_in_waves(world)),
    },
    Requirement {
        id: "SEC-009",
        name: "flood_of_garbage",
        level: Level::Must,
        sentence: "Strangers that send as much garbage as the server takes, with and without a handshake before it, stay below a ceiling of memory and delay nobody.",
        why: "What is not understood must not be kept until it is.",
        look_at: "buffers that grow until a message is whole",
        needs: &[Need::RawConnections, Need::OwnProcess, Need::QuietMachine],
        run: |world| Box::pin(floods::flood_of_garbage(world)),
    },
    Requirement {
        id: "SEC-010",
        name: "garbage_datagrams",
        level: Level::Should,
        sentence: "Thousands of datagrams from strangers, random and nearly right, delay nobody and stay below a ceiling of memory.",
        why: "Anybody can send a datagram, in any name.",
        look_at: "state that is made for a first datagram",
        needs: &[Need::UdpWire, Need::OwnProcess, Need::QuietMachine],
        run: |world| Box::pin(datagrams::garbage_datagrams(world)),
    },
    Requirement {
        id: "SEC-011",
        name: "deaf_strangers",
        level: Level::Must,
        sentence: "Strangers that endlessly repeat a real client's requests, subscriptions, withdrawals and pings, and never read what comes back, stay below a ceiling of memory and delay nobody.",
        why: "Everything that a peer can make the other side queue has a bound in bytes.",
        look_at: "answers, confirmations and denials that are queued for a peer that does not read",
        needs: &[Need::RawConnections, Need::OwnProcess, Need::QuietMachine],
        run: |world| Box::pin(replays::deaf_strangers(world)),
    },
    Requirement {
        id: "SEC-012",
        name: "no_descriptors_left",
        level: Level::Must,
        sentence: "A server that cannot accept because descriptors have run out goes on serving those that it has, and accepts again as soon as there are some.",
        why: "Descriptors run out on the busiest day.",
        look_at: "an accept loop that ends at an error, or spins on it",
        needs: &[Need::ConnectionWire, Need::OwnProcess],
        run: |world| Box::pin(replays::no_descriptors_left(world)),
    },
    Requirement {
        id: "SEC-013",
        name: "forged_first_datagrams",
        level: Level::Must,
        sentence: "Thousands of first datagrams from addresses that never answer leave nothing behind, neither memory nor tasks, and delay nobody.",
        why: "The sender of a datagram can be anybody, and one machine can be a million of them.",
        look_at: "state that is made before the peer has shown that it receives at its address: a cookie, as in QUIC's Retry or DTLS",
        needs: &[Need::UdpWire, Need::OwnProcess, Need::QuietMachine],
        run: |world| Box::pin(datagrams::forged(world)),
    },
    Requirement {
        id: "SEC-014",
        name: "no_amplification",
        level: Level::Must,
        sentence: "What a server sends to an address that has not answered is at most three times what came from there.",
        why: "A server that answers with more is aimed at others.",
        look_at: "the size of the answer to a first datagram, and how often it is sent again",
        needs: &[Need::UdpWire],
        run: |world| Box::pin(datagrams::amplification(world)),
    },
    Requirement {
        id: "SEC-015",
        name: "malformed_datagrams",
        level: Level::Must,
        sentence: "Malformed datagrams of a peer that is connected cost no other peer anything, and their own at most its connection.",
        why: "All peers of a socket share the task that reads it.",
        look_at: "lengths that are not checked in the task that reads the socket, and errors that end it",
        needs: &[Need::UdpWire],
        run: |world| Box::pin(datagrams::malformed(world)),
    },
    Requirement {
        id: "SEC-016",
        name: "deaf_askers",
        level: Level::Must,
        sentence: "With link pings two minutes apart, strangers that ask much more than the server hands out at once and never read the answers delay nobody.",
        why: "A request is answered when its handler has answered it: a few clients that do not read would else stop a master until they are given up.",
        look_at: "permits that are free only when an answer has been sent; what becomes of answers that a peer does not take",
        needs: &[Need::RawConnections],
        run: |world| Box::pin(deaf_askers::deaf_askers(world)),
    },
];

/// Where raw connections to `host` go: both places, if there are two.
fn places(world: &World, host: &Host) -> Outcome<Vec<Place>> {
    let both = [Some(&host.bound.requests), host.bound.publications.as_ref()];
    let places = both.into_iter().flatten();
    places.map(|endpoint| world.place(endpoint)).collect()
}

/// What the suite's own socket cannot do is the suite's failure.
fn socket<T>(result: std::io::Result<T>) -> Outcome<T> {
    result.map_err(|error| Failure::new(format!("a raw socket of the suite: {error}")))
}

/// The suite's limits with a time for handshakes that can be waited for.
fn with_short_handshakes(world: &World) -> Limits {
    let mut limits = world.limits();
    limits.handshake_timeout = Duration::from_secs(2);
    limits
}

/// Everything that a steady client does, right now.
async fn steady(host: &Host, caller: &Caller, listener: &mut Listener, n: u64) -> Outcome {
    let reply = caller.ask(numbered(n, 64)).await;
    let reply = reply.expecting("a request beside hostile connections")?;
    ensure_eq!(number(&reply), n, "the reply");
    host.publish(&topic("t")?, numbered(n, 64)).await?;
    ensure_eq!(number(&listener.message().await?.1), n, "the publication");
    Ok(())
}
