//! What a session of a minion may ask for.

use super::*;

#[tokio::test]
async fn a_minion_that_reconciles_again_and_again_waits() {
    let listener = TestListener::start(accept_all).await;
    let (minion, other) = (
        listener.minion(1, "m1").await,
        listener.minion(1, "m2").await,
    );
    let began = Clock.now();
    let mut done = 0;
    while let MinionReply::Reconciled(_) = minion.reconcile().await {
        done += 1;
        assert!(done <= 120 + 2 * (1 + (Clock.now() - began).as_secs()));
    }
    assert!(done >= 120, "{done}");
    // It does not get around that by farewells and new sessions.
    let farewell = minion.ask(&MinionRequest::Goodbye(None)).await;
    assert!(matches!(farewell, MinionReply::Busy { .. }), "{farewell:?}");
    let trust = MasterTrust::Pinned(listener.keys.clone());
    let again = listener
        .contact(1, minion.credentials, &trust)
        .await
        .unwrap();
    let reply = again.reconcile().await;
    assert!(matches!(reply, MinionReply::Busy { .. }), "{reply:?}");
    let reply = other.reconcile().await;
    assert!(matches!(reply, MinionReply::Reconciled(_)), "{reply:?}");
}

/// One request of each verb of minions.
fn verbs() -> Vec<MinionRequest> {
    let jid = Jid::parse("20261123000000000000").unwrap();
    vec![
        MinionRequest::Poll,
        MinionRequest::Heartbeat(heartbeat()),
        MinionRequest::Started(vec![jid.clone()]),
        MinionRequest::Returns(Vec::new()),
        MinionRequest::ReturnPart(ReturnPart {
            jid: jid.clone(),
            retcode: 0,
            success: true,
            part: Outgoing::new(vec![0]).part(0, 0),
        }),
        MinionRequest::Declined { jid: jid.clone() },
        MinionRequest::Claim { jid },
        MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX,
        },
        MinionRequest::FireEvents(MinionEvents {
            start: StartId([1; 16]),
            first: 1,
            events: Vec::new(),
        }),
        MinionRequest::Reconcile(reconciliation()),
        MinionRequest::Accounts(Vec::new()),
        MinionRequest::Grains(GrainsReport {
            digest: [0; 32],
            grains: None,
        }),
        MinionRequest::Goodbye(None),
    ]
}

#[tokio::test]
async fn a_request_for_too_much_is_refused_by_every_verb() {
    let listener = TestListener::start(accept_all).await;
    let (greedy, other) = (
        listener.minion(1, "m1").await,
        listener.minion(1, "m2").await,
    );
    let trust = MasterTrust::Pinned(listener.keys.clone());
    let mut caller = greedy.credentials.clone();
    caller.role = Role::Caller;
    let caller = listener.contact(1, caller, &trust).await.unwrap();
    let fires = CallerRequest::FireEvents(MinionEvents {
        start: StartId([2; 16]),
        first: 1,
        events: Vec::new(),
    });
    let deadline = || Clock.after(Duration::from_secs(30));
    let call = async || -> CallerReply {
        let session = &caller.established.session;
        let asked = session.ask(&caller.client, Class::Event, &fires, deadline());
        asked.await.unwrap()
    };
    assert_eq!(call().await, CallerReply::Done);
    let id = MinionId::parse("m1").unwrap();
    let accounts = listener.master.state.accounts();
    accounts.exhaust(&id);
    for request in verbs() {
        let reply = greedy.ask(&request).await;
        assert!(
            matches!(reply, MinionReply::Busy { .. }),
            "{request:?}: {reply:?}"
        );
    }
    assert!(
        matches!(call().await, CallerReply::Busy { .. }),
        "its caller"
    );
    assert_eq!(accounts.report().1, 14, "every refusal is counted");
    // A new session has the same account, and another minion its own.
    let again = listener
        .contact(1, greedy.credentials, &trust)
        .await
        .unwrap();
    let reply = again.reconcile().await;
    assert!(matches!(reply, MinionReply::Busy { .. }), "{reply:?}");
    for request in verbs() {
        let reply = other.ask(&request).await;
        assert!(!matches!(reply, MinionReply::Busy { .. }), "{request:?}");
    }
    // It goes with the key.
    listener
        .listener
        .handlers
        .admission
        .revocation
        .revoke(vec![id])
        .await;
    assert!(
        accounts.report().0 <= 1,
        "only that of the other may be left"
    );
}

/// With `max_minions`, those that are gone make room.
#[tokio::test]
async fn a_master_that_is_full_takes_another_minion_when_one_has_gone() {
    let listener = TestListener::start(|config| {
        config.auto_accept = true;
        config.max_minions = 1;
    })
    .await;
    let first = listener.minion(1, "m1").await;
    assert!(matches!(
        first.reconcile().await,
        MinionReply::Reconciled(_)
    ));
    let second = listener.minion(1, "m2").await;
    assert_eq!(second.established.answer, Admission::Full);
    let trust = MasterTrust::Pinned(listener.keys.clone());
    let credentials = first.credentials.clone();
    let again = listener.contact(1, credentials, &trust).await.unwrap();
    assert!(again.established.answer.is_accepted(), "it is here already");
    assert_eq!(
        first.ask(&MinionRequest::Goodbye(None)).await,
        MinionReply::Done
    );
    let second = listener.minion(1, "m2").await;
    assert!(second.established.answer.is_accepted());
}
