//! Events over a session: who gets which, and when.

use std::sync::Arc;

use saline_data::{Packed, Value};
use saline_messages::{
    Event, EventCursor, EventsPage, EventsRequest, Jid, MAX_EVENTS_WAIT, MinionReply,
    MinionRequest, OperatorReply, OperatorRequest, Return, ReturnVerdict,
};
use tokio::task::JoinSet;

use crate::operator_rules::{operator, publish, with_options};
use crate::support::runner::{call, end};
use crate::support::{Deployment, Peer};

fn events(after: Option<EventCursor>, wait_ms: u32) -> OperatorRequest {
    OperatorRequest::Events(EventsRequest {
        after,
        prefixes: Vec::new(),
        wait_ms,
    })
}

async fn read(peer: &Peer, after: Option<EventCursor>, wait_ms: u32) -> EventsPage {
    match peer.order(events(after, wait_ms)).await {
        OperatorReply::Events(page) => page,
        other => panic!("{other:?}"),
    }
}

/// Returns the place from which on somebody gets events.
async fn now(peer: &Peer) -> EventCursor {
    let page = read(peer, None, 0).await;
    assert!(page.events.is_empty() && !page.gap, "{page:?}");
    page.next
}

fn tags(page: &EventsPage) -> Vec<String> {
    let events = page.events.iter();
    let tags = events.map(|(_, bytes)| Event::decode(bytes).unwrap().tag);
    tags.collect()
}

async fn deliver(minion: &Peer, jid: &Jid) {
    let returned = Return {
        jid: jid.clone(),
        fun: "test.ping".into(),
        retcode: 0,
        success: true,
        payload: Packed::pack(&Value::Bool(true)),
    };
    let reply = minion.ask(MinionRequest::Returns(vec![returned])).await;
    assert_eq!(reply, MinionReply::Verdicts(vec![ReturnVerdict::Stored]));
}

const RULES: &str = "operators:
  alice: [test.ping, '@runner']
  bob: [test.ping]
  reader: ['@events']
  carol: []
";

#[tokio::test]
async fn each_gets_the_events_of_its_own_jobs_and_runs_and_a_rule_gives_all() {
    let deployment = Deployment::start_with(with_options(RULES)).await;
    let minion = deployment.minion("web1").await;
    let [alice, bob, reader, carol] = [
        operator(&deployment, "alice").await,
        operator(&deployment, "bob").await,
        operator(&deployment, "reader").await,
        operator(&deployment, "carol").await,
    ];
    let root = deployment.operator().await;
    // Before anybody asks for events, so that the store alone knows whose it is.
    let earlier = publish(&alice, "web1", "test.ping").await.unwrap();
    let start = now(&root).await;

    deliver(&minion, &earlier).await;
    let of_alice = publish(&alice, "web1", "test.ping").await.unwrap();
    let of_bob = publish(&bob, "web1", "test.ping").await.unwrap();
    deliver(&minion, &of_bob).await;
    deliver(&minion, &of_alice).await;
    end(&alice, call("manage.up", &[])).await;

    let all = tags(&read(&root, Some(start), 0).await);
    let is_of = |jid: &Jid, tag: &str| tag.contains(&format!("/{jid}/"));
    let runs = all.iter().filter(|tag| tag.starts_with("salt/run/"));
    assert_eq!(runs.count(), 2, "{all:?}");
    for end in [
        format!("salt/job/{earlier}/ret/web1"),
        format!("salt/job/{of_alice}/new"),
        format!("salt/job/{of_bob}/ret/web1"),
    ] {
        assert!(all.contains(&end), "{end}: {all:?}");
    }
    assert_eq!(tags(&read(&reader, Some(start), 0).await), all);

    let own = read(&alice, Some(start), 0).await;
    let expected = all.iter().filter(|tag| {
        is_of(&earlier, tag) || is_of(&of_alice, tag) || tag.starts_with("salt/run/")
    });
    assert_eq!(tags(&own), expected.cloned().collect::<Vec<_>>());
    let own = read(&bob, Some(start), 0).await;
    let expected = all.iter().filter(|tag| is_of(&of_bob, tag));
    assert_eq!(tags(&own), expected.cloned().collect::<Vec<_>>());
    let refused = carol.order(events(Some(start), 0)).await;
    let why = "operator carol may not read events: no rule of operators in the master's configuration allows it";
    assert_eq!(refused, OperatorReply::NotAllowed(why.to_owned()));
    let refused = minion
        .established
        .session
        .ask::<_, MinionReply>(
            &*minion.client,
            saline_messages::Class::Event,
            &events(Some(start), 0),
            saline_protocol::transport::Clock.after(crate::support::TEST_TIMEOUT),
        )
        .await;
    assert!(
        matches!(refused, Ok(MinionReply::Refused(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn hundreds_of_listeners_on_one_connection_wait_while_others_are_served() {
    let deployment = Deployment::start_with(with_options(RULES)).await;
    let minion = deployment.minion("web1").await;
    let alice = Arc::new(operator(&deployment, "alice").await);
    let start = now(&alice).await;
    let mut listeners = JoinSet::new();
    for _ in 0..500 {
        let alice = Arc::clone(&alice);
        listeners.spawn(async move { read(&alice, Some(start), MAX_EVENTS_WAIT).await });
    }
    let bob = operator(&deployment, "bob").await;
    let of_bob = publish(&bob, "web1", "test.ping").await.unwrap();
    deliver(&minion, &of_bob).await;
    // Over the same connection.
    let of_alice = publish(&alice, "web1", "test.ping").await.unwrap();
    let mut told = 0;
    while let Some(page) = listeners.join_next().await {
        let page = page.unwrap();
        let tags = tags(&page);
        assert_eq!(tags[0], format!("salt/job/{of_alice}/new"));
        told += 1;
    }
    assert_eq!(told, 500);
}

#[tokio::test]
async fn a_key_that_goes_takes_the_events_with_it() {
    let deployment =
        Deployment::start_with(with_options("operators: {reader: ['@events']}\n")).await;
    let reader = operator(&deployment, "reader").await;
    let root = deployment.operator().await;
    let start = now(&reader).await;
    let waiting = reader.order(events(Some(start), MAX_EVENTS_WAIT));
    let fired = async {
        // The one that waits was let in before these.
        for _ in 0..10 {
            assert_eq!(
                reader.order(OperatorRequest::Ping).await,
                OperatorReply::Pong("reader".to_owned())
            );
        }
        let key = deployment.config.paths.pki_dir.join("operators/reader");
        std::fs::remove_file(key).unwrap();
        end(&root, call("manage.up", &[])).await;
    };
    let (reply, ()) = tokio::join!(waiting, fired);
    assert!(matches!(reply, OperatorReply::Refused(_)), "{reply:?}");
}

#[tokio::test]
async fn a_restart_of_the_master_is_a_gap() {
    let deployment = Deployment::start(true).await;
    let root = deployment.operator().await;
    let start = now(&root).await;
    let deployment = deployment.restart(|_| ()).await;
    let root = deployment.operator().await;
    let page = read(&root, Some(start), MAX_EVENTS_WAIT).await;
    assert!(page.gap);
    assert_ne!(page.next.start, start.start);
    let next = read(&root, Some(page.next), 0).await;
    assert!(!next.gap);
}
