//! What handshakes of one source take from those of others.

use super::*;

#[tokio::test]
async fn one_source_does_not_take_what_belongs_to_others() {
    let listener = TestListener::start(accept_all).await;
    let began = Clock.now();
    let answered = listener.leave_first_contacts_unfinished(1).await;
    let passed = (Clock.now() - began).as_secs_f64();
    let most = BURST + (passed * PER_SECOND as f64).ceil() as usize;
    assert!(
        (BURST..=most).contains(&answered),
        "{answered} in {passed} s"
    );
    listener.minion(2, "m1").await;
}

#[tokio::test]
async fn unfinished_first_contacts_of_a_few_sources_keep_no_other_source_out() {
    let listener = TestListener::start(accept_all).await;
    for source in 1..=3 {
        listener.leave_first_contacts_unfinished(source).await;
    }
    let source = |number| listener.at(number).peer.source;
    assert!(
        !listener.listener.pending_handshakes.has_room(source(3)),
        "it has a third"
    );
    listener.minion(4, "m1").await;
}

#[tokio::test]
async fn a_resume_takes_from_its_source_until_a_record_proves_that_it_is_no_replay() {
    let listener = TestListener::start(accept_all).await;
    let mut minions = Vec::new();
    for number in 0..80 {
        minions.push(listener.minion(1, &format!("m{number}")).await);
    }
    // Somebody on the path held their resumes back, and sends them all from its own address.
    let (began, mut answered) = (Clock.now(), 0);
    for round in 0..8 {
        for minion in &minions {
            let kind = listener.resume(2, &minion.credentials, now() + round).await;
            answered += usize::from(kind == Kind::ResumeReply);
        }
    }
    let passed = (Clock.now() - began).as_secs_f64();
    let most = BURST + (passed * PER_SECOND as f64).ceil() as usize;
    assert!(answered >= BURST, "{answered}");
    assert!(answered <= most.min(639), "{answered} in {passed} s");
}

#[tokio::test]
async fn a_fleet_behind_one_address_resumes_at_full_speed() {
    let listener = TestListener::start(accept_all).await;
    let mut minion = listener.minion(1, "m1").await;
    let trust = MasterTrust::Pinned(listener.keys.clone());
    let began = Clock.now();
    let mut made = 0;
    // More than what comes back by itself in any case.
    while made < 2 * BURST + 2 * PER_SECOND * (Clock.now() - began).as_secs() as usize {
        let credentials = minion.credentials;
        minion = listener.contact(1, credentials, &trust).await.unwrap();
        let polled = minion.ask(&MinionRequest::Poll).await;
        assert!(matches!(polled, MinionReply::Auth(_)), "{polled:?}");
        made += 1;
    }
}

#[tokio::test]
async fn a_resume_that_the_master_was_too_busy_for_is_sent_again_as_it_was() {
    let listener = TestListener::start(accept_all).await;
    let minion = listener.minion(1, "m1").await;
    let mut others = Vec::new();
    for number in 0..80 {
        others.push(listener.minion(3, &format!("other{number}")).await);
    }
    // Sessions that nobody proves take all that the source may have.
    let mut resumes = (0..8).flat_map(|round| others.iter().map(move |other| (round, other)));
    while let Some((round, other)) = resumes.next()
        && listener.resume(2, &other.credentials, now() + round).await == Kind::ResumeReply
    {}
    assert!(resumes.next().is_some(), "the source may have no more");
    let trust = MasterTrust::Pinned(listener.keys.clone());
    let made = listener
        .contact(2, minion.credentials, &trust)
        .await
        .unwrap();
    assert!(made.established.answer.is_accepted());
    let sent = made.client.sent.into_inner().unwrap();
    assert!(sent.len() >= 2, "the master was busy");
    assert!(sent.iter().all(|request| *request == sent[0]));
}

#[tokio::test]
async fn unconfirmed_sessions_of_the_network_take_no_places_of_the_local_command_line() {
    let listener = TestListener::start(|_| {}).await;
    let folder = listener.master.pki_dir.join("operators");
    let operators: Vec<_> = (0..=MAX_UNPROVEN / 8)
        .map(|number| {
            let operator = credentials(Role::Operator, &format!("operator{number}"));
            let key = operator.identity.public().to_pem();
            std::fs::write(folder.join(&operator.id), key).unwrap();
            operator
        })
        .collect();
    // Eight of each key, and each from a source of its own.
    let mut answered = 0;
    for round in 0..8 {
        for (number, operator) in operators.iter().enumerate() {
            let source = u8::try_from(number).unwrap();
            let kind = listener.resume(source, operator, now() + round).await;
            answered += usize::from(kind == Kind::ResumeReply);
        }
    }
    assert_eq!(answered, MAX_UNPROVEN);
    let new = credentials(Role::Operator, "new");
    std::fs::write(folder.join(&new.id), new.identity.public().to_pem()).unwrap();
    assert_eq!(listener.resume(250, &new, now()).await, Kind::Busy);
    let peer = Peer::new(1, Source::User(0));
    let local = listener.resume_at(&listener.local, peer, &new, now());
    assert_eq!(local.await, Kind::ResumeReply);
}

#[tokio::test]
async fn one_source_does_not_keep_new_minions_of_others_out() {
    let listener = TestListener::start(|config| config.max_pending_keys = 10).await;
    listener.hold_no_polls();
    let mut strangers = Vec::new();
    for number in 0..10 {
        strangers.push(listener.minion(1, &format!("stranger{number}")).await);
    }
    let more = listener.minion(1, "more").await;
    assert_eq!(more.established.answer, Admission::Full);
    // They keep their places by presenting their keys, all but one.
    for stranger in &strangers[1..] {
        let polled = stranger.ask(&MinionRequest::Poll).await;
        assert_eq!(polled, MinionReply::Auth(Admission::Pending(None)));
    }
    let new = listener.minion(2, "new").await;
    assert_eq!(new.established.answer, Admission::Pending(None));
    let full = MinionReply::Auth(Admission::Full);
    assert_eq!(strangers[0].ask(&MinionRequest::Poll).await, full);
    for waits in strangers[1..].iter().chain([&new]) {
        let polled = waits.ask(&MinionRequest::Poll).await;
        assert_eq!(polled, MinionReply::Auth(Admission::Pending(None)));
    }
}
