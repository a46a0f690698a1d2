//! The daemons of today with the frozen peers of version 1: real processes, and peers that share no code with
//! them.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod support;

use std::process::{Child, Stdio};
use std::sync::Arc;

use saline_frozen_peers::v1::master::{Master, ping, sleep};
use saline_frozen_peers::v1::messages::{Admission, OfferState, ReturnVerdict, TRUE};
use saline_frozen_peers::v1::minion::{Connected, Minion, poll};
use saline_protocol::transport::Context;
use support::frozen::{connect, network, operator, run};
use support::{CommandOutput, Fleet};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

over_each_transport!(
    a_minion_of_version_1_is_served,
    an_operator_of_version_1_is_served,
    many_minions_of_version_1_share_a_publication_and_the_next_group_key,
    a_master_of_version_1_is_served,
);

/// Starts `saline ID test.ping`.
fn start_ping(fleet: &Fleet, id: &str) -> Child {
    let mut command = fleet.command("saline", &[id, "test.ping"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Serves the job of `saline ID test.ping`, and reads what that prints.
async fn pings(fleet: &Fleet, id: &str, minion: &mut Connected) {
    let command = start_ping(fleet, id);
    let (_, verdict) = minion.serve_one().await;
    assert_eq!(verdict, ReturnVerdict::Stored);
    let said = CommandOutput::from(command.wait_with_output().unwrap()).expect(0);
    assert_eq!(said.stdout, format!("{id}:\n    True\n"));
}

fn a_minion_of_version_1_is_served(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    fleet.start_master();
    run(async |context: Context| {
        let endpoint = network(transport, fleet.port());
        let operator = operator(&fleet, &context).await;

        // The first contact: its key waits, and is accepted.
        let client = connect(&endpoint, &context).await;
        let mut minion = Minion::new("old");
        let (session, admission) = minion.begin(&client).await.unwrap();
        assert_eq!(admission, Admission::Pending);
        operator.accept("old").await;
        let welcome = poll(&session).await;
        assert_eq!(welcome.master.protocol, 1);
        let mut first = minion.accepted(session, welcome);
        first.reconcile().await;
        first.subscribe(&endpoint).await;
        first.beat().await;
        pings(&fleet, "old", &mut first).await;
        assert_eq!(first.came, (0, 1));

        // It goes, a job is queued for it, and it comes back in one round trip.
        client.shutdown(support::TEST_TIMEOUT).await.unwrap();
        operator.wait_for_minions(0).await;
        let queued = operator.publish("old", Some(60_000)).await;
        let jid = queued.jid.unwrap();
        assert_eq!(queued.minions, [("old".to_owned(), OfferState::Queued)]);
        let client = connect(&endpoint, &context).await;
        let mut second = minion.connect(&client, &endpoint).await;
        let mut missed = second.missed().await;
        assert_eq!(missed.len(), 1, "{missed:?}");
        let job = missed.remove(0);
        assert_eq!(job.jid, jid);
        assert_eq!(second.run(job.clone(), true).await, ReturnVerdict::Stored);
        assert_eq!(second.give_back(job).await, ReturnVerdict::Duplicate);
        pings(&fleet, "old", &mut second).await;
        let returned = [("old".to_owned(), OfferState::Returned)];
        assert_eq!(operator.states(&jid).await, returned);
    });
    let versions = fleet.run("saline-run", &["manage.versions"]).expect(0);
    assert!(versions.stdout.contains("Master:"), "{}", versions.stdout);
}

fn an_operator_of_version_1_is_served(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1", "m2"]);
    run(async |context: Context| {
        let operator = operator(&fleet, &context).await;
        operator.wait_for_minions(2).await;
        let published = operator.publish("m*", None).await;
        assert_eq!(published.minions.len(), 2);
        let jid = published.jid.unwrap();
        let mut returns = operator.returns(&jid, 2).await;
        returns.sort_by(|a, b| a.minion.cmp(&b.minion));
        for (returned, id) in returns.iter().zip(["m1", "m2"]) {
            let retcode = (returned.retcode, returned.success);
            assert_eq!((&*returned.minion, retcode), (id, (0, true)));
            assert_eq!(returned.payload, TRUE);
        }
        let returned = |id: &str| (id.to_owned(), OfferState::Returned);
        assert_eq!(
            operator.states(&jid).await,
            [returned("m1"), returned("m2")]
        );
    });
}

/// A job for more than 64 minions is sealed once, with the group key.
fn many_minions_of_version_1_share_a_publication_and_the_next_group_key(transport: &'static str) {
    const MANY: usize = 65;
    let mut fleet = Fleet::new(transport, "auto_accept: True\n");
    fleet.start_master();
    run(async |context: Context| {
        let endpoint = network(transport, fleet.port());
        let operator = operator(&fleet, &context).await;
        let mut minions = JoinSet::new();
        // A minion is present before it has subscribed, and what is published in between reaches it later.
        let subscribed = Arc::new(Barrier::new(MANY + 1));
        for number in 0..MANY {
            let (endpoint, context) = (endpoint.clone(), context.clone());
            let subscribed = Arc::clone(&subscribed);
            minions.spawn(async move {
                let client = connect(&endpoint, &context).await;
                let mut minion = Minion::new(&format!("old-{number}"));
                let mut connected = minion.connect(&client, &endpoint).await;
                subscribed.wait().await;
                let (_, verdict) = connected.serve_one().await;
                assert_eq!(verdict, ReturnVerdict::Stored);
                (connected.came, connected.rotations)
            });
        }
        // The key of one more is deleted, so that the others get another group key.
        let client = connect(&endpoint, &context).await;
        let _gone = Minion::new("gone").connect(&client, &endpoint).await;
        operator.wait_for_minions(MANY + 1).await;
        subscribed.wait().await;
        operator.delete("gone").await;
        operator.wait_for_minions(MANY).await;
        let published = operator.publish("old-*", None).await;
        assert_eq!(published.minions.len(), MANY);
        let returns = operator.returns(&published.jid.unwrap(), MANY).await;
        assert!(returns.iter().all(|returned| returned.payload == TRUE));
        for (came, rotations) in minions.join_all().await {
            assert_eq!((came, rotations), ((1, 0), 1));
        }
    });
}

fn a_master_of_version_1_is_served(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    run(async |context: Context| {
        let backend = saline_transports::registry().get(transport).unwrap();
        let master = Master::start(&*backend, &context).await;
        fleet.use_port(master.at.port().unwrap());
        fleet.start_minion("m1");
        let said = master.wait("a minion", |said| said.asked > 0).await;
        assert_eq!((said.handshakes, said.heartbeats.1), ((1, 0), 1));

        // What takes a while is reported as begun before it returns.
        master.publish(sleep(1), false).await;
        let jid = sleep(1).jid;
        let begun = master.wait("a report", |said| !said.begun.is_empty()).await;
        assert_eq!((begun.begun, begun.returns), (vec![jid], Vec::new()));
        master.publish(ping(2), true).await;
        let said = master.wait("returns", |said| said.returns.len() > 1).await;
        assert!(said.heartbeats.0 > 0, "{said:?}");

        // The session is lost: the next one takes one round trip, and brings what was missed.
        master.forget_session();
        master.queue(ping(3));
        let said = master.wait("a return", |said| said.returns.len() > 2).await;
        assert!(said.handshakes.1 > 0 && said.handshakes.0 == 1, "{said:?}");
        assert!(said.versions.iter().all(|version| *version == 1));
        for returned in &said.returns {
            assert_eq!((returned.retcode, returned.success), (0, true));
            assert_eq!(returned.payload, TRUE);
        }
    });
}
