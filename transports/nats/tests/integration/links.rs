//! Links that break, and servers that come and go.

use std::sync::Arc;
use std::time::Duration;

use saline_nats::Nats;
use saline_protocol::transport::{
    Client, Clock, Endpoint, ErrorKind, HostPort, Options, Transport,
};
use saline_testing::NatsServer;

use crate::support::raw_client::RawClient;
use crate::support::{Host, TEST_TIMEOUT, ask, ask_until_answered, client, context, endpoint};

#[tokio::test]
async fn both_ends_dial_again_when_nats_comes_back() {
    let Some(mut server) = NatsServer::start("") else {
        return;
    };
    let host = Host::start(&server, &[]).await;
    let client = client(&server, &[]).await;
    assert_eq!(ask(&client, "before").await.unwrap(), "before");
    for _ in 0..2 {
        server.kill();
        server.start_again();
        assert_eq!(ask_until_answered(&client, "after").await, "after");
    }
    assert_eq!(host.refused(), 0);
}

#[tokio::test]
async fn a_name_is_served_once() {
    let Some(server) = NatsServer::start("") else {
        return;
    };
    let host = Host::start(&server, &[]).await;
    let second = Host::try_start(&server, &[], None).await.err().unwrap();
    assert_eq!(second.kind(), ErrorKind::Refused);
    assert!(second.to_string().contains("subject saline"), "{second}");
    let _elsewhere = Host::start(&server, &[("subject", "saline.other")]).await;
    drop(host);
}

#[tokio::test]
async fn of_several_servers_that_start_at_once_one_serves() {
    let Some(nodes) = NatsServer::cluster(2, "") else {
        return;
    };
    for round in 0..5 {
        let subject = format!("round-{round}");
        let section = [("subject", subject.as_str())];
        let start = |node: usize| Host::try_start(&nodes[node], &section, None);
        let started = tokio::join!(start(0), start(0), start(1), start(1));
        let started = [started.0, started.1, started.2, started.3];
        let serving = started.iter().filter(|one| one.is_ok()).count();
        assert_eq!(serving, 1, "round {round}");
    }
}

#[tokio::test]
async fn a_master_that_has_gone_is_noticed_without_a_ping() {
    let Some(server) = NatsServer::start("") else {
        return;
    };
    let host = Host::start(&server, &[]).await;
    let client = client(&server, &[]).await;
    assert_eq!(ask(&client, "before").await.unwrap(), "before");
    end(&host).await;
    notice_the_end(&client).await;
}

/// Ends a server.
async fn end(host: &Host) {
    host.context.cancel.cancel();
    host.context.tracker.close();
    host.context.tracker.wait().await;
}

/// Asks until the client knows that its server has ended. Pings are a minute apart: NATS says that nobody has subscribed any
/// more, once it has noticed the end itself.
async fn notice_the_end(client: &Arc<dyn Client>) {
    let until = Clock.after(TEST_TIMEOUT);
    loop {
        let deadline = Clock.after(Duration::from_millis(200));
        let error = client.request("nobody".into(), deadline).await.unwrap_err();
        if matches!(
            error.kind(),
            ErrorKind::ConnectionLost | ErrorKind::Unreachable
        ) {
            return;
        }
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(Clock.now() < until, "not noticed");
    }
}

#[tokio::test]
async fn clients_go_to_another_instance_when_it_says_that_it_serves() {
    let Some(server) = NatsServer::start("") else {
        return;
    };
    let host = Host::start(&server, &[]).await;
    let client = client(&server, &[]).await;
    assert_eq!(ask(&client, "one").await.unwrap(), "one");
    host.context.cancel.cancel();
    let began = Clock.now();
    let again = loop {
        match Host::try_start(&server, &[], None).await {
            Ok(again) => break again,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Refused, "{error}"),
        }
    };
    // The client has asked nothing meanwhile: it comes by itself, long before a ping.
    crate::support::eventually("the client comes", || {
        again
            .counters
            .get(saline_protocol::transport::Metric::Connected)
            == 1
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!(ask(&client, "two").await.unwrap(), "two");
}

#[tokio::test]
async fn each_link_without_an_answer_is_followed_by_one_that_is_kept_longer() {
    const FIRST: Duration = Duration::from_millis(200);
    let Some(server) = NatsServer::start("") else {
        return;
    };
    let host = Host::start(&server, &[]).await;
    let (mut context, _) = context();
    context.limits.connect_timeout = FIRST;
    let client = Nats::new()
        .connect(&endpoint(&server, &[]), context)
        .await
        .unwrap();
    assert_eq!(ask(&client, "before").await.unwrap(), "before");
    // Somebody hears the greetings and does not answer.
    let mut silent = RawClient::connect(server.address(), "", "").await;
    silent.subscribe("saline.hello.*").await;
    end(&host).await;
    notice_the_end(&client).await;
    let mut began = Vec::new();
    let mut last = String::new();
    while began.len() < 5 {
        silent.hear(" 23\r\n\u{1}").await;
        let id = silent.hear("\r\n").await;
        if id != last {
            began.push(Clock.now());
            last = id;
        }
    }
    for (doubled, pair) in began.windows(2).enumerate() {
        let kept = pair[1] - pair[0];
        // The first greeting came when the host was still there, or soon after.
        assert!(
            doubled == 0 || kept >= FIRST * (1 << doubled) / 2,
            "link {doubled} was kept for {kept:?}"
        );
    }
}

#[tokio::test]
async fn an_attempt_that_no_server_lets_in_is_followed_by_one_that_takes_longer() {
    const FIRST: Duration = Duration::from_millis(200);
    // Connections come into being, and nothing is said on them.
    let frozen = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = Options::check(Nats::new().options(), []).unwrap();
    let at = HostPort::from(frozen.local_addr().unwrap());
    let endpoint = Endpoint::network("nats", at).with_options(options);
    let transport = Nats::new();
    for doubled in 0..4 {
        let (mut context, _) = context();
        context.limits.connect_timeout = FIRST;
        let began = Clock.now();
        let refused = transport.connect(&endpoint, context).await.unwrap_err();
        let took = began.elapsed();
        assert_eq!(refused.kind(), ErrorKind::Unreachable, "{refused}");
        // A fifth of it is kept for the handshake.
        assert!(
            took >= FIRST * (1 << doubled) * 4 / 5,
            "attempt {doubled} took {took:?}"
        );
    }
}
