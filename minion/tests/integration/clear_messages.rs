//! What is said in the clear is a hint: whoever forges it once, at any step, keeps a minion away for less
//! than 30 s, and does not end a session that works.

use std::time::Duration;

use crate::scripted_master::{Fixture, ScriptedMaster};
use bytes::Bytes;
use saline_messages::{Class, Header, Kind, Refusal, busy, refusal};
use saline_protocol::transport::Clock;

/// The longest time for which one forged message may keep a minion away.
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// Every message that a stranger can make without a key.
fn forgeries() -> Vec<(&'static str, Bytes)> {
    let header = Header::bare(Kind::Record, Class::Event);
    let bare = |kind| Header::bare(kind, Class::Event).with_body(&[0; 64]);
    let mut all = vec![
        (
            "Busy for 49 days",
            busy(&header, Duration::from_millis(u32::MAX.into())),
        ),
        ("nothing", Bytes::new()),
        ("First", bare(Kind::First)),
        ("FirstReply", bare(Kind::FirstReply)),
        ("ResumeReply", bare(Kind::ResumeReply)),
        ("Record", bare(Kind::Record)),
        ("Publication", bare(Kind::Publication)),
    ];
    for why in [
        Refusal::UnknownSession,
        Refusal::Malformed,
        Refusal::Version,
        Refusal::Handshake,
        Refusal::Replayed,
    ] {
        all.push(("Refused", refusal(Some(&header), why)));
    }
    all
}

/// Lets the next message of the kind be answered in the clear, and waits until the minion sends heartbeats
/// again. Returns how long that took.
async fn interfere(fixture: &Fixture, kind: Kind, forged: &Bytes) -> Duration {
    let began = Clock.now();
    let forged = forged.clone();
    fixture
        .master
        .set(|state| state.interference = Some((kind, forged)));
    if kind != Kind::Record {
        fixture.master.forget_session();
    }
    let interfered = |master: &ScriptedMaster| master.has_interfered();
    fixture.master.wait("the forged message", interfered).await;
    let heartbeats = fixture.master.heartbeats();
    let back = |master: &ScriptedMaster| master.heartbeats() > heartbeats + 1;
    fixture.master.wait("heartbeats", back).await;
    Clock.now() - began
}

#[tokio::test(start_paused = true)]
async fn one_forged_message_in_a_session_keeps_a_minion_away_for_a_moment() {
    for (name, forged) in forgeries() {
        let fixture = Fixture::new().await;
        let minion = fixture.start(fixture.config()).await;
        let sessions = fixture.master.sessions();
        let away = interfere(&fixture, Kind::Record, &forged).await;
        assert!(away < BACK_WITHIN, "{name}: {away:?}");
        assert_eq!(
            fixture.master.sessions(),
            sessions,
            "{name}: it still works"
        );
        minion.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_forged_message_in_a_resume_keeps_a_minion_away_for_a_moment() {
    for (name, forged) in forgeries() {
        let fixture = Fixture::new().await;
        let minion = fixture.start(fixture.config()).await;
        let away = interfere(&fixture, Kind::Resume, &forged).await;
        assert!(away < BACK_WITHIN, "{name}: {away:?}");
        minion.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_forged_message_in_a_first_contact_keeps_a_minion_away_for_a_moment() {
    for (name, forged) in forgeries() {
        for kind in [Kind::First, Kind::FirstFinish] {
            let fixture = Fixture::new().await;
            let sent = forged.clone();
            fixture
                .master
                .set(|state| state.interference = Some((kind, sent)));
            let began = Clock.now();
            let minion = fixture.start(fixture.config()).await;
            assert!(fixture.master.has_interfered());
            let away = Clock.now() - began;
            assert!(away < BACK_WITHIN, "{name} for {kind:?}: {away:?}");
            minion.stop().await;
        }
    }
}

/// While its key waits, a minion only polls.
#[tokio::test(start_paused = true)]
async fn one_forged_message_to_a_minion_whose_key_waits_keeps_it_away_for_a_moment() {
    for (name, forged) in forgeries() {
        let fixture = Fixture::new().await;
        fixture.master.set(|state| state.waits = true);
        let minion = fixture.begin(fixture.config());
        fixture
            .master
            .wait("a poll", |master| master.polls() > 0)
            .await;
        fixture
            .master
            .set(|state| state.interference = Some((Kind::Record, forged)));
        let interfered = |master: &ScriptedMaster| master.has_interfered();
        fixture.master.wait("the forged message", interfered).await;
        let began = Clock.now();
        // Its key is accepted at that moment.
        fixture.master.set(|state| state.waits = false);
        let back = |master: &ScriptedMaster| master.heartbeats() > 1;
        fixture.master.wait("heartbeats", back).await;
        let away = Clock.now() - began;
        assert!(away < BACK_WITHIN, "{name}: {away:?}");
        minion.stop().await;
    }
}
