//! Salt's security history: a test for each report that applies, named after it. `docs/security.md` has the table,
//! with what does not apply and why.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use saline_channel::noise::{FirstContact, Responder, Resumption};
use saline_channel::publication::{
    Body, PublicationError, PublicationKey, sign_job, topic_all, topic_of,
};
use saline_channel::{ChannelError, Identity, MasterTrust, NoiseKey};
use saline_data::{Packed, Value};
use saline_messages::{
    Admission, Class, Event, Header, Jid, KeyAction, KeyState, Kind, MinionEvent, MinionEvents,
    MinionId, MinionJobState, MinionReply, MinionRequest, OperatorReply, RefusedVerb,
    ReturnVerdict, Role, SessionId, StartId, encode,
};
use saline_protocol::transport::{Client, Clock, Delivery};

use crate::audiences::verbs;
use crate::support::on_path::OnPath;
use crate::support::runner;
use crate::support::{Deployment, Peer, TEST_TIMEOUT, credentials, initiator_keys, now};

/// Names that would leave their folder, or mean something to a file system.
const HOSTILE_NAMES: &[&str] = &[
    "../../etc/cron.d/x",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\0b",
    "a\nb",
    "\u{2025}/x",
    "\u{ff0e}\u{ff0e}\u{ff0f}x",
    "-rf",
    ".hidden",
];

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

#[tokio::test]
async fn cve_2016_9639_an_id_that_is_used_again_inherits_nothing() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let old = deployment.minion("m1").await;
    operator.publish("m1").await;
    // A job that waits for it: nothing but its withdrawal keeps it from whoever comes under this id.
    let away = deployment.minion("m2").await;
    assert_eq!(
        away.ask(MinionRequest::Goodbye(None)).await,
        MinionReply::Done
    );
    let waits = operator.publish_within("m2", TEST_TIMEOUT).await;
    assert_eq!(waits.minions, [(away.id(), MinionJobState::Queued)]);
    let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "m2");
    assert_eq!(deleted.await, 1);
    assert_eq!(deployment.minion("m2").await.pending().await, []);
    let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "m1");
    assert_eq!(deleted.await, 1);
    let request = MinionRequest::PendingJobs {
        after: None,
        bytes: u64::MAX,
    };
    let refused = old.ask_in_ended_session(&request).await;
    assert_eq!(refused, MinionReply::Refused(RefusedVerb::KeyGone));
    let new = deployment.minion("m1").await;
    assert_eq!(new.pending().await, []);
    assert_ne!(
        new.group(),
        old.group(),
        "it cannot read what follows either"
    );
}

#[tokio::test]
async fn cve_2017_12791_an_id_is_no_path() {
    let deployment = Deployment::start(true).await;
    let root = deployment.config.paths.pki_dir.clone();
    let before = files(&root);
    let trust = MasterTrust::FirstUse { finger: None };
    for name in HOSTILE_NAMES {
        assert!(MinionId::parse(name).is_err(), "{name:?}");
        for role in [Role::Minion, Role::Operator, Role::Caller] {
            let network = deployment.network().await;
            let stranger = Peer::come(network, credentials(role, name), &trust).await;
            assert_eq!(stranger.established.answer, Admission::Rejected, "{name:?}");
        }
    }
    assert_eq!(files(&root), before);
}

#[tokio::test]
async fn cve_2020_11651_nobody_reaches_a_verb_before_authentication() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let stranger = deployment.network().await;
    let jid = Jid::parse("20261121000000000001").unwrap();
    let orders = verbs::of_operators(&jid);
    for kind in 0..=u8::MAX {
        for body in orders.iter().map(encode) {
            let mut message = Header::bare(Kind::Record, Class::Event)
                .with_body(&body)
                .to_vec();
            message[1] = kind;
            let deadline = Clock.after(TEST_TIMEOUT);
            let reply = stranger.request(message.into(), deadline).await.unwrap();
            let (header, _) = Header::decode(&reply).unwrap();
            // A first message begins a handshake whatever its bytes are, and no handshake is a verb.
            let begins = kind == Kind::First as u8 && header.kind == Kind::FirstReply;
            assert!(
                begins || header.kind == Kind::Refused,
                "kind {kind}: {header:?}"
            );
        }
    }
    let listed = runner::value(&operator, "jobs.list_jobs", &[]).await;
    assert_eq!(listed, Value::Map(Vec::new()));
}

#[test]
fn cve_2020_11652_what_names_a_thing_is_no_path() {
    for name in HOSTILE_NAMES {
        assert!(Jid::parse(name).is_err(), "{name:?}");
        assert!(MinionId::parse(name).is_err(), "{name:?}");
    }
    assert!(Jid::parse("../../../etc/passwd0").is_err());
}

#[test]
fn cve_2022_22935_a_forged_answer_about_a_key_is_refused() {
    let noise = NoiseKey::generate().unwrap();
    let public = noise.public();
    let master = Responder::new(Arc::new(Identity::generate().unwrap()), noise, None);
    let minion = credentials(Role::Minion, "m1");
    let answer = |forge: Option<usize>| {
        let (resumption, body) =
            Resumption::begin(initiator_keys(&minion, now()), &public).unwrap();
        let rejected: Admission = Admission::Rejected;
        let (mut reply, _) = master
            .resume(&body)
            .unwrap()
            .reply(&encode(&rejected))
            .unwrap();
        let length = reply.len();
        if let Some(byte) = forge {
            reply[byte] ^= 1;
        }
        (length, resumption.finish(&reply).is_ok())
    };
    let (length, opened) = answer(None);
    assert!(opened);
    for byte in 0..length {
        assert!(!answer(Some(byte)).1, "byte {byte}");
    }
}

#[tokio::test]
async fn cve_2022_22936_a_publication_is_not_taken_twice() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let mut listener = minion.listen().await;
    let mut publications = Vec::new();
    // One for this minion alone, and one for so many that all get the same.
    operator.publish("m1").await;
    let mut others = Vec::new();
    for number in 2..=65 {
        others.push(deployment.minion(&format!("m{number}")).await);
    }
    operator.publish("*").await;
    for expected in [topic_of(&minion.id()), topic_all()] {
        let Some(Delivery::Message { topic, payload }) = listener.subscriber.next().await else {
            panic!("the subscription ended");
        };
        assert_eq!(topic, expected);
        assert!(listener.opener.open(&topic, &payload).is_ok());
        publications.push((topic, payload));
    }
    for (topic, payload) in &publications {
        let again = listener.opener.open(topic, payload);
        assert_eq!(again, Err(PublicationError::Replayed), "{topic}");
    }
    // After the minion came back with another session, neither opens.
    let trust = MasterTrust::Pinned(deployment.master_keys());
    let network = deployment.network().await;
    let back = Peer::come(network, minion.credentials.clone(), &trust).await;
    let mut listener = back.listen().await;
    for (topic, payload) in &publications {
        assert!(listener.opener.open(topic, payload).is_err(), "{topic}");
    }
}

#[tokio::test]
async fn cve_2022_22934_a_reply_fits_its_own_request_only() {
    let deployment = Deployment::start(true).await;
    let on_path = OnPath::new(deployment.network().await);
    let client = Arc::clone(&on_path) as Arc<dyn Client>;
    let trust = MasterTrust::FirstUse { finger: None };
    let minion = Peer::come(client, credentials(Role::Minion, "m1"), &trust).await;
    minion
        .ask(MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX,
        })
        .await;
    *on_path.repeats.lock().unwrap() = true;
    let answered = minion
        .try_ask(&MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX,
        })
        .await;
    assert!(
        matches!(answered, Err(ChannelError::Mismatch)),
        "{answered:?}"
    );
}

#[tokio::test]
async fn cve_2023_20897_malformed_messages_disturb_nobody_else() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let stranger = deployment.network().await;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for length in 0..3_000_usize {
        let mut message: Vec<u8> = (0..length % 700)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect();
        if length % 3 > 0 && message.len() > 27 {
            // As far as a handshake or a record goes.
            (message[0], message[1], message[18]) = (1, (length % 11) as u8, 1);
        }
        let deadline = Clock.after(TEST_TIMEOUT);
        stranger.request(message.into(), deadline).await.unwrap();
        if length % 100 == 0 {
            assert_eq!(minion.pending().await, []);
        }
    }
    assert_eq!(minion.pending().await, []);
}

#[tokio::test]
async fn cve_2024_38822_the_session_says_who_asks_not_the_request() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let victim = deployment.minion("victim").await;
    let other = deployment.minion("other").await;
    operator.publish("victim").await;
    let job = &victim.pending().await[0];
    assert_eq!(other.give_back(job).await, ReturnVerdict::NotOffered);
    let claim = MinionRequest::Claim {
        jid: job.jid.clone(),
    };
    assert_eq!(other.ask(claim).await, MinionReply::Claimed(false));
    assert_eq!(other.pending().await, []);
    assert_eq!(victim.give_back(job).await, ReturnVerdict::Stored);
}

#[tokio::test]
async fn cve_2024_38823_a_request_that_is_sent_again_has_no_second_effect() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let on_path = OnPath::new(Arc::clone(&operator.client));
    let order = verbs::of_operators(&Jid::parse("20261121000000000001").unwrap()).remove(0);
    let session = &operator.established.session;
    let deadline = Clock.after(TEST_TIMEOUT);
    let published: OperatorReply = session
        .ask(&*on_path, Class::Event, &order, deadline)
        .await
        .unwrap();
    assert!(matches!(published, OperatorReply::Published(_)));
    let captured = on_path.captured.lock().unwrap().clone();
    for client in [&operator.client, &minion.client] {
        for message in &captured {
            let deadline = Clock.after(TEST_TIMEOUT);
            let reply = client.request(message.clone(), deadline).await.unwrap();
            assert_eq!(Header::decode(&reply).unwrap().0.kind, Kind::Refused);
        }
    }
    assert_eq!(minion.pending().await.len(), 1, "one job");
}

#[tokio::test]
async fn cve_2024_38825_a_public_key_is_no_credential() {
    let deployment = Deployment::start(true).await;
    deployment.minion("m1").await;
    let operator = deployment.operator().await;
    // Whoever read the key files knows every public key, and holds none of the private ones.
    let trust = MasterTrust::Pinned(deployment.master_keys());
    let root = credentials(Role::Operator, "root");
    let stranger = Peer::come(Arc::clone(&operator.client), root, &trust).await;
    assert_eq!(stranger.established.answer, Admission::Rejected);
    let network = deployment.network().await;
    let stranger = Peer::come(network, credentials(Role::Minion, "m1"), &trust).await;
    assert_eq!(stranger.established.answer, Admission::Denied);
}

/// The tags of the events that a minion's attempts to fire these arrive as.
async fn fired(tags: &[&str]) -> Vec<String> {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let mut bus = operator.events("event").await;
    let events = tags.iter().chain(&["last"]).map(|tag| MinionEvent {
        tag: (*tag).to_owned(),
        data: Packed::pack(&Value::Map(Vec::new())),
    });
    let fire = MinionRequest::FireEvents(MinionEvents {
        start: StartId([1; 16]),
        first: 1,
        events: events.collect(),
    });
    assert_eq!(minion.ask(fire).await, MinionReply::Done);
    let mut arrived = Vec::new();
    loop {
        let Some(Delivery::Message { payload, .. }) = bus.next().await else {
            panic!("the bus ended");
        };
        let tag = Event::decode(&payload).unwrap().tag;
        if tag.ends_with("/last") {
            return arrived;
        }
        arrived.push(tag);
    }
}

#[tokio::test]
async fn cve_2025_22236_nothing_that_a_minion_fires_is_a_job() {
    let tags = ["salt/job/20261121000000000001/new", "../../salt/job/1/new"];
    let arrived = fired(&tags).await;
    let is_its_own = |tag: &String| tag.starts_with("salt/minion/m1/");
    assert!(arrived.iter().all(is_its_own), "{arrived:?}");
}

#[tokio::test]
async fn cve_2025_22239_the_tags_of_the_master_are_the_masters() {
    let tags = ["salt/key", "/salt/auth", "salt/minion/m2/start", "a b", ""];
    let arrived = fired(&tags).await;
    let is_its_own = |tag: &String| tag.starts_with("salt/minion/m1/");
    assert!(arrived.iter().all(is_its_own), "{arrived:?}");
}

#[tokio::test]
async fn cve_2025_22242_a_jid_is_no_path() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let root = deployment.config.paths.state_dir.clone();
    let jid = Jid::parse("20261121000000000001").unwrap();
    let before = files(&root.join("jobs")).len();
    for verb in verbs::of_minions(&jid) {
        let plain = encode(&verb);
        let Some(place) = plain
            .windows(jid.as_str().len())
            .position(|part| part == jid.as_str().as_bytes())
        else {
            continue;
        };
        let mut hostile = plain.clone();
        hostile[place..place + 20].copy_from_slice(b"../../../../etc/shad");
        // The same bytes under another type: what the session seals is what is given here.
        let reply: Result<MinionReply, _> = minion
            .established
            .session
            .ask(
                &*minion.client,
                Class::Event,
                &Plain(hostile),
                Clock.after(TEST_TIMEOUT),
            )
            .await;
        let refused = MinionReply::Refused(RefusedVerb::Malformed);
        assert_eq!(reply.unwrap(), refused, "{verb:?}");
    }
    assert_eq!(files(&root.join("jobs")).len(), before);
}

/// Bytes that are sent as they are.
struct Plain(Vec<u8>);

impl serde::Serialize for Plain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeTuple;
        let mut bytes = serializer.serialize_tuple(self.0.len())?;
        for byte in &self.0 {
            bytes.serialize_element(byte)?;
        }
        bytes.end()
    }
}

#[tokio::test]
async fn cve_2025_62349_nobody_on_the_path_lowers_the_version() {
    let noise = NoiseKey::generate().unwrap();
    let public = noise.public();
    let master = Responder::new(Arc::new(Identity::generate().unwrap()), noise, None);
    let minion = credentials(Role::Minion, "m1");
    let (_, body) = Resumption::begin(initiator_keys(&minion, now()), &public).unwrap();
    for byte in 0..body.len() {
        let mut changed = body.clone();
        changed[byte] ^= 1;
        assert!(master.resume(&changed).is_err(), "byte {byte}");
    }
    // Nor at the first contact, where the versions are in the last message.
    let (contact, first) = FirstContact::begin(initiator_keys(&minion, now())).unwrap();
    let (half, reply) = master.first(&first).unwrap();
    let (_, mut finish, _) = contact.finish(&reply).unwrap();
    let last = finish.len() - 20;
    finish[last] ^= 1;
    assert!(half.finish(&finish).is_err());
}

#[test]
fn cve_2025_62348_yaml_constructs_nothing() {
    for text in [
        "x: !!python/object/apply:os.system [touch /tmp/pwned]",
        "x: !!python/name:os.system ''",
        "!ruby/object:Gem::Installer {}",
    ] {
        // A tag is an error, or its value is plain data.
        if let Ok(value) = saline_data::yaml::parse(text) {
            assert!(!format!("{value:?}").contains("Tagged"), "{text}");
        }
    }
    // Aliases that multiply are refused, or stay small.
    let laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n\
                  b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n\
                  c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\n\
                  d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n\
                  e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\n\
                  f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n\
                  g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n";
    if let Ok(value) = saline_data::yaml::parse(laughs) {
        assert!(format!("{value:?}").len() < 1_000_000);
    }
}

#[tokio::test]
async fn salt_3008_an_accepted_minion_forges_no_job() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let victim = deployment.minion("victim").await;
    let other = deployment.minion("other").await;
    operator.publish("other").await;
    let job = other.pending().await.remove(0);
    let group = other.group();
    assert_eq!(group, victim.group(), "one key for all");
    let forged = Body::Job(sign_job(&other.credentials.identity, job)).encode();
    let key = PublicationKey::group(&group);
    let frame = key.seal(&topic_all(), SessionId::default(), 77, 77, &forged);
    let mut listener = victim.listen().await;
    let opened = listener.opener.open(&topic_all(), &frame);
    assert_eq!(opened, Err(PublicationError::NotSigned));
}

#[test]
fn the_table_of_the_history_names_these_tests_and_no_others() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(folder.join("../docs/security.md")).unwrap();
    let source =
        std::fs::read_to_string(folder.join("tests/integration/security_history.rs")).unwrap();
    let is_report = |name: &&str| name.starts_with("cve_") || name.starts_with("salt_3008_");
    let tests: Vec<&str> = source
        .split("fn ")
        .filter_map(|rest| rest.split('(').next())
        .filter(is_report)
        .collect();
    assert!(tests.len() > 15);
    for test in &tests {
        assert!(table.contains(&format!("`{test}`")), "{test} is not told");
    }
    let told = table.split('`').filter(is_report);
    for name in told.filter(|name| !name.ends_with('…')) {
        assert!(tests.contains(&name), "{name} is no test");
    }
}
