//! Bursts of publications under several threads: every subscriber has each burst soon, though no ping wakes
//! a writer.

use std::time::Duration;

use crate::support::{SOON, TestServer, limits, loopback};
use bytes::Bytes;
use saline_protocol::transport::{Clock, Delivery, Topic, TopicFilter};
use tokio::task::JoinSet;

const SUBSCRIBERS: usize = 12;
const BURSTS: u64 = 300;

/// How many publications a burst has: one, a few, or more than a writer drains at once.
fn size_of_burst(burst: u64) -> u64 {
    [1, 2, 5, 40, 1, 300][(burst % 6) as usize]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn every_subscriber_has_every_burst_before_the_next_one() {
    let mut limits = limits();
    // Nobody is woken by a ping.
    limits.ping_interval = Duration::from_secs(600);
    let server = TestServer::with(loopback(0), limits).await.unwrap();
    let topic: Topic = "job/all".parse().unwrap();
    let deadline = Clock.after(SOON * 3);
    let (mut clients, mut subscribers) = (Vec::new(), Vec::new());
    for _ in 0..SUBSCRIBERS {
        let client = server.client().await;
        let filter = TopicFilter::Exact(topic.clone());
        let subscriber = client.subscribe(None, vec![filter], deadline).await;
        subscribers.push(subscriber.unwrap());
        clients.push(client);
    }
    let mut published = 0u64;
    for burst in 0..BURSTS {
        let first = published;
        for _ in 0..size_of_burst(burst) {
            let payload = Bytes::copy_from_slice(&published.to_le_bytes());
            let publisher = &server.server.publisher;
            publisher.publish(&topic, payload).await.unwrap();
            published += 1;
            if burst % 4 == 3 {
                tokio::task::yield_now().await;
            }
        }
        let mut reading = JoinSet::new();
        for mut subscriber in subscribers.drain(..) {
            reading.spawn(async move {
                for expected in first..published {
                    let Some(Delivery::Message { payload, .. }) = subscriber.next().await else {
                        panic!("no message {expected}");
                    };
                    assert_eq!(payload[..], expected.to_le_bytes());
                }
                subscriber
            });
        }
        let read = Clock.deadline(deadline, async {
            while let Some(subscriber) = reading.join_next().await {
                subscribers.push(subscriber.unwrap());
            }
        });
        assert!(read.await.is_ok(), "burst {burst} did not reach everybody");
    }
}
