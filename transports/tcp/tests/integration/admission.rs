//! Strangers under the limits before admission, and what the wire says of them.

use crate::support::{
    GREETING, PING, REPLY, SOON, SUBSCRIBED, SUBSCRIPTION_REFUSED, TestServer, frame, greeting,
    limits, loopback, request, subscription,
};
use saline_protocol::transport::{AdmissionLimits, Clock};
use tokio::io::AsyncWriteExt;

/// The frame that tells a client that it is admitted.
const ADMITTED: u8 = 13;

async fn server(change: impl FnOnce(&mut AdmissionLimits)) -> TestServer {
    let mut limits = limits();
    let mut admission = AdmissionLimits::default();
    change(&mut admission);
    limits.admission = Some(admission);
    TestServer::with(loopback(0), limits).await.unwrap()
}

/// A greeting that asks to be told of admission.
fn listening() -> Vec<u8> {
    let mut body = greeting().split_off(5);
    *body.last_mut().unwrap() = 1;
    body.extend_from_slice(&[1, 0, 0, 0]);
    frame(GREETING, &body)
}

#[tokio::test]
async fn a_client_is_told_the_limits_and_its_admission_if_it_listens() {
    let mut server = server(|limits| limits.max_message = 0x102).await;
    for listens in [true, false] {
        let mut raw = server.raw().await;
        raw.say(&if listens { listening() } else { greeting() })
            .await;
        let (kind, body) = raw.hear().await.unwrap();
        assert_eq!(kind, GREETING);
        let told = [2, 0, 12, 0, 2, 1, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0];
        assert_eq!(body[body.len() - 17..], [&[1][..], &told].concat());
        raw.say(&request(1, b"known")).await;
        let asked = server.next().await;
        assert!(server.server.control.admitted(asked.peer));
        assert!(server.server.control.admitted(asked.peer), "again");
        asked.reply.send("yes".into()).unwrap();
        if listens {
            assert_eq!(raw.hear_more().await, Some((ADMITTED, Vec::new())));
        }
        assert_eq!(raw.hear_more().await.unwrap().0, REPLY);
        // Larger than before.
        raw.say(&request(2, &[0; 0x103])).await;
        server.next().await.reply.send("yes".into()).unwrap();
        assert_eq!(raw.hear_more().await.unwrap().0, REPLY);
    }
    assert_eq!(server.refused(), 0);
}

/// When strangers hold too much of unfinished requests, those that hold no more than a handshake takes are not cut
/// for the others.
#[tokio::test]
async fn a_stranger_that_sends_little_is_not_cut_for_others() {
    const KIB: usize = 1024;
    let mut server = server(|limits| {
        limits.partial_bytes = 32 * KIB;
        limits.time = SOON;
    })
    .await;
    // Comes with all but the last byte of a request that is as large.
    let come = async |server: &TestServer, size: usize| {
        let mut raw = server.raw().await;
        raw.greet().await;
        let mut unfinished = request(1, &vec![b'x'; size]);
        unfinished.pop();
        // It may be cut in the middle.
        let _ = raw.0.write_all(&unfinished).await;
        raw
    };
    let holds = come(&server, 30 * KIB).await;
    let mut greedy = come(&server, 30 * KIB).await;
    greedy.is_cut().await;
    assert_eq!(server.refused(), 1);
    // Each of these is beyond what all may hold, and is served.
    let mut handshakes = Vec::new();
    for _ in 0..4 {
        handshakes.push(come(&server, 7 * KIB).await);
    }
    // The last is known to be there when one that came after it is cut.
    come(&server, 9 * KIB).await.is_cut().await;
    for handshake in &mut handshakes {
        handshake.say(b"x").await;
        let asked = server.next().await;
        assert_eq!(asked.payload.len(), 7 * KIB);
        asked.reply.send("yes".into()).unwrap();
        assert_eq!(handshake.hear_more().await.unwrap().0, REPLY);
    }
    assert_eq!(server.refused(), 2);
    drop(holds);
}

#[tokio::test]
async fn a_stranger_has_few_subscriptions() {
    let mut server = server(|limits| limits.subscriptions = 2).await;
    let mut raw = server.raw().await;
    raw.greet().await;
    raw.say(&subscription(1, &["a", "b"])).await;
    assert_eq!(raw.hear_more().await.unwrap().0, SUBSCRIBED);
    raw.say(&subscription(2, &["c"])).await;
    assert_eq!(raw.hear_more().await.unwrap().0, SUBSCRIPTION_REFUSED);
    raw.say(&request(1, b"known")).await;
    let asked = server.next().await;
    assert!(server.server.control.admitted(asked.peer));
    asked.reply.send("yes".into()).unwrap();
    assert_eq!(raw.hear_more().await.unwrap().0, REPLY);
    raw.say(&subscription(3, &["c"])).await;
    assert_eq!(raw.hear_more().await.unwrap().0, SUBSCRIBED);
}

/// However busy it is, and whatever the server waits for on its account.
#[tokio::test]
async fn a_stranger_that_asks_all_the_time_is_cut_all_the_same() {
    let time = PING * 5;
    let mut server = server(|limits| limits.time = time).await;
    let began = Clock.now();
    let mut raw = server.raw().await;
    raw.greet().await;
    let (mut from, mut to) = raw.0.into_split();
    let asking = async {
        let batch = (0..100)
            .flat_map(|id| request(id, b"?"))
            .collect::<Vec<_>>();
        while to.write_all(&batch).await.is_ok() {}
    };
    let reading = async { drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await) };
    let answering = async {
        loop {
            server.next().await.reply.send("!".into()).unwrap();
        }
    };
    tokio::select! {
        () = async { tokio::join!(asking, reading); } => {}
        () = answering => {}
        () = Clock.until(began + 3 * time) => panic!("it is not cut"),
    }
    assert!(Clock.now() >= began + time, "it was cut before its time");
    assert_eq!(server.refused(), 1);
}
