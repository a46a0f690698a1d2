//! Publications: subscribed means subscribed, and a loss is told.

use std::time::Duration;

use crate::support::*;
use saline_protocol::transport::{
    Clock, Delivery, ErrorKind, Lost, Metric, Publisher, Topic, TopicFilter,
};

fn topic(text: &str) -> Topic {
    text.parse().unwrap()
}

async fn publish(publisher: &dyn Publisher, on: &str, text: &str) {
    let payload = text.to_owned().into();
    soon(publisher.publish(&topic(on), payload)).await.unwrap();
}

#[tokio::test]
async fn a_publication_arrives_at_once_after_subscribing() {
    let host = TestServer::new().await;
    let client = host.client().await;
    for round in 0..200 {
        let mut subscriber = host.subscribe(&client, exact("job/all")).await;
        let text = round.to_string();
        publish(&*host.server.publisher, "job/all", &text).await;
        assert_eq!(next_text(&mut subscriber).await, ("job/all".into(), text));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_the_first_publication_after_connected_arrives() {
    let mut host = TestServer::new().await;
    let client = host.client().await;
    let at = host.server.bound.clone();
    let mut subscriber = host.subscribe(&client, prefix("job")).await;
    for round in 0..5 {
        publish(&*host.server.publisher, "job/all", "before").await;
        assert_eq!(next_text(&mut subscriber).await.1, "before");
        host = restart(host, at.clone()).await;
        assert_eq!(next(&mut subscriber).await, Delivery::Disconnected);
        assert_eq!(next(&mut subscriber).await, Delivery::Connected);
        let text = format!("after {round}");
        publish(&*host.server.publisher, "job/all", &text).await;
        assert_eq!(next_text(&mut subscriber).await.1, text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_is_kept_and_nothing_comes_twice() {
    let host = TestServer::new().await;
    let client = host.client().await;
    let mut subscriber = host.subscribe(&client, prefix("t")).await;
    let publisher = host.server.publisher.clone();
    const EACH: u64 = 2000;
    let publishing = spawn(async move {
        for number in 0..EACH {
            for name in ["t/a", "t/b", "t/c/d"] {
                publish(&*publisher, name, &number.to_string()).await;
            }
        }
    });
    let mut next_of = std::collections::HashMap::new();
    let (mut received, mut lost) = (0, 0);
    while received + lost < 3 * EACH {
        match next(&mut subscriber).await {
            Delivery::Message { topic, payload } => {
                let number: u64 = String::from_utf8(payload.to_vec())
                    .unwrap()
                    .parse()
                    .unwrap();
                let expected = next_of.entry(topic).or_insert(0);
                assert!(number >= *expected, "{number} after {expected}");
                *expected = number + 1;
                received += 1;
            }
            Delivery::Lagged(Lost::Messages(n)) => lost += n,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        received + lost,
        3 * EACH,
        "every message is received or counted"
    );
    soon(publishing).await.unwrap();
}

#[tokio::test]
async fn a_prefix_takes_whole_segments_and_an_exact_topic_no_more() {
    let host = TestServer::new().await;
    let client = host.client().await;
    let mut prefixed = host.subscribe(&client, prefix("a/b")).await;
    let mut exactly = host.subscribe(&client, exact("a/b")).await;
    let filters = vec![prefix("a"), exact("a/b"), prefix("a/b"), exact("z")];
    let mut several = client
        .subscribe(Some(host.publications()), filters, Clock.after(SOON))
        .await
        .unwrap();
    let all = [
        "a",
        "a/b",
        "a/bc",
        "a/b/c",
        "a/b/c/d/e/f/g/h",
        "b",
        "z",
        "z/y",
    ];
    for name in all {
        publish(&*host.server.publisher, name, "x").await;
    }
    for name in ["a/b", "a/b/c", "a/b/c/d/e/f/g/h"] {
        assert_eq!(next_text(&mut prefixed).await.0, name);
    }
    assert_eq!(next_text(&mut exactly).await.0, "a/b");
    for name in ["a", "a/b", "a/bc", "a/b/c", "a/b/c/d/e/f/g/h", "z"] {
        assert_eq!(next_text(&mut several).await.0, name);
    }
    publish(&*host.server.publisher, "a/b", "end").await;
    for subscriber in [&mut prefixed, &mut exactly, &mut several] {
        assert_eq!(next_text(subscriber).await, ("a/b".into(), "end".into()));
    }
}

#[tokio::test]
async fn subscriptions_are_counted() {
    let host = TestServer::new().await;
    let client = host.client().await;
    let count = |name: &str| host.server.publisher.subscriptions(&topic(name));
    assert_eq!(count("a/b"), 0);
    let first = host.subscribe(&client, prefix("a")).await;
    let second = host.subscribe(&client, exact("a/b")).await;
    let third = host.subscribe(&client, exact("a/b")).await;
    assert_eq!(
        (count("a"), count("a/b"), count("a/b/c"), count("b")),
        (1, 3, 1, 0)
    );
    drop(second);
    until(|| count("a/b") == 2).await;
    soon(client.shutdown(SOON)).await.unwrap();
    until(|| count("a/b") == 0).await;
    drop((first, third));
}

#[tokio::test]
async fn sizes_up_to_the_limit_pass_and_one_byte_more_does_not() {
    let host = TestServer::new().await;
    let client = host.client().await;
    let mut subscriber = host.subscribe(&client, exact("t")).await;
    let (limit, t) = (limits().max_message, topic("t"));
    for size in [0, 1, 500, 512, 4096, 4097, 65_536, limit - 1, limit] {
        let payload = vec![9; size];
        let publishing = host.server.publisher.publish(&t, payload.clone().into());
        soon(publishing).await.unwrap();
        match next(&mut subscriber).await {
            Delivery::Message { payload: got, .. } => assert_eq!(got, payload),
            other => panic!("{size}: {other:?}"),
        }
    }
    let publishing = host.server.publisher.publish(&t, vec![0; limit + 1].into());
    assert_eq!(publishing.await.unwrap_err().kind(), ErrorKind::TooLarge);
}

/// A subscriber that does not read loses messages, alone, and is told how many; the fast one beside
/// it gets all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_subscriber_loses_alone_and_is_told_also_of_the_last_message() {
    let host = TestServer::new().await;
    let client = host.client().await;
    let mut slow = host.subscribe(&client, exact("t")).await;
    let mut fast = host.subscribe(&client, exact("t")).await;
    const ALL: u64 = 3000;
    for number in 0..ALL {
        publish(&*host.server.publisher, "t", &number.to_string()).await;
        assert_eq!(next_text(&mut fast).await.1, number.to_string());
    }
    let mut seen = 0;
    let mut lost = 0;
    while seen + lost < ALL {
        match next(&mut slow).await {
            Delivery::Message { .. } => seen += 1,
            Delivery::Lagged(Lost::Messages(n)) => lost += n,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen + lost, ALL);
    assert!(lost > 0 && seen >= 1024, "{seen} received, {lost} lost");
}

/// The one loss that no later message reveals: the publisher's queue for a subscriber whose
/// connection is stuck overflows, and nothing is published afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_last_message_is_told_within_two_pings() {
    let ping = Duration::from_secs(2);
    let mut few = limits();
    few.subscriber_queue_messages = 16;
    // Longer than the connection is stuck: it would be cut else.
    few.ping_interval = ping;
    let host = TestServer::with(transport(), anywhere(), few).await;
    let gate = Gate::to(host.publications().port().unwrap()).await;
    // Patient, so that it does not take the silence of the stuck connection for a dead server.
    let mut patient = limits();
    patient.ping_interval = Duration::from_secs(10);
    let (patient, _) = context_with(patient);
    let at = &host.server.bound.requests;
    let client = host.transport.connect(at, patient).await.unwrap();
    let through = loopback(gate.port);
    let mut stuck = soon(client.subscribe(Some(&through), vec![exact("t")], Clock.after(SOON)))
        .await
        .unwrap();
    let mut fast = host.subscribe(&client, exact("t")).await;
    gate.close();
    let (payload, t) = (vec![1u8; 256 << 10], topic("t"));
    const ALL: u64 = 200;
    for _ in 0..ALL {
        let publishing = host.server.publisher.publish(&t, payload.clone().into());
        soon(publishing).await.unwrap();
        match next(&mut fast).await {
            Delivery::Message { .. } => {}
            other => panic!("the fast one must not lose: {other:?}"),
        }
    }
    gate.open();
    let opened = Clock.now();
    let (mut seen, mut lost) = (0, 0);
    while seen + lost < ALL {
        match next(&mut stuck).await {
            Delivery::Message { .. } => seen += 1,
            Delivery::Lagged(Lost::Messages(n)) => lost += n,
            other => panic!("{other:?} after {seen} messages and {lost} lost"),
        }
    }
    assert_eq!(seen + lost, ALL);
    assert!(lost > 0, "the connection was never full");
    assert!(
        Clock.now() - opened < ping * 2,
        "told after {:?}",
        Clock.now() - opened
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_is_noticed_within_two_pings() {
    let mut host = TestServer::new().await;
    let gate = Gate::to(host.server.bound.requests.port().unwrap()).await;
    let subscriptions = Gate::to(host.publications().port().unwrap()).await;
    let through = loopback(gate.port);
    // Long enough that a busy test machine does not count.
    let ping = Duration::from_secs(1);
    let mut slow_ping = limits();
    slow_ping.ping_interval = ping;
    let (own, counters) = context_with(slow_ping);
    let client = soon(host.transport.connect(&through, own)).await.unwrap();
    let at = loopback(subscriptions.port);
    let mut subscriber = soon(client.subscribe(Some(&at), vec![exact("t")], Clock.after(SOON)))
        .await
        .unwrap();
    let asking = {
        let client = client.clone();
        spawn(async move { ask(&client, "x").await })
    };
    let held = soon(host.server.requests.next()).await.unwrap();
    gate.close();
    subscriptions.close();
    let closed = Clock.now();
    let error = soon(asking).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLost);
    assert_eq!(next(&mut subscriber).await, Delivery::Disconnected);
    let noticed = Clock.now() - closed;
    assert!(noticed < ping * 5 / 2, "noticed after {noticed:?}");
    drop(held);
    gate.open();
    subscriptions.open();
    assert_eq!(next(&mut subscriber).await, Delivery::Connected);
    publish(&*host.server.publisher, "t", "again").await;
    assert_eq!(next_text(&mut subscriber).await.1, "again");
    host.echo();
    assert_eq!(ask(&client, "y").await.unwrap(), "y");
    assert!(counters.get(Metric::Disconnected) >= 2);
}

#[tokio::test]
async fn what_cannot_be_subscribed_to_is_said() {
    let host = TestServer::new().await;
    let client = host.client().await;
    let deadline = Clock.after(Duration::from_millis(300));
    // The port for requests speaks ZeroMQ, and confirms no subscription.
    let wrong = host.server.bound.requests.clone();
    let error = soon(client.subscribe(Some(&wrong), vec![exact("t")], deadline))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    for (at, topics) in [
        (None, vec![exact("t")]),
        (Some(host.publications()), vec![]),
    ] {
        let error = client.subscribe(at, topics, deadline).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }
}

#[tokio::test]
async fn a_thousand_filters_are_confirmed() {
    let host = TestServer::new().await;
    let client = host.client().await;
    let filters: Vec<TopicFilter> = (0..1024).map(|n| exact(&format!("m/{n}"))).collect();
    let at = Some(host.publications());
    let mut subscriber = soon(client.subscribe(at, filters, Clock.after(SOON)))
        .await
        .unwrap();
    for number in [0, 511, 1023] {
        publish(&*host.server.publisher, &format!("m/{number}"), "x").await;
        assert_eq!(next_text(&mut subscriber).await.0, format!("m/{number}"));
    }
}
