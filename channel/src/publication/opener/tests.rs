use super::*;
use crate::Identity;
use crate::publication::{PublicationKey, sign_again, sign_job};
use proptest::prelude::*;
use saline_messages::{Arguments, Jid, MustClaim};
use saline_targeting::Target;

const ROOT: [u8; 32] = [3; 32];
const SESSION: SessionId = SessionId([4; 16]);

fn id() -> MinionId {
    MinionId::parse("m1").unwrap()
}

fn material(epoch: u64) -> GroupKeyMaterial {
    GroupKeyMaterial {
        epoch,
        key: [epoch as u8; 32],
        last_number: 0,
    }
}

fn job() -> Job {
    Job {
        jid: Jid::parse("20261121091409931549").unwrap(),
        target: Target::glob("*"),
        fun: "test.ping".into(),
        arg: Arguments::default().pack(),
        user: "root".into(),
        created: 1,
        expires: 2,
        claims: MustClaim::NOBODY,
    }
}

fn opener(master: &Identity) -> PublicationOpener {
    PublicationOpener::new(
        master.public(),
        SESSION,
        Arc::new(PublicationRoot::new(&ROOT)),
        &id(),
        &material(7),
    )
}

#[test]
fn jobs_open_in_order_and_gaps_show() {
    let master = Identity::generate().unwrap();
    let mut opener = opener(&master);
    let key = PublicationKey::group(&material(7));
    let body = Body::Job(sign_job(&master, job()));
    let frame = |number| {
        key.seal(
            &topic_all(),
            SessionId::default(),
            number,
            number,
            &body.encode(),
        )
    };
    assert!(!opener.open(&topic_all(), &frame(1)).unwrap().gap);
    assert_eq!(
        opener.open(&topic_all(), &frame(1)),
        Err(PublicationError::Replayed)
    );
    assert!(opener.open(&topic_all(), &frame(3)).unwrap().gap);
    assert_eq!(
        opener.open(&topic_all(), &frame(2)),
        Err(PublicationError::Replayed)
    );
    let said = |last_all| PublicationNumbers {
        epoch: 7,
        last_all,
        last_own: 0,
    };
    let before = opener.numbers();
    assert!(!opener.missed(said(3), before));
    assert!(opener.missed(said(4), before));
    assert!(
        opener.open(&topic_of(&id()), &frame(5)).is_err(),
        "another topic"
    );
}

#[test]
fn a_rotation_comes_on_the_own_topic_and_the_old_key_is_dead() {
    let master = Identity::generate().unwrap();
    let mut opener = opener(&master);
    let own = topic_of(&id());
    let root = PublicationRoot::new(&ROOT);
    let frame = root
        .key(8)
        .seal(&own, SESSION, 1, 1, &Body::GroupKey(material(8)).encode());
    assert_eq!(
        opener.open(&own, &frame).unwrap().content,
        Content::NewEpoch(8)
    );
    let body = Body::Job(sign_job(&master, job()));
    let old = PublicationKey::group(&material(7)).seal(
        &topic_all(),
        SessionId::default(),
        9,
        9,
        &body.encode(),
    );
    assert_eq!(
        opener.open(&topic_all(), &old),
        Err(PublicationError::OtherEpoch)
    );
    let new = PublicationKey::group(&material(8)).seal(
        &topic_all(),
        SessionId::default(),
        2,
        1,
        &body.encode(),
    );
    assert!(opener.open(&topic_all(), &new).is_ok());
}

#[test]
fn one_who_has_the_group_key_deafens_nobody_for_longer_than_a_heartbeat() {
    let master = Identity::generate().unwrap();
    let mut opener = opener(&master);
    let key = PublicationKey::group(&material(7));
    let body = Body::Job(sign_job(&master, job())).encode();
    let frame = |number| key.seal(&topic_all(), SessionId::default(), number, number, &body);
    assert!(opener.open(&topic_all(), &frame(1)).is_ok());
    // The job of the master, sealed again by another minion.
    assert!(opener.open(&topic_all(), &frame(u64::MAX)).is_ok());
    assert!(opener.open(&topic_all(), &frame(2)).is_err());
    let before = opener.numbers();
    let said = PublicationNumbers {
        epoch: 7,
        last_all: 2,
        last_own: 0,
    };
    assert!(opener.missed(said, before), "it asks for what it missed");
    assert!(opener.open(&topic_all(), &frame(3)).is_ok());
    // What came while the reply was under way is no lie.
    assert!(!opener.missed(said, said));
    assert_eq!(opener.numbers().last_all, 3);
}

#[test]
fn one_who_has_the_group_key_cannot_give_orders() {
    let (master, minion) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let mut opener = opener(&master);
    let forged = PublicationKey::group(&material(7)).seal(
        &topic_all(),
        SessionId::default(),
        1,
        1,
        &Body::Job(sign_job(&minion, job())).encode(),
    );
    assert_eq!(
        opener.open(&topic_all(), &forged),
        Err(PublicationError::NotSigned)
    );
    let rotation = PublicationKey::group(&material(7)).seal(
        &topic_all(),
        SessionId::default(),
        2,
        1,
        &Body::GroupKey(material(7)).encode(),
    );
    assert!(opener.open(&topic_all(), &rotation).is_err());
}

#[test]
fn the_signature_covers_every_field() {
    let master = Identity::generate().unwrap();
    let signed = sign_job(&master, job());
    assert!(verify_job(&master.public(), signed.clone()).is_some());
    let changes: [fn(&mut Job); 6] = [
        |job| job.fun = "cmd.run".into(),
        |job| job.target = Target::glob("m1"),
        |job| {
            job.arg = Arguments {
                positional: vec!["x".into()],
                named: vec![],
            }
            .pack();
        },
        |job| job.expires += 1,
        |job| job.created += 1,
        |job| job.user = "eve".into(),
    ];
    for change in changes {
        let mut changed = signed.clone();
        change(&mut changed.job);
        assert!(verify_job(&master.public(), changed).is_none());
    }
}

#[test]
fn a_job_of_a_predecessor_is_signed_again_and_no_other() {
    let [first, second, master, stranger] = [(); 4].map(|()| Identity::generate().unwrap());
    let before = [first.public(), second.public()];
    for (signer, is_taken) in [
        (&first, true),
        (&second, true),
        (&master, true),
        (&stranger, false),
    ] {
        let signed = sign_again(&master, &before, sign_job(signer, job()));
        assert_eq!(verify_job(&master.public(), signed).is_some(), is_taken);
    }
    // One that was changed after it was signed.
    let mut signed = sign_job(&first, job());
    signed.job.fun = "cmd.run".into();
    let signed = sign_again(&master, &before, signed);
    assert!(verify_job(&master.public(), signed).is_none());
}

proptest! {
    #[test]
    fn any_bytes_are_refused_cleanly(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let master = Identity::generate().unwrap();
        prop_assert!(opener(&master).open(&topic_all(), &bytes).is_err());
        prop_assert!(opener(&master).open(&topic_of(&id()), &bytes).is_err());
    }
}
