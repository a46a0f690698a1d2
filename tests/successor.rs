//! The daemons of today with those of the next version of the protocol, which exist in this test alone: they are
//! the frozen peers of version 1, which also speak a version 2 with an extension and a message of its own.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod support;

use std::sync::Arc;

use saline_frozen_peers::v1::header::class;
use saline_frozen_peers::v1::master::{Master, MasterProtocol, ping};
use saline_frozen_peers::v1::messages::{Admission, Extension, ReturnVerdict, TRUE, Versions};
use saline_frozen_peers::v1::minion::{Connected, Minion};
use saline_protocol::transport::{Context, Endpoint};
use support::Fleet;
use support::frozen::{connect, network, operator, run};

/// What no version has: the number of an extension.
const SUCCESSOR: u16 = 0x7002;

/// The only request of version 2, as an enumeration of it alone, and its reply.
const QUESTION: u8 = 200;
const ANSWER: u8 = 201;

fn extension(says: &str) -> Extension {
    Extension {
        number: SUCCESSOR,
        bytes: says.as_bytes().to_vec(),
    }
}

fn versions(lowest: u16, highest: u16) -> Versions {
    Versions { lowest, highest }
}

/// Creates a minion that speaks these versions, and says something that version 1 does not know.
fn successor(id: &str, versions: Versions) -> Minion {
    let mut minion = Minion::new(id);
    minion.credentials.versions = versions;
    minion.credentials.extensions = vec![extension("a minion of version 2")];
    minion
}

fn answer(plain: &[u8]) -> Option<Vec<u8>> {
    (plain == [QUESTION]).then(|| vec![ANSWER])
}

/// Starts a master that speaks these versions.
async fn master(versions: Versions, context: &Context) -> Arc<Master> {
    let protocol = MasterProtocol {
        versions,
        extensions: vec![extension("a master of version 2")],
        later: Some(answer),
    };
    let tcp = saline_transports::registry().get("tcp").unwrap();
    Master::start_with(protocol, &*tcp, context).await
}

/// What a minion of version 2 does in a session: what its version says in one of that version, and nothing of it
/// in one of version 1.
async fn behave(minion: &Connected) {
    let welcome = &minion.welcome;
    if welcome.master.protocol >= 2 {
        assert_eq!(welcome.extensions, [extension("a master of version 2")]);
        let answered: u8 = minion.session.ask(class::EVENT, &QUESTION).await;
        assert_eq!(answered, ANSWER);
    } else {
        assert_eq!(welcome.extensions, []);
    }
}

#[test]
fn a_minion_of_the_next_version_works_with_the_master_of_today() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    run(async |context: Context| {
        let endpoint = network("tcp", fleet.port());
        let operator = operator(&fleet, &context).await;
        let mut minion = successor("next", versions(1, 2));
        // At the first contact, and when it knows the master.
        for _ in 0..2 {
            let client = connect(&endpoint, &context).await;
            let mut connected = minion.connect(&client, &endpoint).await;
            assert_eq!(connected.welcome.master.protocol, 1);
            behave(&connected).await;
            let jid = operator.publish("next", None).await.jid.unwrap();
            let (served, verdict) = connected.serve_one().await;
            assert_eq!((&served, verdict), (&jid, ReturnVerdict::Stored));
            assert_eq!(operator.returns(&jid, 1).await[0].payload, TRUE);
            client.shutdown(support::TEST_TIMEOUT).await.unwrap();
        }
    });
}

#[test]
fn a_master_of_the_next_version_works_with_the_minion_of_today() {
    let mut fleet = Fleet::new("tcp", "");
    run(async |context: Context| {
        let master = master(versions(1, 2), &context).await;
        fleet.use_port(master.at.port().unwrap());
        fleet.start_minion("m1");
        master.wait("a minion", |said| said.asked > 0).await;
        master.publish(ping(1), false).await;
        master
            .wait("a return", |said| !said.returns.is_empty())
            .await;
        master.forget_session();
        master.queue(ping(2));
        let said = master.wait("a return", |said| said.returns.len() > 1).await;
        assert!(said.versions.len() > 1, "{said:?}");
        assert!(said.versions.iter().all(|version| *version == 1));
        assert_eq!((said.extensions, said.later), (Vec::new(), 0));
    });
}

#[test]
fn two_of_the_next_version_speak_it() {
    run(async |context: Context| {
        let master = master(versions(1, 2), &context).await;
        let endpoint: &Endpoint = &master.at;
        let mut minion = successor("next", versions(1, 2));
        for contacts in 1..=2 {
            let client = connect(endpoint, &context).await;
            let mut connected = minion.connect(&client, endpoint).await;
            assert_eq!(connected.welcome.master.protocol, 2);
            behave(&connected).await;
            master.publish(ping(contacts), false).await;
            assert_eq!(connected.serve_one().await.1, ReturnVerdict::Stored);
        }
        let said = master.wait("both", |said| said.returns.len() == 2).await;
        assert_eq!((said.handshakes, said.versions), ((1, 1), vec![2, 2]));
        assert_eq!(said.extensions, [extension("a minion of version 2")]);
        assert_eq!(said.later, 2);
    });
}

#[test]
fn without_a_common_version_both_are_told_what_to_do() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    run(async |context: Context| {
        let endpoint = network("tcp", fleet.port());
        let client = connect(&endpoint, &context).await;
        let mut minion = successor("later", versions(2, 3));
        let (_, admission) = minion.begin(&client).await.unwrap();
        let refused = Admission::NoCommonVersion {
            versions: versions(1, 1),
            software: env!("CARGO_PKG_VERSION").to_owned(),
        };
        assert_eq!(admission, refused);

        // The minion of today and a master that speaks version 1 no more.
        let master = master(versions(2, 3), &context).await;
        fleet.use_port(master.at.port().unwrap());
        fleet.start_minion("m1");
        let line = fleet.minions["m1"]
            .log
            .wait_for("the master refuses minion m1", 1);
        for part in [
            "they speak no common protocol version",
            "the master is Saline 1.0.0 and speaks protocol 2 to 3",
            "and speaks 1: upgrade the older one, masters first",
        ] {
            assert!(line.contains(part), "{line}");
        }
    });
}
