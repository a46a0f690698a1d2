//! Listener, dialer and pipes over a network in memory. Time is paused, so that waits cost none.

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use saline_protocol::transport::{Clock, Context};

use super::datagram::{ConnectionId, Datagram, VERSION, decode, encode};
use super::testing::{Faults, MemorySocket, Network, finish, read, read_all, write};
use super::{
    DatagramSocket, FIRST_WINDOW, VirtualDialer, VirtualIncoming, VirtualListener, VirtualPipe,
    WINDOW,
};
use crate::pipe::{Incoming, Listener, Pipe, WritePipe};

const SECOND: Duration = Duration::from_secs(1);

fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

const SERVER: u16 = 1;

/// A server and a client on one network.
struct Stage {
    network: Arc<Network>,
    context: Context,
    listener: VirtualListener,
    dialer: VirtualDialer,
}

impl Stage {
    fn new(seed: u64) -> Self {
        let (network, context) = (Network::new(seed), Context::default());
        Self {
            listener: VirtualListener::new(network.bind(at(SERVER)), &context).unwrap(),
            dialer: VirtualDialer::new(&context),
            network,
            context,
        }
    }

    /// Returns both ends of a connection, the client's first.
    async fn connect(&mut self, port: u16) -> (VirtualPipe, VirtualPipe) {
        let client = self.network.bind(at(port));
        let started = Clock.now();
        let accepting = async { self.listener.accept().await.unwrap().establish().await };
        let dialling = self.dialer.connect(client, at(SERVER));
        let (client, server) = tokio::join!(dialling, accepting);
        if self.network.is_good() {
            assert_eq!(Clock.now(), started, "something had to be said twice");
        }
        (client.unwrap(), server.unwrap())
    }

    fn has_connection(&self) -> bool {
        !self.listener.driver.is_idle()
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n * 7 / 3) as u8).collect()
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_once_and_in_order_whatever_the_network_does() {
    for seed in 0..20 {
        let mut stage = Stage::new(seed);
        stage.network.set(Faults {
            lost: 8,
            doubled: 10,
            overtaken: 20,
            blocked: 10,
        });
        let (client, server) = stage.connect(2).await;
        let ((mut from_server, mut to_server), (mut from_client, mut to_client)) =
            (client.split(), server.split());
        let (up, down) = (bytes(700_000), bytes(50_000));
        let (written, answered, received, heard) = tokio::join!(
            async {
                write(&mut to_server, &up).await?;
                finish(&mut to_server).await
            },
            async {
                write(&mut to_client, &down).await?;
                finish(&mut to_client).await
            },
            read_all(&mut from_client),
            read_all(&mut from_server),
        );
        written.and(answered).unwrap();
        assert!(received.unwrap() == up && heard.unwrap() == down, "{seed}");
        drop((from_client, to_client));
        assert!(!stage.has_connection(), "{seed}: something is left");
    }
}

/// A stranger's question for a connection.
fn hello(client: u64, cookie: [u8; 16]) -> Vec<u8> {
    let id = ConnectionId { client, server: 0 };
    let version = VERSION;
    encode(id, &Datagram::Hello { version, cookie })
}

/// Lets the task of the server have its turn.
async fn turn() {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}

/// Asks as a client does, and returns the cookie.
async fn cookie_of(stranger: &MemorySocket, client: u64) -> [u8; 16] {
    stranger.say(&hello(client, [0; 16]), at(SERVER));
    turn().await;
    match decode(&stranger.received().unwrap()) {
        Some((_, Datagram::Retry { cookie, .. })) => cookie,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_not_proven_costs_nothing_and_is_not_flooded() {
    let mut stage = Stage::new(0);
    let stranger = stage.network.bind(at(3));
    for n in 0..1000 {
        // Some with a cookie that is none.
        let hello = hello(n, [(n % 2) as u8; 16]);
        stranger.say(&hello, at(SERVER));
    }
    turn().await;
    let id = ConnectionId::default();
    for datagram in [
        Datagram::Probe,
        Datagram::End {
            packet: 1,
            segment: 2,
        },
        Datagram::Cut,
    ] {
        stranger.say(&encode(id, &datagram), at(SERVER));
    }
    while turn_has_more(&stranger).await {}
    assert!(!stage.has_connection());
    assert!(stage.network.sent_to(at(3)) <= stage.network.sent_to(at(SERVER)));
    let accepting = Clock.deadline(Clock.after(SECOND), stage.listener.accept());
    assert!(accepting.await.is_err(), "somebody was accepted");
    // The cookie of another address is as good as none, and the right one is accepted, once.
    let other = stage.network.bind(at(4));
    let cookie = cookie_of(&stranger, 7).await;
    other.say(&hello(7, cookie), at(SERVER));
    let accepting = Clock.deadline(Clock.after(SECOND), stage.listener.accept());
    assert!(accepting.await.is_err(), "a stolen cookie was accepted");
    for _ in 0..2 {
        stranger.say(&hello(7, cookie), at(SERVER));
    }
    let incoming = stage.listener.accept().await.unwrap();
    assert_eq!(incoming.address(), Some(at(3)));
    let accepting = Clock.deadline(Clock.after(SECOND), stage.listener.accept());
    assert!(accepting.await.is_err(), "it was accepted twice");
}

async fn turn_has_more(stranger: &MemorySocket) -> bool {
    turn().await;
    stranger.received().is_some()
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_are_bounded_and_turned_away_at_the_end() {
    let stage = Stage::new(0);
    let stranger = stage.network.bind(at(3));
    for client in 0..1100 {
        let cookie = cookie_of(&stranger, client).await;
        stranger.say(&hello(client, cookie), at(SERVER));
    }
    turn().await;
    stage.listener.close(std::future::ready(())).await;
    let mut turned_away = 0;
    while let Some(datagram) = stranger.received() {
        let is_cut = matches!(decode(&datagram), Some((_, Datagram::Cut)));
        turned_away += usize::from(is_cut);
    }
    assert_eq!(turned_away, 1024);
}

/// Writes until nothing more is taken. Returns how much was.
async fn fill(pipe: &mut impl WritePipe) -> usize {
    let (piece, mut written) = (vec![0; 10_000], 0);
    loop {
        let writing = poll_fn(|cx| pipe.poll_write(cx, &[IoSlice::new(&piece)]));
        match Clock.deadline(Clock.after(5 * SECOND), writing).await {
            Ok(count) => written += count.unwrap(),
            Err(_) => return written,
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_holds_a_window_and_goes_on_when_it_reads() {
    let mut stage = Stage::new(0);
    let (client, server) = stage.connect(2).await;
    let ((_from_server, mut to_server), (mut from_client, _to_client)) =
        (client.split(), server.split());
    assert_eq!(fill(&mut to_server).await as u64, FIRST_WINDOW);
    let signs = crate::pipe::ReadPipe::signs_of_life(&from_client).unwrap();
    let before = signs();
    Clock.pause(5 * SECOND).await;
    assert!(
        signs() > before,
        "a peer that waits for room gives signs of life"
    );
    // What tells it that there is room again is lost.
    stage.network.set(Faults {
        lost: 100,
        ..Faults::default()
    });
    let mut got = 0;
    while (got as u64) < FIRST_WINDOW {
        got += read(&mut from_client).await.unwrap().len();
    }
    stage.network.set(Faults::default());
    let more = fill(&mut to_server).await as u64;
    assert!(more > FIRST_WINDOW && more <= WINDOW, "{more}");
    stage.network.set(Faults {
        lost: 100,
        ..Faults::default()
    });
    let before = signs();
    Clock.pause(5 * SECOND).await;
    assert_eq!(signs(), before, "a peer that has vanished gives none");
}

#[tokio::test(start_paused = true)]
async fn a_pipe_that_is_dropped_ends_the_other_one() {
    let mut stage = Stage::new(0);
    let (client, server) = stage.connect(2).await;
    let ((mut from_server, _to_server), server) = (client.split(), server);
    drop(server);
    let error = read(&mut from_server).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(!stage.has_connection());
    drop(from_server);
    // The other way round.
    let (client, server) = stage.connect(3).await;
    let (mut from_client, _to_client) = server.split();
    drop(client);
    assert!(read(&mut from_client).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_started_again_says_that_it_knows_nothing() {
    let mut stage = Stage::new(0);
    let (client, _server) = stage.connect(2).await;
    let (mut from_server, mut to_server) = client.split();
    // As a process that is killed: nothing is said.
    stage.network.set(Faults {
        lost: 100,
        ..Faults::default()
    });
    let Stage {
        network,
        context,
        listener,
        ..
    } = stage;
    listener.close(std::future::ready(())).await;
    network.set(Faults::default());
    let _again = VirtualListener::new(network.bind(at(SERVER)), &context).unwrap();
    write(&mut to_server, b"something").await.unwrap();
    assert!(read(&mut from_server).await.is_err());
}

/// Returns what a connection of a stranger is known by, and the server's end of it.
async fn stranger(stage: &mut Stage, socket: &MemorySocket) -> (ConnectionId, VirtualPipe) {
    let cookie = cookie_of(socket, 7).await;
    socket.say(&hello(7, cookie), at(SERVER));
    let incoming: VirtualIncoming = stage.listener.accept().await.unwrap();
    let pipe = incoming.establish().await.unwrap();
    let (id, welcome) = (socket.received().unwrap(), Datagram::Welcome);
    let (id, datagram) = decode(&id).unwrap();
    assert_eq!(datagram, welcome);
    (id, pipe)
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_breaks_the_rules_loses_its_connection_and_no_other_does() {
    let segment = vec![1; 1000];
    let window = FIRST_WINDOW / 1000 + 1;
    let flood = (0..window).map(|n| Datagram::Data {
        packet: n,
        segment: n,
        bytes: &segment,
    });
    let far = Datagram::Data {
        packet: 0,
        segment: 1000,
        bytes: b"far",
    };
    let early = super::datagram::Ack {
        next: 1,
        ..Default::default()
    };
    let generous = super::datagram::Ack {
        allowed: u64::MAX,
        ..Default::default()
    };
    let behind = vec![
        Datagram::End {
            packet: 0,
            segment: 0,
        },
        Datagram::End {
            packet: 1,
            segment: 1,
        },
    ];
    let broken = [
        flood.collect(),
        vec![far],
        vec![Datagram::Ack(early)],
        vec![Datagram::Ack(generous)],
        behind,
    ];
    for said in broken {
        let mut stage = Stage::new(0);
        let (client, server) = stage.connect(2).await;
        let socket = stage.network.bind(at(3));
        let (id, pipe) = stranger(&mut stage, &socket).await;
        let forged = ConnectionId {
            server: id.server + 1,
            ..id
        };
        for datagram in &said {
            // Who does not know the number of the server is not heard.
            socket.say(&encode(forged, datagram), at(SERVER));
            turn().await;
        }
        let (mut from_stranger, _to_stranger) = pipe.split();
        let quiet = Clock.deadline(Clock.after(SECOND), read(&mut from_stranger));
        assert!(quiet.await.is_err(), "{said:?}");
        for datagram in &said {
            socket.say(&encode(id, datagram), at(SERVER));
        }
        turn().await;
        let ended = async {
            loop {
                match read(&mut from_stranger).await {
                    Ok(some) if some.is_empty() => return None,
                    Ok(_) => {}
                    Err(error) => return Some(error.kind()),
                }
            }
        };
        // What comes behind an end is not looked for by those who have read it.
        let kind = ended.await;
        assert!(
            kind.is_none_or(|kind| kind == ErrorKind::InvalidData),
            "{said:?}: {kind:?}"
        );
        let is_cut = std::iter::from_fn(|| socket.received())
            .any(|datagram| matches!(decode(&datagram), Some((_, Datagram::Cut))));
        assert!(is_cut, "{said:?}");
        let ((_a, mut to_server), (mut from_client, _b)) = (client.split(), server.split());
        write(&mut to_server, b"beside it").await.unwrap();
        assert_eq!(read(&mut from_client).await.unwrap(), b"beside it");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_a_peer_says_ends_its_own_connection_at_most() {
    let mut stage = Stage::new(0);
    let (client, server) = stage.connect(2).await;
    let ((_a, mut to_server), (mut from_client, _b)) = (client.split(), server.split());
    let mut random = 1u64;
    let mut number = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        match (random >> 33) % 8 {
            0 => u64::MAX - (random >> 40) % 2,
            1 => (random >> 40) % 600,
            _ => (random >> 40) % 4,
        }
    };
    for n in 0..300 {
        let socket = stage.network.bind(at(100 + n));
        let (id, pipe) = stranger(&mut stage, &socket).await;
        let (mut from_stranger, mut to_stranger) = pipe.split();
        fill_now(&mut to_stranger);
        for _ in 0..20 {
            let (packet, segment, some) = (number(), number(), [7; 50]);
            let (next, allowed, packets) = (number(), number(), number());
            let early = vec![packet as u8; (segment % 40) as usize];
            let datagram = match number() % 6 {
                0 => Datagram::End { packet, segment },
                1 => Datagram::Probe,
                2 => Datagram::Welcome,
                3 => Datagram::Ack(super::datagram::Ack {
                    next,
                    allowed: allowed.saturating_add(FIRST_WINDOW),
                    packets,
                    early,
                }),
                _ => Datagram::Data {
                    packet,
                    segment,
                    bytes: &some,
                },
            };
            socket.say(&encode(id, &datagram), at(SERVER));
        }
        turn().await;
        let reading = Clock.deadline(Clock.after(SECOND), read_all(&mut from_stranger));
        let _ = reading.await;
        fill_now(&mut to_stranger);
        write(&mut to_server, b"beside it").await.unwrap();
        assert_eq!(read(&mut from_client).await.unwrap(), b"beside it", "{n}");
    }
}

/// Writes what is taken at once.
fn fill_now(pipe: &mut impl WritePipe) {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let piece = [IoSlice::new(&[0; 5000])];
    while matches!(pipe.poll_write(&mut cx, &piece), Poll::Ready(Ok(_))) {}
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_listener_waits_for_its_connections_and_frees_the_address() {
    let mut stage = Stage::new(0);
    let (client, server) = stage.connect(2).await;
    let ((mut from_server, _to_server), (_from_client, mut to_client)) =
        (client.split(), server.split());
    let Stage {
        network,
        context,
        listener,
        dialer,
    } = stage;
    let late = VirtualDialer::new(&context);
    let saying = async {
        Clock.pause(SECOND).await;
        // Nobody else comes in.
        let refused = late.connect(network.bind(at(5)), at(SERVER)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        write(&mut to_client, b"the last answer").await.unwrap();
        finish(&mut to_client).await.unwrap();
        drop((to_client, _from_client));
    };
    let (_, heard) = tokio::join!(listener.close(saying), read_all(&mut from_server));
    assert_eq!(heard.unwrap(), b"the last answer");
    assert!(network.is_free(at(SERVER)));
    drop((from_server, _to_server));
    dialer.close().await;
    assert!(context.tracker.is_empty(), "a task is left");
    assert!(network.is_free(at(2)));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_given_up_leaves_nothing_and_one_that_is_refused_says_so() {
    let stage = Stage::new(0);
    let socket = stage.network.bind(at(2));
    stage.network.set(Faults {
        lost: 100,
        ..Faults::default()
    });
    let dialling = stage.dialer.connect(socket, at(SERVER));
    assert!(
        Clock
            .deadline(Clock.after(3 * SECOND), dialling)
            .await
            .is_err()
    );
    let asked = stage.network.sent_to(at(SERVER));
    let once = hello(0, [0; 16]).len();
    assert!((4 * once..=8 * once).contains(&asked), "{asked} bytes");
    stage.dialer.close().await;
    assert!(stage.network.is_free(at(2)));
    stage.network.set(Faults::default());
    // A server of another version.
    let other = stage.network.bind(at(9));
    let dialling = stage.dialer.connect(stage.network.bind(at(3)), at(9));
    let answering = async {
        turn().await;
        let (id, _) = decode(&other.received().unwrap()).unwrap();
        let answer = Datagram::Retry {
            version: 9,
            cookie: [0; 16],
        };
        other.say(&encode(id, &answer), at(3));
    };
    let (refused, ()) = tokio::join!(dialling, answering);
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidData);
    assert!(refused.to_string().contains("version 9"), "{refused}");
    // And one that is of this version says so to a client of another.
    let id = ConnectionId {
        client: 1,
        server: 0,
    };
    let hello = Datagram::Hello {
        version: 9,
        cookie: [0; 16],
    };
    other.say(&encode(id, &hello), at(SERVER));
    turn().await;
    let answer = other.received().unwrap();
    assert!(matches!(
        decode(&answer),
        Some((
            _,
            Datagram::Retry {
                version: VERSION,
                ..
            }
        ))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_port_on_which_nobody_listens_ends_the_attempt() {
    /// A socket that is told so by the system.
    struct Refused;
    impl DatagramSocket for Refused {
        fn poll_receive(
            &self,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> Poll<std::io::Result<SocketAddr>> {
            Poll::Ready(Err(ErrorKind::ConnectionRefused.into()))
        }
        fn try_send(&self, _: &[u8], _: SocketAddr) -> std::io::Result<()> {
            Ok(())
        }
        fn poll_writable(&self, _: &mut std::task::Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }
    let context = Context::default();
    let dialer = VirtualDialer::new(&context);
    let refused = Clock
        .deadline(Clock.after(SECOND), dialer.connect(Refused, at(1)))
        .await;
    let refused = refused.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert!(context.tracker.is_empty());
}
