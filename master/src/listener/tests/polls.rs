//! How often minions whose keys wait may ask.

use super::*;

#[tokio::test]
async fn a_session_whose_key_waits_polls_as_often_as_it_may() {
    let listener = TestListener::start(|_| {}).await;
    listener.hold_no_polls();
    let waits = listener.minion(1, "waits").await;
    let pending = MinionReply::Auth(Admission::Pending(None));
    let began = Clock.now();
    let mut answered = 0;
    let after_ms = loop {
        match waits.ask(&MinionRequest::Poll).await {
            MinionReply::Busy { after_ms } => break after_ms,
            reply => assert_eq!(reply, pending),
        }
        answered += 1;
        assert!(answered <= 20 + 10 * (1 + (Clock.now() - began).as_secs()));
    };
    assert!(answered >= 20 && after_ms <= 100, "{answered}, {after_ms}");
    // Others may poll meanwhile, and so may it when it has waited.
    let other = listener.minion(1, "other").await;
    assert_eq!(other.ask(&MinionRequest::Poll).await, pending);
    Clock.pause(Duration::from_millis(after_ms.into())).await;
    assert_eq!(waits.ask(&MinionRequest::Poll).await, pending);
}

#[tokio::test]
async fn polls_of_many_sessions_take_few_threads() {
    let listener = TestListener::start(|_| {}).await;
    listener.hold_no_polls();
    let waits = listener.minion(1, "waits").await;
    let polls = &listener.listener.handlers.polls;
    // As many read the keys.
    let mut reading = Vec::new();
    for _ in 0..16 {
        reading.push(polls.take(Source::User(0)).await.unwrap());
    }
    let poll = waits.ask(&MinionRequest::Poll);
    tokio::pin!(poll);
    tokio::select! {
        biased;
        reply = &mut poll => panic!("not in its turn: {reply:?}"),
        () = Clock.pause(Duration::from_millis(200)) => {}
    }
    drop(reading);
    assert_eq!(poll.await, MinionReply::Auth(Admission::Pending(None)));
}
