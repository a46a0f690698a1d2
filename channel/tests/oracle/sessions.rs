//! Whole sessions between the oracle and the channel: the oracle as a minion of the channel's master, and as the master
//! of the channel's minion.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_channel::noise::{Responder, SplitKeys};
use saline_channel::publication::{Body, Content, topic_of};
use saline_channel::record::ResponderRecords;
use saline_channel::{
    ChannelError, Credentials, Identity, MasterKeys, MasterTrust, NoiseKey, PublicIdentity,
    establish,
};
use saline_messages::{
    Admission, Class, GroupKeyMaterial, MinionId, ProtocolVersions, Role, SOFTWARE, SessionId,
    Welcome, encode,
};
use saline_protocol::transport::{Client, Clock, Endpoint, Result, Subscriber, TopicFilter};
use snow::HandshakeState;
use tokio::time::Instant;

use super::cipher::{self, Key, noise_public};
use super::handshake::{
    ATTEMPT_TIME, MASTER, MINION, SUCCESSORS, Side, Split, finish, read, split, successor, write,
};
use super::header::{Header, class, kind};

const CERTIFICATE: Option<[u8; 32]> = Some([6; 32]);
const SESSION: [u8; 16] = [9; 16];

/// When the oracle's identities vouched for their Noise keys.
const ISSUED: u64 = 1_700_000_000_123_456_789;

/// The length of the role and of the first message of Noise XX.
const FIRST: usize = 33;

fn side(role: u8, id: &'static str) -> Side {
    let time = 1_700_000_000_000_000_000_u64.to_be_bytes().to_vec();
    let said = match role {
        MASTER => Vec::new(),
        _ => vec![(0x7000, vec![1; 300]), (ATTEMPT_TIME, time)],
    };
    Side {
        role,
        id,
        identity: cipher::Identity::from_seed(&[role + 3; 32]),
        noise: [role + 5; 32],
        issued: ISSUED,
        extensions: said,
    }
}

/// What the oracle asks and the channel answers in a session with these keys, and a publication in it.
fn records_agree(oracle: Split, channel: &SplitKeys) {
    assert_eq!(oracle, (channel.initiator, channel.responder));
    let mut master = ResponderRecords::new(channel);
    let asked = Header {
        kind: kind::RECORD,
        session: SESSION,
        class: class::EVENT,
        counter: 1,
    };
    let request = Key::new(&oracle.0).seal(&asked, &[], &[], b"ping");
    let (header, body) = saline_messages::Header::decode(&request).unwrap();
    assert_eq!(master.open_request(&header, body).unwrap(), &b"ping"[..]);
    let reply = master.seal_reply(&header, b"pong");
    let (header, body) = Header::decode(&reply);
    assert_eq!(header, asked, "a reply has the header of its request");
    assert_eq!(Key::new(&oracle.1).open(&header, &[], &[], body), b"pong");

    let topic = topic_of(&MinionId::parse("m1").unwrap());
    let key = master.publications.key(5);
    let body = Body::HeartbeatRequest.encode();
    let frame = key.seal(&topic, SessionId(SESSION), 7, 1, &body);
    let (header, body) = Header::decode(&frame);
    assert_eq!((header.kind, header.counter), (kind::PUBLICATION, 7));
    let (clear, sealed) = body.split_at(16);
    assert_eq!(clear, [5_u64.to_be_bytes(), 1_u64.to_be_bytes()].concat());
    let key = Key::of_publications(&oracle.1, 5);
    let topic = cipher::topic_of("m1");
    assert_eq!(key.open(&header, clear, topic.as_bytes(), sealed), [2]);
}

#[test]
fn the_channels_master_understands_the_oracle() {
    let minion = side(MINION, "m1");
    let identity = Arc::new(Identity::generate().unwrap());
    let noise = NoiseKey::generate().unwrap();
    let (master_noise, issued) = (noise.public(), noise.issued());
    let responder = Responder::new(Arc::clone(&identity), noise, CERTIFICATE);

    let (state, first) = minion.begin_first(CERTIFICATE);
    assert_eq!(first.len(), FIRST);
    let (half_open, reply) = responder.first(&first).unwrap();
    let ((said, key), body, oracle) = minion.finish_first(state, &reply);
    assert_eq!((said.identity, key), (identity.public().0, master_noise));
    assert_eq!((said.id.as_str(), said.extensions), ("", Vec::new()));
    assert_eq!(said.issued, issued);
    let (proven, channel) = half_open.finish(&body).unwrap();
    assert_eq!(proven.identity.0, minion.identity.public());
    assert_eq!(proven.issued, ISSUED);
    assert_eq!(
        (proven.id.as_str(), proven.software.as_str()),
        ("m1", "1.0.0")
    );
    records_agree(oracle, &channel);

    let (mut state, body) = minion.begin_resume(CERTIFICATE, &master_noise);
    let resuming = responder.resume(&body).unwrap();
    assert_eq!(resuming.proven.noise, noise_public(&minion.noise));
    assert_eq!(resuming.proven.issued, ISSUED);
    assert_eq!(resuming.proven.attempted, Some(1_700_000_000_000_000_000));
    let (reply, channel) = resuming.reply(b"welcome").unwrap();
    assert_eq!(read(&mut state, &reply), b"welcome");
    records_agree(split(state), &channel);
}

/// The oracle as a master, and the connection to it. It answers a record with the bytes in reverse.
struct OracleMaster {
    side: Side,
    welcome: Vec<u8>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    half_open: Option<HandshakeState>,
    keys: Option<Split>,
    /// The kinds and counters of the messages that came.
    came: Vec<(u8, u64)>,
}

impl fmt::Debug for OracleMaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OracleMaster")
    }
}

#[async_trait]
impl Client for OracleMaster {
    async fn request(&self, payload: Bytes, _: Instant) -> Result<Bytes> {
        let (mut header, body) = Header::decode(&payload);
        let mut state = self.state.lock().unwrap();
        state.came.push((header.kind, header.counter));
        let reply = match header.kind {
            kind::FIRST => {
                let (half_open, reply) = self.side.answer_first(CERTIFICATE, body);
                state.half_open = Some(half_open);
                (header.kind, header.session) = (kind::FIRST_REPLY, SESSION);
                header.with_body(&reply)
            }
            kind::FIRST_FINISH => {
                let ((said, _), keys) = finish(MINION, state.half_open.take().unwrap(), body);
                assert_eq!((said.id.as_str(), said.software.as_str()), ("m1", SOFTWARE));
                (header.kind, header.counter) = (kind::RECORD, 0);
                state.keys = Some(keys);
                Key::new(&keys.1).seal(&header, &[], &[], &self.welcome)
            }
            kind::RESUME => {
                let ((said, _), mut answering) = self.side.answer_resume(CERTIFICATE, body);
                assert_eq!(said.extensions[0].0, ATTEMPT_TIME);
                let reply = write(&mut answering, &self.welcome);
                state.keys = Some(split(answering));
                (header.kind, header.session) = (kind::RESUME_REPLY, SESSION);
                header.with_body(&reply)
            }
            _ => {
                let keys = state.keys.unwrap();
                let mut plain = Key::new(&keys.0).open(&header, &[], &[], body);
                plain.reverse();
                Key::new(&keys.1).seal(&header, &[], &[], &plain)
            }
        };
        Ok(reply.into())
    }

    async fn subscribe(
        &self,
        _: Option<&Endpoint>,
        _: Vec<TopicFilter>,
        _: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        unreachable!("no session subscribes")
    }

    fn peer_certificate(&self) -> Option<[u8; 32]> {
        CERTIFICATE
    }

    async fn shutdown(&self, _: Duration) -> Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_oracle_is_a_master_for_the_channels_minion() {
    let identity = Arc::new(Identity::generate().unwrap());
    let credentials = Credentials {
        role: Role::Minion,
        id: "m1".to_owned(),
        identity,
        noise: NoiseKey::generate().unwrap(),
        versions: ProtocolVersions::OURS,
    };
    let master = OracleMaster {
        side: side(MASTER, ""),
        welcome: encode(&Admission::<Welcome>::Pending(None)),
        state: Mutex::default(),
    };
    let keys = MasterKeys {
        identity: saline_channel::PublicIdentity(master.side.identity.public()),
        noise: Some(noise_public(&master.side.noise)),
        issued: ISSUED,
        predecessors: Vec::new(),
    };
    let deadline = Clock.after(Duration::from_secs(60));
    for (trust, handshake) in [
        (
            MasterTrust::FirstUse { finger: None },
            vec![kind::FIRST, kind::FIRST_FINISH],
        ),
        (MasterTrust::Pinned(keys.clone()), vec![kind::RESUME]),
    ] {
        let made = establish(&master, &credentials, &trust, deadline).await;
        let made = made.unwrap();
        assert_eq!(made.master, keys);
        assert!(matches!(made.answer, Admission::Pending(_)));
        let asked: [u8; 3] = [1, 2, 3];
        let answer: [u8; 3] = made
            .session
            .ask(&master, Class::Event, &asked, deadline)
            .await
            .unwrap();
        assert_eq!(answer, [3, 2, 1]);
        let state = std::mem::take(&mut *master.state.lock().unwrap());
        let handshake = handshake.into_iter().map(|kind| (kind, 0));
        let came: Vec<_> = handshake.chain([(kind::RECORD, 1)]).collect();
        assert_eq!(state.came, came);

        // A publication under the session's own key.
        let id = MinionId::parse("m1").unwrap();
        let group = GroupKeyMaterial {
            epoch: 5,
            key: [7; 32],
            last_number: 0,
        };
        let header = Header {
            kind: kind::PUBLICATION,
            session: SESSION,
            class: class::EVENT,
            counter: 7,
        };
        let clear = [5_u64.to_be_bytes(), 1_u64.to_be_bytes()].concat();
        let key = Key::of_publications(&state.keys.unwrap().1, 5);
        let topic = topic_of(&id);
        let frame = key.seal(&header, &clear, cipher::topic_of("m1").as_bytes(), &[2]);
        let mut opener = made.session.opener(&id, &group);
        let opened = opener.open(&topic, &frame).unwrap();
        assert_eq!(opened.content, Content::HeartbeatRequest);
    }
}

#[tokio::test]
async fn a_replaced_noise_key_is_refused() {
    let credentials = Credentials {
        role: Role::Minion,
        id: "m1".to_owned(),
        identity: Arc::new(Identity::generate().unwrap()),
        noise: NoiseKey::generate().unwrap(),
        versions: ProtocolVersions::OURS,
    };
    let deadline = Clock.after(Duration::from_secs(60));
    for (seen, is_refused) in [(ISSUED - 1, false), (ISSUED, false), (ISSUED + 1, true)] {
        let master = OracleMaster {
            side: side(MASTER, ""),
            welcome: encode(&Admission::<Welcome>::Pending(None)),
            state: Mutex::default(),
        };
        let trust = MasterTrust::Pinned(MasterKeys {
            identity: saline_channel::PublicIdentity(master.side.identity.public()),
            noise: None,
            issued: seen,
            predecessors: Vec::new(),
        });
        let met = establish(&master, &credentials, &trust, deadline).await;
        if is_refused {
            assert!(matches!(met, Err(ChannelError::OldNoiseKey)), "{met:?}");
            let came = &master.state.lock().unwrap().came;
            assert_eq!(*came, [(kind::FIRST, 0)], "it is told nothing");
        } else {
            assert_eq!(met.unwrap().master.issued, ISSUED);
        }
    }
}

/// A master of the oracle with the last of three identities, its earlier ones, and records in this order.
fn rotated_master(records: &[(usize, usize)]) -> (OracleMaster, [PublicIdentity; 3]) {
    let identities = [[40; 32], [41; 32], [MASTER + 3; 32]].map(|seed| {
        let identity = cipher::Identity::from_seed(&seed);
        (PublicIdentity(identity.public()), identity)
    });
    let record = |&(from, to): &(usize, usize)| successor(&identities[from].1, &identities[to].0.0);
    let mut side = side(MASTER, "");
    side.extensions = vec![
        (0x7001, vec![3; 20]),
        (SUCCESSORS, records.iter().flat_map(record).collect()),
    ];
    let master = OracleMaster {
        side,
        welcome: encode(&Admission::<Welcome>::Pending(None)),
        state: Mutex::default(),
    };
    (master, identities.map(|(public, _)| public))
}

#[tokio::test]
async fn a_master_is_followed_from_each_of_its_identities_and_from_no_other() {
    let credentials = Credentials {
        role: Role::Minion,
        id: "m1".to_owned(),
        identity: Arc::new(Identity::generate().unwrap()),
        noise: NoiseKey::generate().unwrap(),
        versions: ProtocolVersions::OURS,
    };
    let deadline = Clock.after(Duration::from_secs(60));
    let finger = |identity: PublicIdentity| Some(identity.fingerprint());
    let meant = |finger| MasterTrust::FirstUse { finger };
    let [first, second, third] = rotated_master(&[]).1;
    let stranger = PublicIdentity([1; 32]);
    let pinned = |identity| MasterTrust::Pinned(MasterKeys::identity_alone(identity));
    let expected = |known, finger: PublicIdentity| MasterTrust::Successor {
        known: MasterKeys::identity_alone(known),
        finger: finger.fingerprint(),
    };
    let all: &[(usize, usize)] = &[(0, 1), (1, 2)];
    for (records, trust, follows) in [
        (all, pinned(first), true),
        (all, pinned(second), true),
        (all, pinned(third), true),
        (all, pinned(stranger), false),
        (all, meant(finger(first)), true),
        (all, meant(finger(third)), true),
        (all, meant(finger(stranger)), false),
        (all, expected(first, third), true),
        (all, expected(first, second), true),
        (all, expected(first, stranger), false),
        (all, expected(stranger, third), false),
        // What is cut off at either end, forked, out of order or about others.
        (&all[1..], pinned(first), false),
        (&all[1..], pinned(second), true),
        (&all[..1], pinned(first), false),
        (&[(0, 1), (0, 2)], pinned(second), false),
        (&[(0, 1), (0, 2)], pinned(first), true),
        (&[(1, 2), (0, 1)], pinned(first), false),
        (&[], pinned(first), false),
        (&[(0, 1); 9], pinned(first), false),
    ] {
        let (master, _) = rotated_master(records);
        let met = establish(&master, &credentials, &trust, deadline).await;
        let case = format!("{records:?} {trust:?}");
        match met {
            Ok(made) => {
                assert!(follows, "{case}");
                assert_eq!(made.master.identity, third, "{case}");
                assert_eq!(made.session.master(), third, "{case}");
                let had = |identity: PublicIdentity| {
                    let finger = identity.fingerprint();
                    made.master.had_fingerprint(&finger)
                };
                assert_eq!(had(second), records.contains(&(1, 2)), "{case}");
                assert!(!had(third) && !had(stranger), "{case}");
            }
            Err(ChannelError::WrongMaster { found, .. }) => {
                assert!(!follows, "{case}");
                assert_eq!(found, third.fingerprint(), "{case}");
                let came = &master.state.lock().unwrap().came;
                assert_eq!(*came, [(kind::FIRST, 0)], "it is told nothing: {case}");
            }
            Err(error) => panic!("{case}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_peer_that_has_followed_does_not_go_back() {
    let credentials = Credentials {
        role: Role::Minion,
        id: "m1".to_owned(),
        identity: Arc::new(Identity::generate().unwrap()),
        noise: NoiseKey::generate().unwrap(),
        versions: ProtocolVersions::OURS,
    };
    let deadline = Clock.after(Duration::from_secs(60));
    let (master, [first, second, third]) = rotated_master(&[(0, 1), (1, 2)]);
    let trust = MasterTrust::Pinned(MasterKeys::identity_alone(first));
    let made = establish(&master, &credentials, &trust, deadline).await;
    let known = made.unwrap().master;
    assert_eq!(
        known.predecessors,
        [first.fingerprint(), second.fingerprint()]
    );
    // Its records may be gone: it is the master that it was, and what was known stays known.
    let (bare, _) = rotated_master(&[]);
    let trust = MasterTrust::Pinned(MasterKeys {
        noise: None,
        ..known.clone()
    });
    let again = establish(&bare, &credentials, &trust, deadline).await;
    assert_eq!(again.unwrap().master, known);
    // Somebody with the first key, with and without a successor of it that leads elsewhere.
    for records in [
        Vec::new(),
        successor(&cipher::Identity::from_seed(&[40; 32]), &third.0),
    ] {
        let (mut thief, _) = rotated_master(&[]);
        thief.side.identity = cipher::Identity::from_seed(&[40; 32]);
        thief.side.extensions = vec![(SUCCESSORS, records)];
        let met = establish(&thief, &credentials, &trust, deadline).await;
        assert!(
            matches!(met, Err(ChannelError::WrongMaster { .. })),
            "{met:?}"
        );
    }
}
