//! Publications: what the master seals, what a minion that knows the group key seals by itself, and what
//! strangers send.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use saline_channel::publication::{
    Body, Content, PublicationError, PublicationKey, PublicationNumbers, sign_job, topic_all,
    topic_of, verify_job,
};
use saline_channel::record::ResponderRecords;
use saline_channel::{PublicationOpener, PublicationRoot};
use saline_messages::{
    Class, GroupKeyMaterial, Header, Kind, MinionId, SessionId, SignedJob, decode,
};

use crate::golden::golden;
use crate::messages::decoded;
use crate::peers::{PEERS, session_keys};

const EPOCH: u64 = 7;

/// The numbers of an opener that has opened nothing.
const UNCHANGED: PublicationNumbers = PublicationNumbers {
    epoch: EPOCH,
    last_all: 2,
    last_own: 0,
};
const SESSION: SessionId = SessionId([4; 16]);

struct Session {
    root: Arc<PublicationRoot>,
    group: GroupKeyMaterial,
    id: MinionId,
}

static THE_SESSION: LazyLock<Session> = LazyLock::new(|| Session {
    root: ResponderRecords::new(&session_keys()).publications,
    group: GroupKeyMaterial {
        epoch: EPOCH,
        key: [7; 32],
        last_number: 2,
    },
    id: MinionId::parse("m1").expect("a valid id"),
});

impl Session {
    fn opener(&self) -> PublicationOpener {
        PublicationOpener::new(
            PEERS.master_identity(),
            SESSION,
            Arc::clone(&self.root),
            &self.id,
            &self.group,
        )
    }

    /// Returns `body` as anybody who knows the group key can seal it.
    fn sealed_by_a_minion(&self, number: u64, body: &[u8]) -> Vec<u8> {
        let header = Header {
            kind: Kind::Publication,
            session: SessionId::default(),
            class: Class::Event,
            counter: number,
        };
        let mut head = header.encode().to_vec();
        head.extend_from_slice(&self.group.epoch.to_be_bytes());
        head.extend_from_slice(&number.to_be_bytes());
        let key = UnboundKey::new(&AES_256_GCM_SIV, &self.group.key).expect("32 bytes are a key");
        let mut sealed = body.to_vec();
        LessSafeKey::new(key)
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(header.nonce()),
                Aad::from([&head[..], topic_all().as_str().as_bytes()].concat()),
                &mut sealed,
            )
            .expect("an input is far below 64 GiB");
        [head, sealed].concat()
    }
}

/// The first byte says who sends, the second is the publication's number, and the others are its body, or a
/// whole frame.
pub(crate) fn publications(bytes: &[u8]) {
    let Some(([sender, number], rest)) = bytes.split_first_chunk() else {
        return;
    };
    let number = u64::from(*number);
    match sender % 4 {
        0 => stranger(rest),
        1 => minion(number, rest),
        2 => master(number, rest, true),
        _ => master(number, rest, false),
    }
    verify(rest);
}

/// A stranger has no key: nothing of it opens.
fn stranger(frame: &[u8]) {
    let session = &*THE_SESSION;
    let mut opener = session.opener();
    assert!(opener.open(&topic_all(), frame).is_err());
    assert!(opener.open(&topic_of(&session.id), frame).is_err());
    assert!(
        !opener.missed(UNCHANGED, UNCHANGED),
        "it has changed nothing"
    );
}

/// A minion knows the group key, and can sign no job with it, nor bring in another key.
fn minion(number: u64, body: &[u8]) {
    let session = &*THE_SESSION;
    let mut opener = session.opener();
    let frame = session.sealed_by_a_minion(number, body);
    match opener.open(&topic_all(), &frame) {
        Ok(opened) => {
            assert_eq!(opened.content, Content::HeartbeatRequest);
            assert!(number > session.group.last_number);
            assert_eq!(opened.gap, number > session.group.last_number + 1);
            let again = opener.open(&topic_all(), &frame);
            assert_eq!(again, Err(PublicationError::Replayed));
        }
        Err(_) => assert!(
            !opener.missed(UNCHANGED, UNCHANGED),
            "it has changed nothing"
        ),
    }
    let own = opener.open(&topic_of(&session.id), &frame);
    assert!(own.is_err(), "sealed for another topic");
}

/// What the master seals opens once.
fn master(number: u64, body: &[u8], to_all: bool) {
    let session = &*THE_SESSION;
    let Some(body) = decoded::<Body>(body) else {
        return;
    };
    let body = match body {
        Body::Job(signed) => Body::Job(SignedJob {
            secrets: signed.secrets,
            ..sign_job(&PEERS.master, signed.job)
        }),
        body => body,
    };
    let (topic, sealer, of, last) = if to_all {
        let key = PublicationKey::group(&session.group);
        (topic_all(), key, SessionId::default(), 2)
    } else {
        (topic_of(&session.id), session.root.key(EPOCH), SESSION, 0)
    };
    let frame = sealer.seal(&topic, of, number, number, &body.encode());
    let mut opener = session.opener();
    let opened = opener.open(&topic, &frame);
    let expected = match body {
        _ if number <= last => Err(PublicationError::Replayed),
        Body::Job(signed) => Ok(Content::Job(signed.job, signed.secrets)),
        Body::HeartbeatRequest => Ok(Content::HeartbeatRequest),
        Body::GroupKey(material) if !to_all && material.epoch == EPOCH => {
            Ok(Content::NewEpoch(EPOCH))
        }
        Body::GroupKey(_) => Err(PublicationError::Forged),
    };
    let is_opened = expected.is_ok();
    assert_eq!(opened.map(|opened| opened.content), expected);
    if is_opened {
        let again = opener.open(&topic, &frame);
        assert_eq!(again, Err(PublicationError::Replayed));
    }
}

/// A signature covers all of a job.
fn verify(bytes: &[u8]) {
    let Ok(signed) = decode::<SignedJob>(bytes) else {
        return;
    };
    let master = PEERS.master_identity();
    assert_eq!(verify_job(&master, signed.clone()), None, "of nobody");
    let mut signed = sign_job(&PEERS.master, signed.job);
    assert_eq!(
        verify_job(&master, signed.clone()).as_ref(),
        Some(&(signed.job.clone(), None))
    );
    signed.job.expires ^= 1;
    assert_eq!(verify_job(&master, signed), None, "changed");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for body in golden(&["Body."]) {
        for sender in 0..4 {
            seeds.push([&[sender, 3], &body[..]].concat());
        }
    }
    let frame = THE_SESSION.sealed_by_a_minion(3, &[9]);
    seeds.push([&[0, 0], &frame[..]].concat());
    // A signed job alone: a body without its variant.
    let jobs = golden(&["Body.Job"]).into_iter();
    seeds.extend(jobs.map(|body| [&[0, 0], &body[1..]].concat()));
    seeds
}
