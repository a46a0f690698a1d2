//! What a network does to a link: death without a word, loss, another address.

use crate::support::{
    Host, PING, TEST_TIMEOUT, ask, client, context, counted_client, limits, next, relay, subscribe,
};
use bytes::Bytes;
use saline_protocol::transport::{Clock, Delivery, Endpoint, ErrorKind, Metric, Transport};
use saline_quic::Quic;

/// Three times what is promised, two pings: this machine may be busy.
const NOTICED: std::time::Duration = PING.saturating_mul(2 * 3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_notice_within_two_pings_that_the_other_is_gone() {
    let host = Host::start().await;
    let relay = relay(host.address()).await;
    let (client, counters) = counted_client(relay.address().unwrap()).await;
    let mut listener = subscribe(&client, "t").await;
    // Longer than a link lives without a ping.
    Clock.pause(PING * 4).await;
    assert_eq!(
        counters.get(Metric::Disconnected),
        0,
        "an idle link was lost"
    );
    relay.set(|now| now.black_hole = true);
    let gone = Clock.now();
    let asking = ask(&client, "into the void");
    let lost = asking.await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::ConnectionLost, "{lost}");
    assert_eq!(next(&mut listener).await, Delivery::Disconnected);
    assert!(
        gone.elapsed() <= NOTICED,
        "the client: {:?}",
        gone.elapsed()
    );
    while host.counters.get(Metric::Disconnected) == 0 {
        assert!(
            gone.elapsed() <= NOTICED,
            "the server: {:?}",
            gone.elapsed()
        );
        Clock.pause(PING / 40).await;
    }
    assert_eq!(host.publisher.subscriptions(&"t".parse().unwrap()), 0);
    relay.clear();
    assert_eq!(next(&mut listener).await, Delivery::Connected);
    host.publish("t", "again").await;
    let expected = Bytes::from("again");
    assert!(
        matches!(next(&mut listener).await, Delivery::Message { payload, .. } if payload == expected)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_link_that_dies_is_noticed_too() {
    let host = Host::start().await;
    let relay = relay(host.address()).await;
    let client = client(relay.address().unwrap()).await;
    let mut listener = subscribe(&client, "t").await;
    relay.set(|now| now.black_hole = true);
    let gone = Clock.now();
    assert_eq!(next(&mut listener).await, Delivery::Disconnected);
    assert!(gone.elapsed() <= NOTICED, "{:?}", gone.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_survives_a_change_of_address() {
    let host = Host::start().await;
    let relay = relay(host.address()).await;
    let (client, counters) = counted_client(relay.address().unwrap()).await;
    let mut listener = subscribe(&client, "t").await;
    for round in 0..5u8 {
        relay.cut();
        assert_eq!(ask(&client, vec![round]).await.unwrap(), vec![round]);
        host.publish("t", vec![round]).await;
        let Delivery::Message { payload, .. } = next(&mut listener).await else {
            panic!("the link did not survive");
        };
        assert_eq!(payload, vec![round]);
    }
    assert_eq!(counters.get(Metric::Disconnected), 0);
    assert_eq!(host.counters.get(Metric::Connected), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_doubling_and_reordering_change_nothing() {
    let host = Host::start().await;
    let relay = relay(host.address()).await;
    let client = client(relay.address().unwrap()).await;
    let mut listener = subscribe(&client, "t").await;
    relay.set(|now| {
        (now.lost, now.doubled, now.reordered) = (30, 30, 100);
    });
    for n in 0..150u32 {
        // Every tenth publication and reply travels alone.
        let size = if n % 10 == 0 { 80_000 } else { 200 };
        let mut payload = n.to_be_bytes().to_vec();
        payload.resize(size, 7);
        host.publish(&format!("t/{}", n % 2), payload.clone()).await;
        assert_eq!(
            ask(&client, payload.clone()).await.unwrap(),
            payload,
            "reply {n}"
        );
    }
    let mut last = [None, None];
    for _ in 0..150 {
        let Delivery::Message { topic, payload } = next(&mut listener).await else {
            panic!("something else than a message");
        };
        let n = u32::from_be_bytes(payload[..4].try_into().unwrap());
        let side = (n % 2) as usize;
        assert_eq!(topic.as_str(), format!("t/{side}"));
        let expected = last[side].map_or(n % 2, |before: u32| before + 2);
        assert_eq!(n, expected, "the next publication on {topic}");
        last[side] = Some(n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_where_nobody_listens_is_known_at_once() {
    let host = Host::start().await;
    let address = host.address();
    host.control.shutdown(TEST_TIMEOUT).await.unwrap();
    let (context, _) = context(limits());
    let started = Clock.now();
    let endpoint = Endpoint::network("quic", address.into());
    let refused = Quic::new()
        .connect(&endpoint, context.clone())
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unreachable, "{refused}");
    assert!(
        started.elapsed() < limits().connect_timeout / 2,
        "{:?}",
        started.elapsed()
    );
    assert!(
        context.tracker.is_empty() || {
            Clock.pause(PING).await;
            context.tracker.is_empty()
        }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_end_delivers_what_is_large_too() {
    for _ in 0..5 {
        let host = Host::start().await;
        let client = client(host.address()).await;
        let mut listener = subscribe(&client, "t").await;
        let asking = ask(&client, vec![9; 6 << 20]);
        let ending = async {
            // The request is there as soon as somebody else's answer could be.
            ask(&client, "small").await.unwrap();
            for n in 0..4u8 {
                host.publish("t", vec![n; 2 << 20]).await;
            }
            host.control.shutdown(TEST_TIMEOUT).await.unwrap();
        };
        let (reply, ()) = tokio::join!(asking, ending);
        assert_eq!(reply.unwrap().len(), 6 << 20);
        for n in 0..4u8 {
            let Delivery::Message { payload, .. } = next(&mut listener).await else {
                panic!("publication {n} did not come");
            };
            assert_eq!((payload[0], payload.len()), (n, 2 << 20));
        }
        assert_eq!(next(&mut listener).await, Delivery::Disconnected);
    }
}
