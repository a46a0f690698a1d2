//! Peers that do not do what ours do.

use std::time::Duration;

use crate::support::{
    FULL, LAGGED, NO_REPLY, PING, PING_FRAME, PUBLICATION, REPLY, REQUEST, Raw, SUBSCRIBED,
    SUBSCRIPTION_REFUSED, TestServer, eventually, frame, greeting, limits, loopback, number,
    request, soon, subscription,
};
use bytes::Bytes;
use saline_protocol::transport::{Clock, Metric, Topic};
use tokio::io::AsyncWriteExt;

fn topic(text: &str) -> Topic {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_peer_that_speaks_byte_by_byte_is_served() {
    let mut server = TestServer::new().await;
    let mut raw = server.raw().await;
    raw.0.set_nodelay(true).unwrap();
    let said = [
        greeting(),
        request(7, b"slow"),
        subscription(1, &["t"]),
        request(8, b"gone"),
    ]
    .concat();
    for byte in said {
        raw.say(&[byte]).await;
    }
    let first = server.next().await;
    assert_eq!(first.payload, "slow");
    first.reply.send("answer".into()).unwrap();
    drop(server.next().await);
    let (mut heard, mut kinds) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let (kind, body) = raw.hear_more().await.unwrap();
        kinds.push(kind);
        heard.push(body);
    }
    kinds.sort_unstable();
    assert_eq!(kinds, [1, REPLY, NO_REPLY, SUBSCRIBED]);
    let reply = [&7u64.to_le_bytes()[..], b"answer"].concat();
    assert!(heard.contains(&reply), "{heard:?}");
    server
        .server
        .publisher
        .publish(&topic("t"), "news".into())
        .await
        .unwrap();
    let (kind, body) = raw.hear_more().await.unwrap();
    assert_eq!((kind, &body[..]), (PUBLICATION, &b"\x01\0tnews"[..]));
}

#[tokio::test]
async fn who_breaks_the_protocol_is_cut_alone_and_counted() {
    let mut server = TestServer::new().await;
    let steady = server.client().await;
    let id = 1u64.to_le_bytes();
    let many: Vec<String> = (0..2000).map(|n| format!("t/{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let announced = |kind: u8, length: u32| [&length.to_le_bytes()[..], &[kind]].concat();
    let hostile = [
        // Instead of a greeting.
        (false, frame(PING_FRAME, &[])),
        (false, request(1, b"early")),
        (false, frame(1, b"saline")),
        (false, frame(1, &[0; 19])),
        (false, b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        (false, announced(1, u32::MAX)),
        // After it.
        (true, greeting()),
        (true, announced(REQUEST, u32::MAX)),
        (true, announced(REQUEST, (1 << 20) + 9)),
        (true, announced(REQUEST, 7)),
        (true, announced(6, u32::MAX)),
        (true, frame(PING_FRAME, b"x")),
        (true, frame(REPLY, &id)),
        (true, frame(PUBLICATION, b"\x01\0tx")),
        (true, frame(0, &[])),
        (true, frame(99, &[])),
        (true, subscription(1, &[])),
        (true, subscription(1, &["a//b"])),
        (true, subscription(1, &["a\n"])),
        (
            true,
            [subscription(1, &["a"]), subscription(1, &["b"])].concat(),
        ),
        (true, frame(6, &[&id[..], b"\x02\0\0\x01\0a"].concat())),
        (true, frame(6, &[&id[..], b"\x01\0\x07\x01\0a"].concat())),
        (true, frame(6, &[&id[..], b"\x01\0\0\x01\0ax"].concat())),
    ];
    for (refused, (greets, said)) in (1..).zip(hostile) {
        let mut raw = server.raw().await;
        if greets {
            raw.greet().await;
        }
        raw.say(&said).await;
        raw.is_cut().await;
        eventually(&format!("{said:?} is counted"), || {
            server.refused() == refused
        })
        .await;
        server.works(&*steady).await;
    }
    // Not a violation: it is told that it cannot be.
    let mut raw = server.raw().await;
    raw.greet().await;
    raw.say(&subscription(3, &many[..1025])).await;
    raw.say(&subscription(4, &many[..1024])).await;
    raw.say(&subscription(5, &["one"])).await;
    for (kind, id) in [
        (SUBSCRIPTION_REFUSED, 3),
        (SUBSCRIBED, 4),
        (SUBSCRIPTION_REFUSED, 5),
    ] {
        let heard = raw.hear_more().await.unwrap();
        assert_eq!((heard.0, number(&heard.1)), (kind, id));
    }
    server.shut_down().await;
}

#[tokio::test]
async fn a_peer_of_another_version_is_told_ours() {
    let server = TestServer::new().await;
    let mut raw = server.raw().await;
    let mut said = greeting();
    said[11..13].copy_from_slice(&[2, 2]);
    raw.say(&said).await;
    let (kind, body) = raw.hear().await.unwrap();
    assert_eq!((kind, body[6]), (1, 1));
    raw.is_cut().await;
}

#[tokio::test]
async fn a_full_server_says_so() {
    let mut limits = limits();
    limits.connections = 1;
    let mut server = TestServer::with(loopback(0), limits).await.unwrap();
    let steady = server.client().await;
    let mut raw = server.raw().await;
    raw.say(&greeting()).await;
    assert_eq!(raw.hear().await.unwrap().0, FULL);
    raw.is_cut().await;
    server.works(&*steady).await;
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_cut_within_two_pings() {
    let server = TestServer::new().await;
    let mut raw = server.raw().await;
    raw.greet().await;
    raw.say(&subscription(1, &["t"])).await;
    let since = Clock.now();
    raw.is_cut().await;
    let took = Clock.now() - since;
    assert!(took > PING && took < PING * 6, "{took:?}");
    eventually("its subscription is gone", || {
        server.server.publisher.subscriptions(&topic("t")) == 0
    })
    .await;
    assert_eq!(server.counters.get(Metric::Disconnected), 1);
}

#[tokio::test]
async fn pings_keep_an_idle_connection_and_come_from_the_server_too() {
    let server = TestServer::new().await;
    let mut raw = server.raw().await;
    raw.greet().await;
    for _ in 0..10 {
        assert_eq!(raw.hear().await.unwrap().0, PING_FRAME);
        raw.say(&frame(PING_FRAME, &[])).await;
    }
}

/// Reads nothing, but pings so that it is not silent. Replies must not pile up without bound.
#[tokio::test]
async fn a_peer_that_does_not_read_its_replies_is_held_up_and_cut() {
    let mut server = TestServer::new().await;
    let steady = server.client().await;
    let mut raw = server.raw().await;
    raw.greet().await;
    let large = Bytes::from(vec![0; 1 << 20]);
    let asking = async {
        let mut said = 0u64;
        loop {
            let more = [frame(PING_FRAME, &[]), request(said, b"much, please")].concat();
            let wrote = Clock
                .deadline(Clock.after(PING * 3), raw.0.write_all(&more))
                .await;
            match wrote {
                Ok(Ok(())) => said += 1,
                // Held up, or cut.
                _ => return,
            }
            Clock.pause(Duration::from_millis(1)).await;
        }
    };
    let mut answered = 0;
    let answering = async {
        loop {
            let request = server.next().await;
            if request.payload == "steady" {
                request.reply.send("steady".into()).unwrap();
                break;
            }
            request.reply.send(large.clone()).unwrap();
            answered += 1;
        }
    };
    let others = async {
        asking.await;
        crate::support::ask(&*steady, "steady").await.unwrap();
    };
    tokio::join!(answering, others);
    // A socket's buffers, what was owed when reading stopped, and what was being handled.
    assert!(
        answered < 64,
        "{answered} replies of 1 MiB were taken for a peer that reads none"
    );
    soon(raw.is_cut()).await;
}

#[tokio::test]
async fn losses_are_told_exactly_to_each_subscription_of_a_connection() {
    let mut limits = limits();
    limits.subscriber_queue_messages = 10;
    let server = TestServer::with(loopback(0), limits).await.unwrap();
    let mut raw = server.raw().await;
    raw.greet().await;
    raw.say(&subscription(1, &["a", "both"])).await;
    raw.say(&subscription(2, &["b", "both"])).await;
    for _ in 0..2 {
        assert_eq!(raw.hear_more().await.unwrap().0, SUBSCRIBED);
    }
    // More than every buffer between us holds, before anything is read.
    let payload = Bytes::from(vec![0; 1 << 18]);
    let publisher = &server.server.publisher;
    for round in 0..60 {
        for name in ["a", "b", "both"] {
            if name != "b" || round % 2 == 0 {
                publisher
                    .publish(&topic(name), payload.clone())
                    .await
                    .unwrap();
            }
        }
    }
    let (mut a, mut b, mut lost) = (0, 0, 0);
    while (a, b) != (120, 90) {
        let (kind, body) = raw.hear_more().await.unwrap();
        match kind {
            PUBLICATION => {
                let name = &body[2..2 + usize::from(body[0])];
                a += u64::from(name != b"b");
                b += u64::from(name != b"a");
            }
            LAGGED => {
                let count = number(&body[8..]);
                lost += count;
                *(if number(&body) == 1 { &mut a } else { &mut b }) += count;
            }
            other => panic!("a frame of kind {other}"),
        }
        assert!(a <= 120 && b <= 90, "{a} of 120, {b} of 90");
    }
    assert!(lost > 0, "nothing was lost");
    assert_eq!(server.counters.get(Metric::Lost), lost);
}

/// What it began to send is finished by nobody: the next connection starts from the beginning.
#[tokio::test]
async fn half_a_frame_and_gone() {
    let mut server = TestServer::new().await;
    let steady = server.client().await;
    for cut in [1, 4, 5, 12, 13, 14, 100] {
        let mut raw: Raw = server.raw().await;
        raw.greet().await;
        let whole = request(1, &[7; 200]);
        raw.say(&whole[..cut]).await;
        drop(raw);
        server.works(&*steady).await;
    }
    assert_eq!(server.refused(), 0);
}

/// It goes on sending and reads late: what it is owed at a shutdown must not be lost to a reset.
#[tokio::test]
async fn a_slow_reader_gets_what_it_is_owed_at_a_shutdown() {
    const COUNT: u64 = 4;
    let mut server = TestServer::new().await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut raw = Raw(socket.connect(server.address()).await.unwrap());
    raw.greet().await;
    let mut held = Vec::new();
    for id in 0..COUNT {
        raw.say(&request(id, b"much, please")).await;
        held.push(server.next().await);
    }
    let ending = server.server.control.shutdown(crate::support::SOON);
    let reading = async {
        for request in held {
            request.reply.send(vec![0; 1 << 20].into()).unwrap();
        }
        let mut heard = 0;
        loop {
            // Whoever has closed its socket already answers this with a reset.
            let _ = raw.0.write_all(&frame(PING_FRAME, &[])).await;
            Clock.pause(PING / 20).await;
            let Some((kind, body)) = raw.hear_more().await else {
                break;
            };
            let reply = (kind, number(&body), body.len());
            assert_eq!(reply, (REPLY, heard, 8 + (1 << 20)));
            heard += 1;
        }
        assert_eq!(heard, COUNT);
        drop(raw);
    };
    let (ended, ()) = tokio::join!(ending, reading);
    ended.unwrap();
}
