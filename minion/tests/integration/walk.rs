//! The walk of a job through the minion, with a master whose replies a test prescribes.

use std::time::Duration;

use crate::scripted_master::{Fixture, NOW, ScriptedMaster, job};
use saline_channel::Identity;
use saline_channel::publication::sign_job;
use saline_data::{Packed, Value};
use saline_messages::{
    JobAccount, Known, Lease, MinionId, MinionReply, MinionRequest, MustClaim, RefusedVerb, Return,
    ReturnVerdict,
};
use saline_minion::spool::Spool;
use saline_protocol::transport::Clock;
use saline_targeting::Target;

#[tokio::test]
async fn it_announces_itself_once_and_says_goodbye() {
    let fixture = Fixture::new().await;
    let minion = fixture.start(fixture.config()).await;
    let starts = |request: &MinionRequest| match request {
        MinionRequest::FireEvents(sent) => sent.first == 1 && sent.events[0].tag == "start",
        _ => false,
    };
    let fired = |master: &ScriptedMaster| master.said().iter().filter(|r| starts(r)).count();
    fixture.master.wait("the start", |s| fired(s) == 1).await;
    fixture.master.forget_session();
    // A minion that is told to stop before its session is served says nothing.
    fixture
        .master
        .wait("a new session that is served", |s| {
            let asked = s.said().into_iter();
            asked
                .filter(|r| matches!(r, MinionRequest::PendingJobs { .. }))
                .count()
                == 2
        })
        .await;
    assert_eq!(fixture.master.sessions(), 2);
    let jid = fixture.master.sign(job(1, "test.ping", &[]));
    fixture.master.set_pending(vec![jid]);
    minion.stop().await;
    assert_eq!(fired(&fixture.master), 1);
    // A report that was on its way when the minion was told to stop may come after its goodbye, which ends the session.
    let is_report =
        |r: &MinionRequest| matches!(r, MinionRequest::Grains(_) | MinionRequest::Functions(_));
    let mut said = fixture.master.said();
    said.retain(|request| !is_report(request));
    assert_eq!(said.last(), Some(&MinionRequest::Goodbye(None)));
}

#[tokio::test]
async fn a_job_that_comes_on_every_way_runs_once() {
    let fixture = Fixture::new().await;
    let minion = fixture.start(fixture.config()).await;
    let master = &fixture.master;
    let ping = master.sign(job(1, "test.ping", &[]));
    master.to_all(ping.clone(), true).await;
    master.to_one("m1", ping.clone()).await;
    master.set_pending(vec![ping.clone()]);
    // A gap: what was lost is asked for, and the same job is in the answer.
    master
        .to_all(master.sign(job(2, "test.ping", &[])), false)
        .await;
    master.wait_for_returns(1).await;
    master.forget_session();
    master.wait("a new session", |s| s.sessions() == 2).await;
    master
        .wait("a second question", |s| {
            let asked = s.said().into_iter();
            asked
                .filter(|r| matches!(r, MinionRequest::PendingJobs { .. }))
                .count()
                >= 2
        })
        .await;
    master
        .to_all(master.sign(job(3, "test.ping", &[])), true)
        .await;
    let returns = master.wait_for_returns(2).await;
    let jids: Vec<&str> = returns.iter().map(|r| r.jid.as_str()).collect();
    assert_eq!(jids, ["20261121000000000001", "20261121000000000003"]);
    minion.stop().await;

    // Also after a restart.
    let minion = fixture.start(fixture.config()).await;
    master.to_all(ping, true).await;
    master
        .to_all(master.sign(job(4, "test.ping", &[])), true)
        .await;
    let returns = master.wait_for_returns(3).await;
    assert_eq!(returns[2].jid.as_str(), "20261121000000000004");
    assert_eq!(returns.len(), 3);
    minion.stop().await;
}

#[tokio::test]
async fn what_was_lost_on_the_way_is_asked_for() {
    let fixture = Fixture::new().await;
    let minion = fixture.start(fixture.config()).await;
    let master = &fixture.master;
    let lost = master.sign(job(1, "test.echo", &["lost".into()]));
    master.set_pending(vec![lost.clone()]);
    // Nothing comes after it: only a heartbeat tells.
    master.to_all(lost, false).await;
    let returns = master.wait_for_returns(1).await;
    assert_eq!(returns[0].payload.unpack().unwrap(), Value::from("lost"));
    minion.stop().await;
}

/// Without it a disk that is put back to what it was before the session would be noticed only after the next one.
#[tokio::test]
async fn a_session_begins_with_a_heartbeat_that_the_spool_has() {
    let fixture = Fixture::new().await;
    fixture.master.set(|state| state.heartbeat_ms = 3_600_000);
    let minion = fixture.start(fixture.config()).await;
    let heard = |master: &ScriptedMaster| master.heartbeats() == 1;
    fixture.master.wait("a heartbeat", heard).await;
    minion.stop().await;
    let noted = Spool::open(fixture.config().spool(), false);
    assert_eq!(noted.unwrap().heartbeats_noted(), 1);
}

#[tokio::test]
async fn what_is_for_others_is_declined_only_where_it_was_offered() {
    let fixture = Fixture::new().await;
    let minion = fixture.start(fixture.config()).await;
    let master = &fixture.master;
    let for_others = |number| {
        let mut job = job(number, "test.ping", &[]);
        job.target = Target::glob("m2");
        master.sign(job)
    };
    master.to_all(for_others(1), true).await;
    master.to_one("m1", for_others(2)).await;
    master
        .to_one("m1", master.sign(job(3, "test.ping", &[])))
        .await;
    master.wait_for_returns(1).await;
    master
        .wait("an expiry ack", |s| {
            let mut said = s.said().into_iter();
            said.any(|r| matches!(r, MinionRequest::Declined { .. }))
        })
        .await;
    let declined: Vec<_> = master
        .said()
        .into_iter()
        .filter_map(|request| match request {
            MinionRequest::Declined { jid } => Some(jid.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(declined, ["20261121000000000002"]);
    minion.stop().await;
}

#[tokio::test]
async fn what_the_master_did_not_sign_or_is_too_late_does_not_run() {
    let fixture = Fixture::new().await;
    let minion = fixture.start(fixture.config()).await;
    let master = &fixture.master;
    let stranger = Identity::generate().unwrap();
    master
        .to_all(sign_job(&stranger, job(1, "test.ping", &[])), true)
        .await;
    let mut late = job(2, "test.ping", &[]);
    late.expires = NOW - 1;
    master.to_all(master.sign(late), true).await;
    let forged = sign_job(&stranger, job(3, "test.ping", &[]));
    master.set_pending(vec![forged, master.sign(job(4, "test.ping", &[]))]);
    master
        .to_all(master.sign(job(5, "test.ping", &[])), false)
        .await;
    master
        .to_all(master.sign(job(6, "test.ping", &[])), true)
        .await;
    let mut returns = master.wait_for_returns(2).await;
    returns.sort_by(|a, b| a.jid.cmp(&b.jid));
    let jids: Vec<&str> = returns.iter().map(|r| r.jid.as_str()).collect();
    assert_eq!(jids, ["20261121000000000004", "20261121000000000006"]);
    minion.stop().await;
}

#[tokio::test]
async fn a_return_is_sent_until_a_verdict_comes() {
    let fixture = Fixture::new().await;
    let minion = fixture.start(fixture.config()).await;
    let master = &fixture.master;
    for verdict in [
        ReturnVerdict::Stored,
        ReturnVerdict::Duplicate,
        ReturnVerdict::UnknownJob,
        ReturnVerdict::NotOffered,
    ] {
        master.answer_return(MinionReply::Busy { after_ms: 1 });
        master.answer_return(MinionReply::Verdicts(vec![verdict]));
        let sent = master.returns().len();
        let number = sent as u64 + 1;
        master
            .to_all(master.sign(job(number, "test.ping", &[])), true)
            .await;
        master.wait_for_returns(sent + 2).await;
        master
            .wait("an empty spool", |_| minion.minion.unacknowledged() == 0)
            .await;
    }
    assert_eq!(master.returns().len(), 8);
    minion.stop().await;
}

#[tokio::test]
async fn a_return_that_the_master_cannot_read_becomes_one_that_says_so() {
    let fixture = Fixture::new().await;
    let minion = fixture.start(fixture.config()).await;
    let master = &fixture.master;
    master.answer_return(MinionReply::Refused(RefusedVerb::Malformed));
    let long = Value::from("x".repeat(10_000));
    master
        .to_all(master.sign(job(1, "test.echo", &[long])), true)
        .await;
    let returns = master.wait_for_returns(2).await;
    assert!(returns[0].success && !returns[1].success);
    let said = returns[1].payload.unpack().unwrap();
    let Value::Text(text) = said else {
        panic!("{returns:?}");
    };
    let kept = text
        .strip_prefix(
            "ERROR: the master could not read the return; it is stored, as MessagePack, in ",
        )
        .unwrap();
    assert!(
        std::fs::metadata(kept).unwrap().len() > 4096,
        "nothing is lost"
    );
    minion.stop().await;
}

/// Returns that wait in the spool of `fixture` when its minion starts.
fn spool(fixture: &Fixture, payloads: &[Value]) {
    let spool = Spool::open(fixture.config().spool(), false).unwrap();
    for (number, payload) in (1..).zip(payloads) {
        let job = job(number, "test.echo", &[]);
        spool.begin(&job).unwrap();
        spool.finish(Return {
            jid: job.jid,
            fun: job.fun,
            retcode: 0,
            success: true,
            payload: Packed::pack(payload),
        });
    }
}

/// How many returns each request of the minion carried.
fn batches(master: &ScriptedMaster) -> Vec<usize> {
    let said = master.said().into_iter();
    said.filter_map(|request| match request {
        MinionRequest::Returns(returns) => Some(returns.len()),
        _ => None,
    })
    .collect()
}

#[tokio::test]
async fn returns_that_wait_travel_together() {
    let fixture = Fixture::new().await;
    spool(&fixture, &vec![Value::from("x"); 100]);
    let minion = fixture.start(fixture.config()).await;
    fixture.master.wait_for_returns(100).await;
    fixture
        .master
        .wait("an empty spool", |_| minion.minion.unacknowledged() == 0)
        .await;
    let mut jids: Vec<_> = fixture
        .master
        .returns()
        .into_iter()
        .map(|r| r.jid)
        .collect();
    jids.sort();
    jids.dedup();
    assert_eq!(jids.len(), 100);
    let mut batches = batches(&fixture.master);
    batches.sort_unstable();
    assert_eq!(batches, [37, 63]);
    minion.stop().await;
}

#[tokio::test]
async fn large_returns_do_not_share_a_request() {
    let fixture = Fixture::new().await;
    let large = Value::from("x".repeat(30 * 1024));
    spool(&fixture, &[large.clone(), large]);
    let minion = fixture.start(fixture.config()).await;
    fixture.master.wait_for_returns(2).await;
    assert_eq!(batches(&fixture.master), [1, 1]);
    minion.stop().await;
}

#[tokio::test]
async fn one_return_that_cannot_be_read_does_not_hold_up_those_beside_it() {
    let fixture = Fixture::new().await;
    let (small, long) = (Value::from("x"), Value::from("y".repeat(10_000)));
    spool(&fixture, &[small.clone(), long, small]);
    let master = &fixture.master;
    let stored = MinionReply::Verdicts(vec![ReturnVerdict::Stored]);
    let unreadable = MinionReply::Refused(RefusedVerb::Malformed);
    // All three, then each alone, of which the second is at fault.
    for answer in [unreadable.clone(), stored.clone(), unreadable, stored] {
        master.answer_return(answer);
    }
    let minion = fixture.start(fixture.config()).await;
    let returns = master.wait_for_returns(7).await;
    assert_eq!(batches(master), [3, 1, 1, 1, 1]);
    let replaced: Vec<_> = returns.iter().filter(|r| !r.success).collect();
    assert_eq!(replaced.len(), 1);
    assert_eq!(replaced[0].jid, job(2, "test.echo", &[]).jid);
    master
        .wait("an empty spool", |_| minion.minion.unacknowledged() == 0)
        .await;
    minion.stop().await;
}

#[tokio::test]
async fn long_runs_are_announced_and_short_ones_are_not() {
    let fixture = Fixture::new().await;
    let minion = fixture.start(fixture.config()).await;
    let master = &fixture.master;
    master
        .to_all(master.sign(job(1, "test.ping", &[])), true)
        .await;
    master
        .to_all(
            master.sign(job(2, "test.sleep", &[Value::Float(0.8)])),
            true,
        )
        .await;
    master.wait_for_returns(2).await;
    let started: Vec<_> = master
        .said()
        .into_iter()
        .filter_map(|request| match request {
            MinionRequest::Started(jids) => Some(jids),
            _ => None,
        })
        .flatten()
        .map(|jid| jid.to_string())
        .collect();
    assert_eq!(started, ["20261121000000000002"]);
    minion.stop().await;
}

#[tokio::test]
async fn more_than_may_run_at_once_wait_for_their_turn() {
    let fixture = Fixture::new().await;
    let mut config = fixture.config();
    config.process_count_max = 1;
    let minion = fixture.start(config).await;
    let master = &fixture.master;
    let began = Clock.now();
    for number in 1..=4 {
        let sleep = job(number, "test.sleep", &[Value::Float(0.1)]);
        master.to_all(master.sign(sleep), true).await;
    }
    master.wait_for_returns(4).await;
    assert!(Clock.now() - began >= Duration::from_millis(400));
    minion.stop().await;
}

#[tokio::test]
async fn a_full_disk_is_answered_and_the_minion_lives() {
    let fixture = Fixture::new().await;
    let config = fixture.config();
    std::fs::create_dir_all(&config.paths.state_dir).unwrap();
    // A device of its own, since a link to /dev/full is refused. Only root can make one.
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        config.spool(),
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::from_raw_mode(0o600),
        rustix::fs::makedev(1, 7),
    );
    if made == Err(rustix::io::Errno::PERM) {
        return;
    }
    made.unwrap();
    let minion = fixture.start(config).await;
    let master = &fixture.master;
    for number in 1..=2 {
        master
            .to_all(master.sign(job(number, "test.ping", &[])), true)
            .await;
    }
    for returned in master.wait_for_returns(2).await {
        let said = returned.payload.unpack().unwrap();
        let said = said.as_str().unwrap().to_owned();
        assert!(
            said.contains("not run: the minion could not write to its spool"),
            "{said}"
        );
        assert!(!returned.success);
    }
    minion.stop().await;
}

#[tokio::test]
async fn outside_of_its_lease_a_minion_begins_only_what_it_may_claim() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    master.set(|script| script.lease = Lease::default());
    let minion = fixture.start(fixture.config()).await;
    let claims = |master: &ScriptedMaster| {
        let said = master.said();
        let claims = said.iter().filter_map(|request| match request {
            MinionRequest::Claim { jid } => Some(jid.clone()),
            _ => None,
        });
        claims.collect::<Vec<_>>()
    };
    master
        .to_all(master.sign(job(1, "test.ping", &[])), true)
        .await;
    master
        .wait("a claim", |master| claims(master).len() == 1)
        .await;
    master.set(|script| script.grants = true);
    master
        .to_all(master.sign(job(2, "test.ping", &[])), true)
        .await;
    let returns = master.wait_for_returns(1).await;
    assert_eq!(returns[0].jid, job(2, "test.ping", &[]).jid);
    // Covered by its lease, but named.
    master.set(|script| {
        script.lease = Lease {
            after: 0,
            until: u64::MAX,
        };
    });
    let mut named = job(3, "test.ping", &[]);
    named.claims = MustClaim::These(vec![MinionId::parse("m1").unwrap()]);
    let named_jid = named.jid.clone();
    master.to_all(master.sign(named), true).await;
    master.wait_for_returns(2).await;
    assert!(claims(master).contains(&named_jid));
    minion.stop().await;
}

#[tokio::test]
async fn a_batch_is_claimed_however_it_comes_and_may_come_again_after_a_refusal() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    let minion = fixture.start(fixture.config()).await;
    let mut batch = job(1, "test.ping", &[]);
    batch.claims = MustClaim::Everybody;
    let claim = MinionRequest::Claim {
        jid: batch.jid.clone(),
    };
    let claims = |master: &ScriptedMaster| {
        let said = master.said();
        said.iter().filter(|request| **request == claim).count()
    };
    let batch = master.sign(batch.clone());
    master.to_one("m1", batch.clone()).await;
    master
        .wait("a claim that is refused", |master| {
            claims(master) == 1 && minion.minion.is_idle()
        })
        .await;
    assert_eq!(master.returns(), []);
    master.set(|script| script.grants = true);
    master.to_one("m1", batch).await;
    master.wait_for_returns(1).await;
    assert_eq!(claims(master), 2);
    minion.stop().await;
}

#[tokio::test]
async fn a_job_that_was_seen_is_answered_with_what_is_known() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    let minion = fixture.start(fixture.config()).await;
    let known = job(1, "test.ping", &[]);
    master.to_all(master.sign(known.clone()), true).await;
    master.wait_for_returns(1).await;
    master
        .wait("an empty spool", |_| minion.minion.unacknowledged() == 0)
        .await;
    // The master lost it, and hands it over again.
    master.to_one("m1", master.sign(known.clone())).await;
    let delivered = JobAccount {
        jid: known.jid,
        known: Known::Delivered,
    };
    master
        .wait("an account", |master| {
            let account = MinionRequest::Accounts(vec![delivered.clone()]);
            master.said().contains(&account)
        })
        .await;
    minion.stop().await;
}

#[tokio::test]
async fn a_minion_accounts_for_what_its_master_asks_for() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    let ghost = job(9, "test.ping", &[]).jid;
    master.set(|script| script.asked = vec![ghost.clone()]);
    let minion = fixture.start(fixture.config()).await;
    let steps: Vec<_> = master
        .said()
        .into_iter()
        .filter_map(|request| match request {
            MinionRequest::Reconcile(said) => Some(said.accounts),
            _ => None,
        })
        .collect();
    let account = JobAccount {
        jid: ghost,
        known: Known::No,
    };
    assert_eq!(steps, [vec![], vec![account]]);
    // What it does not know it never begins: the operator was told so.
    let ghost = master.sign(job(9, "test.ping", &[]));
    master.to_one("m1", ghost).await;
    master
        .to_one("m1", master.sign(job(10, "test.ping", &[])))
        .await;
    let returns = master.wait_for_returns(1).await;
    assert_eq!(returns[0].jid, job(10, "test.ping", &[]).jid);
    minion.stop().await;
}

#[tokio::test]
async fn a_cancelled_job_does_not_begin() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    let minion = fixture.start(fixture.config()).await;
    let cancelled = job(1, "test.ping", &[]);
    master.set(|script| script.cancelled = vec![cancelled.jid.clone()]);
    let barred = MinionRequest::Accounts(vec![JobAccount {
        jid: cancelled.jid.clone(),
        known: Known::Barred,
    }]);
    master
        .wait("an account", |master| master.said().contains(&barred))
        .await;
    master.to_all(master.sign(cancelled), true).await;
    master
        .to_all(master.sign(job(2, "test.ping", &[])), true)
        .await;
    let returns = master.wait_for_returns(1).await;
    assert_eq!(returns[0].jid, job(2, "test.ping", &[]).jid);
    minion.stop().await;
}

#[tokio::test]
async fn a_refused_return_is_set_aside_and_not_sent_again() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    spool(&fixture, &[Value::from("kept")]);
    master.answer_return(MinionReply::Verdicts(vec![ReturnVerdict::UnknownJob]));
    let minion = fixture.start(fixture.config()).await;
    master.wait_for_returns(1).await;
    master
        .wait("nothing to send", |_| minion.minion.unacknowledged() == 0)
        .await;
    minion.stop().await;
    let spool = Spool::open(fixture.config().spool(), false).unwrap();
    let aside = spool.aside();
    assert_eq!(aside.len(), 1);
    let kept = spool.read(&aside[0]).unwrap().unwrap();
    assert_eq!(kept.payload, Packed::pack(&Value::from("kept")));
}
