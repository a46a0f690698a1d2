//! What a client does when its server is not as it should be.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    GREETING, PING, PING_FRAME, REPLY, REQUEST, Raw, SOON, TestServer, ask, connect, context,
    frame, greeting, limits, loopback, number, soon, transport,
};
use bytes::Bytes;
use saline_protocol::transport::{Client, Clock, Delivery, ErrorKind, Metric, TopicFilter};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Accepts a client and greets it.
async fn accept(listener: &TcpListener) -> Raw {
    let (stream, _) = soon(listener.accept()).await.unwrap();
    let mut raw = Raw(stream);
    assert_eq!(raw.hear().await.unwrap().0, GREETING);
    raw.say(&greeting()).await;
    raw
}

async fn pair() -> (TcpListener, Arc<dyn Client>, Raw) {
    let (listener, port) = listener().await;
    let at = loopback(port);
    let (client, raw) = tokio::join!(connect(&at), accept(&listener));
    (listener, client.unwrap(), raw)
}

fn spawn_ask(
    client: &Arc<dyn Client>,
    payload: impl Into<Bytes>,
    limit: Duration,
) -> tokio::task::JoinHandle<Result<Bytes, ErrorKind>> {
    let (client, payload) = (Arc::clone(client), payload.into());
    context(limits()).0.tracker.spawn(async move {
        let reply = client.request(payload, Clock.after(limit)).await;
        reply.map_err(|error| error.kind())
    })
}

/// More than the buffers between two sockets hold, in pieces of which a writer takes several at once.
const MANY: usize = 1000;

fn many(
    client: &Arc<dyn Client>,
    limit: Duration,
) -> Vec<tokio::task::JoinHandle<Result<Bytes, ErrorKind>>> {
    let payload = Bytes::from(vec![1; 20_000]);
    let ask = |_| spawn_ask(client, payload.clone(), limit);
    (0..MANY).map(ask).collect()
}

#[tokio::test]
async fn who_is_no_server_of_ours_is_unreachable() {
    let full = frame(2, &[]);
    let other_version = [&greeting()[..11], &[9, 9], &greeting()[13..]].concat();
    for said in [
        &b"SSH-2.0-OpenSSH\r\n"[..],
        &[0; 100],
        &full,
        &other_version,
        b"",
    ] {
        let (listener, port) = listener().await;
        let at = loopback(port);
        let answering = async {
            let (stream, _) = listener.accept().await.unwrap();
            Raw(stream).say(said).await;
        };
        let (client, ()) = tokio::join!(connect(&at), answering);
        assert_eq!(client.unwrap_err().kind(), ErrorKind::Unreachable);
    }
}

#[tokio::test]
async fn a_server_that_does_not_greet_costs_no_more_than_its_share_of_the_time() {
    let (silent, port) = listener().await;
    let server = TestServer::new().await;
    let mut both = loopback(port);
    if let (
        saline_protocol::transport::Address::Network { addresses, .. },
        saline_protocol::transport::Address::Network {
            addresses: more, ..
        },
    ) = (&mut both.address, &server.server.bound.requests.address)
    {
        addresses.extend(more.iter().cloned());
    }
    let client = soon(connect(&both)).await.unwrap();
    client.shutdown(SOON).await.unwrap();
    drop(silent);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_noticed_within_two_pings() {
    let (_listener, client, mut raw) = pair().await;
    let asking = spawn_ask(&client, "anybody", SOON);
    let since = Clock.now();
    assert_eq!(raw.hear_more().await.unwrap().0, REQUEST);
    assert_eq!(soon(asking).await.unwrap(), Err(ErrorKind::ConnectionLost));
    let took = Clock.now() - since;
    assert!(took > PING && took < PING * 6, "{took:?}");
    raw.is_cut().await;
}

#[tokio::test]
async fn a_server_that_breaks_the_protocol_is_left() {
    let (listener, client, mut raw) = pair().await;
    let mut subscriber = {
        let topic = "t".parse().unwrap();
        let filters = vec![TopicFilter::Exact(topic)];
        let subscribing = client.subscribe(None, filters, Clock.after(SOON));
        let confirming = async {
            let (_, body) = raw.hear_more().await.unwrap();
            raw.say(&frame(7, &body[..8])).await;
        };
        tokio::join!(subscribing, confirming).0.unwrap()
    };
    raw.say(&frame(REQUEST, &[0; 8])).await;
    assert_eq!(soon(subscriber.next()).await, Some(Delivery::Disconnected));
    // It comes back, asks for the same again, and says so when it is confirmed.
    let mut raw = accept(&listener).await;
    let (kind, body) = raw.hear_more().await.unwrap();
    assert_eq!(kind, crate::support::SUBSCRIBE);
    raw.say(&frame(7, &body[..8])).await;
    assert_eq!(soon(subscriber.next()).await, Some(Delivery::Connected));
}

/// Replies for nobody: to what was never asked, was answered, or is not sent yet.
#[tokio::test]
async fn replies_that_belong_to_nothing_are_ignored() {
    let (_listener, client, mut raw) = pair().await;
    for _ in 0..3 {
        let asking = spawn_ask(&client, "question", SOON);
        let (_, body) = raw.hear_more().await.unwrap();
        for id in [0, 1, number(&body) ^ 1 << 32, u64::MAX] {
            raw.say(&frame(REPLY, &[&id.to_le_bytes()[..], b"forged"].concat()))
                .await;
        }
        let reply = frame(REPLY, &[&body[..8], b"answer"].concat());
        raw.say(&[&reply[..], &reply].concat()).await;
        assert_eq!(soon(asking).await.unwrap().unwrap(), "answer");
    }
}

/// Requests count as sent from their first byte on: the others never run once they are given up.
#[tokio::test]
async fn what_no_byte_was_sent_of_is_taken_back() {
    let (_listener, client, mut raw) = pair().await;
    // Pings keep the link while nothing is read.
    let limit = PING * 3;
    let asked = many(&client, limit);
    let until = Clock.after(PING * 6);
    while Clock.now() < until {
        raw.say(&frame(PING_FRAME, &[])).await;
        Clock.pause(PING / 2).await;
    }
    let mut sent = 0;
    for asking in asked {
        match soon(asking).await.unwrap() {
            Err(ErrorKind::TimedOut) => sent += 1,
            Err(ErrorKind::Unreachable) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(sent > 0 && sent < MANY, "{sent} of {MANY} were sent");
    // Now it reads: what was begun comes to its end, and then a fresh request.
    let last = spawn_ask(&client, "last", SOON);
    let mut arrived = 0;
    loop {
        let (_, body) = raw.hear_more().await.unwrap();
        if &body[8..] == b"last" {
            break;
        }
        arrived += 1;
        raw.say(&frame(PING_FRAME, &[])).await;
    }
    assert_eq!(
        arrived, sent,
        "requests that arrived, of those that count as sent"
    );
    last.abort();
}

/// What waited behind a link that broke goes over the next one, once and in order.
#[tokio::test]
async fn what_was_not_sent_waits_for_the_next_link() {
    let (listener, client, mut silent) = pair().await;
    let asked = many(&client, SOON);
    // The first link is given up because nothing comes over it, and nothing is read from it before.
    let mut raw = accept(&listener).await;
    let answering = async {
        let mut answered = 0;
        while let Ok(Some((kind, body))) =
            Clock.deadline(Clock.after(PING * 3), raw.hear_more()).await
        {
            assert_eq!(kind, REQUEST);
            answered += 1;
            raw.say(&frame(REPLY, &body[..8])).await;
        }
        answered
    };
    let collecting = async {
        let (mut lost, mut replied) = (0, 0);
        for asking in asked {
            match soon(asking).await.unwrap() {
                Ok(_) => replied += 1,
                Err(ErrorKind::ConnectionLost) => {
                    assert_eq!(replied, 0, "one was lost behind one that was not sent");
                    lost += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        (lost, replied)
    };
    let (answered, (lost, replied)) = tokio::join!(answering, collecting);
    assert_eq!((answered, lost + replied), (replied, MANY));
    // What the first link carried, the last of it in part.
    let mut carried = Vec::new();
    soon(silent.0.read_to_end(&mut carried)).await.unwrap();
    let mut begun = 0;
    let mut rest = &carried[..];
    while !rest.is_empty() {
        let length = rest
            .first_chunk()
            .map_or(0, |length| u32::from_le_bytes(*length));
        begun += usize::from(rest.get(4).is_none_or(|kind| *kind == REQUEST));
        rest = rest.get(5 + length as usize..).unwrap_or_default();
    }
    assert_eq!(
        lost, begun,
        "requests that were lost, of those that were begun"
    );
    assert!(lost > 0 && lost < MANY, "{lost} of {MANY} were lost");
}

#[tokio::test]
async fn what_the_server_does_not_take_is_not_sent() {
    let mut small = limits();
    small.max_message = 1000;
    let mut server = TestServer::with(loopback(0), small).await.unwrap();
    let client = server.client().await;
    let outcome = ask(&*client, vec![0; 1001]).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::TooLarge);
    server.works(&*client).await;
    assert_eq!(server.refused(), 0);
}

/// The other way round: a client with smaller limits loses what it could not take, and is told.
#[tokio::test]
async fn what_the_client_does_not_take_is_told() {
    let mut server = TestServer::new().await;
    let mut small = limits();
    small.max_message = 1000;
    let (given, counters) = context(small);
    let connected = transport()
        .connect(&server.server.bound.requests, given)
        .await;
    let client = connected.unwrap();
    let topic: saline_protocol::transport::Topic = "t".parse().unwrap();
    let filters = vec![TopicFilter::Exact(topic.clone())];
    let mut subscriber = client
        .subscribe(None, filters, Clock.after(SOON))
        .await
        .unwrap();
    let publisher = Arc::clone(&server.server.publisher);
    publisher
        .publish(&topic, vec![0; 1001].into())
        .await
        .unwrap();
    publisher
        .publish(&topic, vec![0; 1000].into())
        .await
        .unwrap();
    use saline_protocol::transport::Lost;
    let lost = soon(subscriber.next()).await;
    assert_eq!(lost, Some(Delivery::Lagged(Lost::Messages(1))));
    assert!(matches!(
        soon(subscriber.next()).await,
        Some(Delivery::Message { .. })
    ));
    let (reply, ()) = tokio::join!(ask(&*client, "x"), async {
        let request = server.next().await;
        request.reply.send(vec![0; 1001].into()).unwrap();
    });
    assert_eq!(reply.unwrap_err().kind(), ErrorKind::NoReply);
    assert_eq!(counters.get(Metric::Disconnected), 0);
}
