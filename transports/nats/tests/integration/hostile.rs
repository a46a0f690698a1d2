//! Strangers who have credentials.

use saline_protocol::transport::Clock;
use saline_testing::NatsServer;

use crate::support::raw_client::{RawClient, data, publication};
use crate::support::{Host, Section, ask, client, eventually};

/// Two users with permissions of their own, and a master.
const USERS: &str = r#"
authorization { users = [
  { user: master, password: pw }
  { user: web1, password: pw
    permissions: { publish: ["saline.hello.web1", "saline.up.web1.>"], subscribe: ["saline.down.web1.*", "saline.all"] } }
  { user: bad, password: pw
    permissions: { publish: ["saline.hello.bad", "saline.up.bad.>"], subscribe: ["saline.down.bad.*", "saline.all"] } }
] }
"#;

const AS_MASTER: Section<'static> = &[("user", "master"), ("password", "pw")];
const AS_WEB1: Section<'static> = &[("user", "web1"), ("password", "pw")];

const ID: &str = "abcdefghijklmnopqr-_AZ";

/// What cuts a connection: its kind, and no number.
const CUT: &str = "X\0\0\0\0\0\0\0\0";

/// Starts a server of NATS with these users, and a master on it; none where there is no nats-server.
async fn served() -> Option<(NatsServer, Host)> {
    let server = NatsServer::start(USERS)?;
    let host = Host::start(&server, AS_MASTER).await;
    Some((server, host))
}

/// Connects the user who means ill.
async fn stranger(server: &NatsServer) -> RawClient {
    RawClient::connect(server.address(), "bad", "pw").await
}

#[tokio::test]
async fn who_ignores_the_window_loses_that_connection_alone() {
    let Some((server, host)) = served().await else {
        return;
    };
    let web1 = client(&server, AS_WEB1).await;
    let mut bad = stranger(&server).await;
    let up = bad.open("bad", ID).await;
    let mut flood = Vec::new();
    for number in 0..64 {
        flood.extend(publication(&up, &data(number, &[b'x'; 16 * 1024])));
    }
    bad.say(&flood).await;
    bad.hear(CUT).await;
    assert_eq!(ask(&web1, "fine").await.unwrap(), "fine");
    eventually("it is counted", || host.refused() == 1).await;
}

#[tokio::test]
async fn who_repeats_or_skips_a_number_loses_that_connection_alone() {
    let Some((server, host)) = served().await else {
        return;
    };
    let web1 = client(&server, AS_WEB1).await;
    for (index, number) in [(1, 0), (2, 5)] {
        let mut bad = stranger(&server).await;
        let up = bad.open("bad", ID).await;
        // The beginning of a greeting, which is not wrong yet.
        bad.say(&publication(&up, &data(0, &[22]))).await;
        bad.say(&publication(&up, &data(number, &[0]))).await;
        bad.hear(CUT).await;
        eventually("it is counted", || host.refused() == index).await;
    }
    assert_eq!(ask(&web1, "fine").await.unwrap(), "fine");
}

#[tokio::test]
async fn a_message_that_is_too_large_or_none_costs_its_connection() {
    let Some((server, host)) = served().await else {
        return;
    };
    let web1 = client(&server, AS_WEB1).await;
    for (index, payload) in [
        (1, vec![b'D'; 900_000]),
        (2, b"?".to_vec()),
        (3, Vec::new()),
    ] {
        let mut bad = stranger(&server).await;
        let up = bad.open("bad", ID).await;
        bad.say(&publication(&up, &payload)).await;
        bad.hear(CUT).await;
        eventually("it is counted", || host.refused() == index).await;
    }
    assert_eq!(ask(&web1, "fine").await.unwrap(), "fine");
}

#[tokio::test]
async fn a_flood_of_greetings_keeps_no_other_user_out() {
    let Some((server, host)) = served().await else {
        return;
    };
    let mut bad = stranger(&server).await;
    let mut flood = Vec::new();
    for number in 0..20_000 {
        let hello = [&[1], format!("{number:022}").as_bytes()].concat();
        flood.extend(publication("saline.hello.bad", &hello));
    }
    let flooding = async {
        for piece in flood.chunks(64 * 1024) {
            bad.say(piece).await;
        }
        bad.publish("saline.hello.bad", b"malformed").await;
    };
    let working = async {
        for _ in 0..5 {
            let web1 = client(&server, AS_WEB1).await;
            assert_eq!(ask(&web1, "fine").await.unwrap(), "fine");
        }
    };
    tokio::join!(flooding, working);
    let web1 = client(&server, AS_WEB1).await;
    assert_eq!(ask(&web1, "fine").await.unwrap(), "fine");
    assert!(host.refused() > 1_000, "{}", host.refused());
}

#[tokio::test]
async fn clients_that_gave_up_before_their_turn_keep_no_places() {
    let Some((server, host)) = served().await else {
        return;
    };
    let mut gone = RawClient::connect(server.address(), "web1", "pw").await;
    let hello = |number: u32| {
        let id = format!("{number:0>22}");
        publication("saline.hello.web1", &[&[1], id.as_bytes()].concat())
    };
    // More than may ask at once, and more than may be in their handshakes. Nobody listens for the answers.
    for hundred in 0..30 {
        let hellos: Vec<u8> = (0..100)
            .flat_map(|number| hello(100 * hundred + number))
            .collect();
        gone.say(&hellos).await;
        gone.subscribe("saline.all").await;
    }
    // Another one of the same user.
    let web1 = client(&server, AS_WEB1).await;
    assert_eq!(ask(&web1, "fine").await.unwrap(), "fine");
    drop(host);
}

#[tokio::test]
async fn of_those_who_say_nothing_few_are_welcome_at_once() {
    const WELCOME: usize = 256;
    let Some((server, host)) = served().await else {
        return;
    };
    let mut bad = stranger(&server).await;
    bad.subscribe("saline.down.bad.*").await;
    let began = Clock.now();
    let id = |number: usize| format!("{number:0>22}");
    let hellos = (0..=WELCOME).flat_map(|number| {
        let hello = [&[1], id(number).as_bytes()].concat();
        publication("saline.hello.bad", &hello)
    });
    bad.say(&hellos.collect::<Vec<u8>>()).await;
    bad.hear(&id(WELCOME - 1)).await;
    // Another user does not wait behind them.
    let web1 = client(&server, AS_WEB1).await;
    assert_eq!(ask(&web1, "fine").await.unwrap(), "fine");
    bad.hear(&id(WELCOME)).await;
    let silent = host.context.limits.handshake_timeout;
    assert!(began.elapsed() >= silent, "the last one did not wait");
}

#[tokio::test]
async fn subjects_of_others_are_closed_by_permissions() {
    let Some((server, host)) = served().await else {
        return;
    };
    let web1 = client(&server, AS_WEB1).await;
    let mut bad = stranger(&server).await;
    let up = bad.open("bad", ID).await;
    let of_another = up.replace("up.bad", "up.web1");
    for subject in [
        of_another.as_str(),
        "saline.hello.web1",
        "saline.down.web1.x",
        "saline.all",
    ] {
        let heard = bad.publish(subject, &data(0, b"x")).await;
        assert!(
            heard.contains("Permissions Violation for Publish"),
            "{heard}"
        );
    }
    bad.say(b"SUB saline.down.*.* 9\r\nPING\r\n").await;
    let heard = bad.hear("PONG\r\n").await;
    assert!(
        heard.contains("Permissions Violation for Subscription"),
        "{heard}"
    );
    assert_eq!(ask(&web1, "fine").await.unwrap(), "fine");
    assert_eq!(host.refused(), 0);
}

#[tokio::test]
async fn the_server_publishes_to_no_reply_subject() {
    let Some((server, _host)) = served().await else {
        return;
    };
    let mut witness = RawClient::connect(server.address(), "master", "pw").await;
    witness.subscribe("saline.down.web1.*").await;
    let mut bad = stranger(&server).await;
    bad.subscribe("saline.down.bad.*").await;
    let hello = [&[1], ID.as_bytes()].concat();
    bad.publish("saline.hello.bad saline.down.web1.evil", &hello)
        .await;
    // The answer comes to the user who has asked.
    bad.hear("W\0").await;
    // Of a connection that the server does not have, the end is told to its user too.
    let up = "saline.up.bad.nobody.abc saline.down.web1.evil";
    bad.publish(up, &data(0, b"x")).await;
    witness.say(b"PING\r\n").await;
    let heard = witness.hear("PONG\r\n").await;
    assert!(!heard.contains("MSG"), "{heard}");
}

#[tokio::test]
async fn a_peer_of_another_version_is_told_why() {
    let Some((server, host)) = served().await else {
        return;
    };
    let mut bad = stranger(&server).await;
    bad.subscribe("saline.down.bad.*").await;
    let hello = [&[9], ID.as_bytes(), b"more"].concat();
    bad.publish("saline.hello.bad", &hello).await;
    bad.hear("speaks version 1 of virtual connections, this end 9")
        .await;
    assert_eq!(host.refused(), 1);
}
