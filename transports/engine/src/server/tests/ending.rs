//! Publishing to connections that are behind, and the end of a server.

use std::sync::Arc;

use bytes::Bytes;
use saline_protocol::transport::{Departures, Limits, Metric, Requests, TopicFilter};
use tokio_util::sync::CancellationToken;

use super::{Bare, soon};
use crate::server::requests::EngineRequests;
use crate::wire::PublicationFrame;

#[tokio::test(start_paused = true)]
async fn what_a_subscription_loses_is_counted() {
    let mut limits = Limits::default();
    limits.subscriber_queue_messages = 2;
    let server = Bare::new(limits);
    server.connect(1);
    let filters = vec![TopicFilter::Exact("t".parse().unwrap())];
    server.core.hub().subscribe(1, 1, filters, 1).unwrap();
    let topic = "t".parse().unwrap();
    let publication = PublicationFrame::new(&topic, Bytes::new());
    for lost in [0, 0, 1, 2] {
        assert!(server.core.publish(&topic, &publication).is_some());
        assert_eq!(server.count(Metric::Lost), lost);
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_last_task_is_gone_nobody_waits_any_more() {
    let mut server = Bare::new(Limits::default());
    let connection = server.connect(1);
    let alive = Arc::new(CancellationToken::new().drop_guard());
    let mut requests = EngineRequests::new(Arc::clone(&server.core), alive);
    drop(server.open());
    assert!(connection.is_closed() && connection.closed.is_cancelled());
    assert!(soon(requests.next()).await.is_none());
    assert!(soon(server.departed.next()).await.is_none());
    let topic = "t".parse().unwrap();
    let publication = PublicationFrame::new(&topic, Bytes::new());
    assert!(server.core.publish(&topic, &publication).is_none());
    soon(server.core.empty()).await;
}
