//! Requests: exactly one outcome each, whatever happens to the link.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use bytes::Bytes;
use saline_protocol::transport::{Clock, ErrorKind, Metric, Request};

#[tokio::test]
async fn a_request_is_answered() {
    let mut host = TestServer::new().await;
    host.echo();
    let client = host.client().await;
    assert_eq!(ask(&client, "hello").await.unwrap(), "hello");
    assert_eq!(ask(&client, "").await.unwrap(), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_256_concurrent_requests_gets_its_own_reply() {
    let mut host = TestServer::new().await;
    host.echo();
    let client = host.client().await;
    let tasks: Vec<_> = (0..256u32)
        .map(|caller| {
            let client = client.clone();
            spawn(async move {
                for round in 0..20u32 {
                    let text = format!("{caller}/{round}");
                    assert_eq!(ask(&client, text.clone()).await.unwrap(), text);
                }
            })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
}

#[tokio::test]
async fn requests_come_in_the_order_in_which_they_were_made() {
    let mut host = TestServer::new().await;
    let client = host.client().await;
    let asking: Vec<_> = (0..100u32)
        .map(|number| {
            let client = client.clone();
            spawn(async move { ask(&client, number.to_le_bytes().to_vec()).await })
        })
        .collect();
    let mut replies = Vec::new();
    for expected in 0..100u32 {
        let Request { payload, reply, .. } = soon(host.server.requests.next()).await.unwrap();
        assert_eq!(payload, expected.to_le_bytes()[..]);
        replies.push((payload, reply));
    }
    // Answered in another order, each still reaches its own caller.
    for (payload, reply) in replies.into_iter().rev() {
        reply.send(payload).unwrap();
    }
    for (number, asked) in asking.into_iter().enumerate() {
        assert_eq!(
            soon(asked).await.unwrap().unwrap(),
            (number as u32).to_le_bytes()[..]
        );
    }
}

#[tokio::test]
async fn a_dropped_reply_is_told_at_once() {
    let mut host = TestServer::new().await;
    let client = host.client().await;
    let asking = spawn(async move { ask(&client, "x").await });
    drop(soon(host.server.requests.next()).await.unwrap());
    assert_eq!(
        soon(asking).await.unwrap().unwrap_err().kind(),
        ErrorKind::NoReply
    );
}

#[tokio::test]
async fn a_server_whose_requests_nobody_takes_says_so() {
    let mut host = TestServer::new().await;
    host.echo().abort();
    let client = host.client().await;
    assert_eq!(
        ask(&client, "x").await.unwrap_err().kind(),
        ErrorKind::NoReply
    );
}

#[tokio::test]
async fn a_deadline_passes_and_the_late_reply_is_nobody_s() {
    let mut host = TestServer::new().await;
    let client = host.client().await;
    // Time for it to arrive.
    let deadline = Clock.after(Duration::from_millis(500));
    let error = soon(client.request("slow".into(), deadline))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let late = soon(host.server.requests.next()).await.unwrap();
    late.reply.send("late".into()).unwrap();
    host.echo();
    assert_eq!(ask(&client, "next").await.unwrap(), "next");
}

#[tokio::test]
async fn sizes_up_to_the_limit_pass_both_ways_and_one_byte_more_does_not() {
    let mut host = TestServer::new().await;
    let client = host.client().await;
    let limit = limits().max_message;
    let mut requests = std::mem::replace(&mut host.server.requests, Box::new(NoRequests));
    // Answers with as many bytes as the first eight say; tells what became of the reply.
    let answering = spawn(async move {
        let mut refused = 0;
        while let Some(Request { payload, reply, .. }) = requests.next().await {
            let size = u64::from_le_bytes(*payload.first_chunk().unwrap()) as usize;
            if let Err(error) = reply.send(vec![7; size].into()) {
                assert_eq!(error.kind(), ErrorKind::TooLarge);
                refused += 1;
            }
        }
        refused
    });
    let asked = |size: usize, back: usize| {
        let mut payload = (back as u64).to_le_bytes().to_vec();
        payload.resize(size.max(8), 0);
        ask(&client, payload)
    };
    for size in [
        0,
        1,
        500,
        512,
        513,
        4085,
        4096,
        8192,
        // Parts of requests have 65,536 bytes.
        65_535,
        65_536,
        65_537,
        131_072,
        131_073,
        limit - 1,
        limit,
    ] {
        assert_eq!(asked(size, size).await.unwrap(), vec![7; size], "{size}");
    }
    let error = asked(limit + 1, 0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let error = asked(8, limit + 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoReply);
    assert_eq!(asked(8, 1).await.unwrap(), vec![7]);
    soon(host.server.control.shutdown(SOON)).await.unwrap();
    assert_eq!(soon(answering).await.unwrap(), 1);
}

#[tokio::test]
async fn a_large_request_that_is_given_up_half_way_reaches_no_handler() {
    let mut limits = limits();
    limits.max_message = 64 << 20;
    limits.requests_unanswered = 1;
    let mut host = TestServer::with(transport(), anywhere(), limits.clone()).await;
    let (context, _) = context_with(limits);
    let endpoint = &host.server.bound.requests;
    let client = host.transport.connect(endpoint, context).await.unwrap();
    let first = Arc::clone(&client);
    let first = spawn(async move { ask(&first, "first").await });
    let first_request = soon(host.server.requests.next()).await.unwrap();
    // The server reads nothing more, and there is no room for all of it on the way.
    let deadline = Clock.after(Duration::from_millis(500));
    let error = soon(client.request(vec![1; 64 << 20].into(), deadline))
        .await
        .unwrap_err();
    // Its end was not sent, so it cannot have run.
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    first_request.reply.send("answer".into()).unwrap();
    assert_eq!(soon(first).await.unwrap().unwrap(), "answer");
    let large = vec![2; 3 << 20];
    let (next, asked) = (Arc::clone(&client), large.clone());
    let next = spawn(async move { ask(&next, asked).await });
    let request = soon(host.server.requests.next()).await.unwrap();
    assert_eq!(request.payload, large);
    request.reply.send("next".into()).unwrap();
    assert_eq!(soon(next).await.unwrap().unwrap(), "next");
}

#[tokio::test]
async fn a_server_with_a_lower_limit_cuts_the_request_short_of_its_handler() {
    let mut host = TestServer::new().await;
    host.echo();
    let mut generous = limits();
    generous.max_message *= 4;
    let (context, _) = context_with(generous);
    let client = host
        .transport
        .connect(&host.server.bound.requests, context)
        .await
        .unwrap();
    for size in [(1 << 20) + 1, 3 << 20] {
        let error = ask(&client, vec![0; size]).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NoReply | ErrorKind::ConnectionLost),
            "{error}"
        );
    }
    assert_eq!(ask(&client, "x").await.unwrap(), "x");
}

#[tokio::test]
async fn an_absent_server_is_unreachable_at_once() {
    let host = TestServer::new().await;
    let gone = host.server.bound.requests.clone();
    soon(host.server.control.shutdown(SOON)).await.unwrap();
    let before = Clock.now();
    let error = host.transport.connect(&gone, context()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(Clock.now() - before < limits().connect_timeout);
}

#[tokio::test]
async fn a_listener_that_says_nothing_is_unreachable_after_the_time_out() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = loopback(silent.local_addr().unwrap().port());
    let mut limits = limits();
    limits.connect_timeout = Duration::from_millis(300);
    let before = Clock.now();
    let error = soon(transport().connect(&endpoint, context_with(limits).0))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(Clock.now() - before < Duration::from_secs(2));
}

#[tokio::test]
async fn the_first_address_that_answers_is_taken_and_names_are_resolved() {
    let mut host = TestServer::new().await;
    host.echo();
    let port = host.server.bound.requests.port().unwrap();
    let refusing = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = refusing.local_addr().unwrap().port();
    drop(refusing);
    let mut endpoint = loopback(nobody);
    if let saline_protocol::transport::Address::Network { addresses, .. } = &mut endpoint.address {
        addresses.push(saline_protocol::transport::HostPort::new("localhost", port));
    }
    let client = soon(host.transport.connect(&endpoint, context()))
        .await
        .unwrap();
    assert_eq!(ask(&client, "x").await.unwrap(), "x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_requests_in_flight_are_lost_and_none_runs_twice() {
    let mut host = TestServer::new().await;
    let client = host.client().await;
    let at = host.server.bound.clone();
    let mut seen: HashMap<Bytes, u32> = HashMap::new();
    for round in 0..5 {
        let asking: Vec<_> = (0..32)
            .map(|number| {
                let client = client.clone();
                let text = format!("{round}/{number}");
                spawn(async move { ask(&client, text).await })
            })
            .collect();
        let mut held = Vec::new();
        for _ in 0..32 {
            let request = soon(host.server.requests.next()).await.unwrap();
            *seen.entry(request.payload.clone()).or_default() += 1;
            held.push(request);
        }
        let before = Clock.now();
        // As if the process had died: nothing is answered any more.
        host.context.cancel.cancel();
        for asked in asking {
            let error = soon(asked).await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionLost);
        }
        assert!(Clock.now() - before < SOON / 4, "told at once");
        drop(held);
        until(|| host.context.tracker.is_empty()).await;
        host = restart(host, at.clone()).await;
        // The same client works on, and what waited for the link was not lost.
        let later = {
            let client = client.clone();
            spawn(async move { ask(&client, format!("later {round}")).await })
        };
        let request = soon(host.server.requests.next()).await.unwrap();
        *seen.entry(request.payload.clone()).or_default() += 1;
        request.reply.send("done".into()).unwrap();
        assert_eq!(soon(later).await.unwrap().unwrap(), "done");
    }
    assert_eq!(seen.len(), 5 * 33);
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
}

#[tokio::test]
async fn while_the_link_is_down_requests_wait_and_cancelled_ones_never_run() {
    let mut host = TestServer::new().await;
    let (own, counters) = context_with(limits());
    let at = host.server.bound.clone();
    let client = host.transport.connect(&at.requests, own).await.unwrap();
    soon(host.server.control.shutdown(SOON)).await.unwrap();
    until(|| counters.get(Metric::Disconnected) == 1).await;

    // Not sent before its deadline: it did not run.
    let deadline = Clock.after(Duration::from_millis(100));
    let error = soon(client.request("never".into(), deadline))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    // Given up by its caller: neither.
    let waiting = client.request("given up".into(), Clock.after(SOON));
    let brief = Clock.after(Duration::from_millis(20));
    assert!(Clock.deadline(brief, waiting).await.is_err());
    let kept = {
        let client = client.clone();
        spawn(async move { ask(&client, "kept").await })
    };

    host = restart(host, at).await;
    let request = soon(host.server.requests.next()).await.unwrap();
    assert_eq!(request.payload, "kept");
    request.reply.send("done".into()).unwrap();
    assert_eq!(soon(kept).await.unwrap().unwrap(), "done");
    let after = {
        let client = client.clone();
        spawn(async move { ask(&client, "after").await })
    };
    assert_eq!(
        soon(host.server.requests.next()).await.unwrap().payload,
        "after"
    );
    after.abort();
}

#[tokio::test]
async fn futures_that_are_dropped_leave_nothing_behind() {
    let mut host = TestServer::new().await;
    let client = host.client().await;
    let mut counting = host.echo();
    for round in 0..2000u32 {
        let request = client.request(round.to_le_bytes().to_vec().into(), Clock.after(SOON));
        // Polled once, so that it is queued or even sent.
        let _ = Clock.deadline(Clock.now(), request).await;
    }
    for _ in 0..10 {
        assert_eq!(ask(&client, "x").await.unwrap(), "x");
    }
    // 1,024 permits and as many places: had they leaked, this would never have come so far.
    soon(client.shutdown(SOON)).await.unwrap();
    soon(host.server.control.shutdown(SOON)).await.unwrap();
    assert!(soon(&mut counting).await.unwrap() >= 10);
}

#[tokio::test]
async fn a_full_server_hands_out_no_more_and_keeps_its_clients() {
    let mut few = with_short_pings();
    few.requests_unanswered = 4;
    let mut host = TestServer::with(transport(), anywhere(), few).await;
    let (hurried, _) = context_with(with_short_pings());
    let at = &host.server.bound.requests;
    let client = soon(host.transport.connect(at, hurried)).await.unwrap();
    let asking: Vec<_> = (0..12)
        .map(|_| {
            let client = client.clone();
            spawn(async move { ask(&client, "x").await })
        })
        .collect();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(soon(host.server.requests.next()).await.unwrap());
    }
    // Longer than a silent server would be believed to be alive.
    let more = Clock
        .deadline(Clock.after(SHORT_PING * 5), host.server.requests.next())
        .await;
    assert!(more.is_err(), "the fifth request was handed out");
    for request in held {
        request.reply.send("y".into()).unwrap();
    }
    for _ in 0..8 {
        soon(host.server.requests.next())
            .await
            .unwrap()
            .reply
            .send("y".into())
            .unwrap();
    }
    for asked in asking {
        assert_eq!(soon(asked).await.unwrap().unwrap(), "y");
    }
}

#[tokio::test]
async fn connections_above_the_limit_are_turned_away_until_there_is_room() {
    let mut two = limits();
    two.connections = 2;
    let mut host = TestServer::with(transport(), anywhere(), two).await;
    host.echo();
    let (first, second) = (host.client().await, host.client().await);
    let third = host
        .transport
        .connect(&host.server.bound.requests, context());
    assert_eq!(third.await.unwrap_err().kind(), ErrorKind::Unreachable);
    soon(second.shutdown(SOON)).await.unwrap();
    let third = soon(async {
        loop {
            let third = host
                .transport
                .connect(&host.server.bound.requests, context());
            if let Ok(third) = third.await {
                break third;
            }
            Clock.pause(SHORT_PING / 10).await;
        }
    });
    assert_eq!(ask(&third.await, "x").await.unwrap(), "x");
    assert_eq!(ask(&first, "x").await.unwrap(), "x");
    assert!(host.counters.get(Metric::PeersRefused) > 0);
}

#[tokio::test]
async fn every_connection_is_a_peer_of_its_own_with_an_address() {
    let mut host = TestServer::new().await;
    let mut peers = HashSet::new();
    for _ in 0..3 {
        let client = host.client().await;
        let asking = spawn(async move { ask(&client, "x").await.map(|_| client) });
        let request = soon(host.server.requests.next()).await.unwrap();
        let address = request.peer.address.expect("a tcp peer has an address");
        assert!(address.ip().is_loopback() && address.port() != 0);
        assert!(peers.insert(request.peer));
        request.reply.send("y".into()).unwrap();
        soon(asking).await.unwrap().unwrap();
    }
}

/// A message that takes much longer than two pings is not taken for silence, in either direction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_link_carries_large_messages() {
    let mut host = TestServer::with(transport(), anywhere(), with_short_pings()).await;
    host.echo();
    let target = host.server.bound.requests.port().unwrap();
    // 16 KiB in 40 ms: a MiB takes 2.6 s each way, and two pings are 1 s.
    let gate = Gate::with_pause(target, Duration::from_millis(40)).await;
    let (own, counters) = context_with(with_short_pings());
    let at = loopback(gate.port);
    let client = soon(host.transport.connect(&at, own)).await.unwrap();
    let before = Clock.now();
    let payload = vec![5; 1 << 20];
    assert_eq!(ask(&client, payload.clone()).await.unwrap(), payload);
    assert!(
        Clock.now() - before > SHORT_PING * 6,
        "the link was not slow"
    );
    assert_eq!(counters.get(Metric::Disconnected), 0);
}
