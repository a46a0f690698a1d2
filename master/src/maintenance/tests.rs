use saline_channel::{Identity, PublicIdentity};
use saline_messages::MinionId;
use saline_protocol::transport::Source;

use super::*;
use crate::parts::testing::TestMaster;
use crate::settings::KeyPolicy;

const DAY: Duration = Duration::from_secs(86_400);

/// Presents the key of a minion that has no other.
async fn present(keys: &KeyAccess, id: &str) {
    let PublicIdentity(key) = Identity::generate().unwrap().public();
    let id = MinionId::parse(id).unwrap();
    let policy = KeyPolicy {
        autosign: None,
        autoreject: None,
        auto_accept: false,
        open_mode: false,
        max_pending: 10,
    };
    let presented =
        keys.with_minions(move |keys| keys.authenticate(&id, key, Source::Process, &policy));
    assert_eq!(presented.await.unwrap().act, "pend");
}

#[tokio::test(start_paused = true)]
async fn pending_keys_expire_within_five_minutes_of_their_time() {
    let master = TestMaster::start(|config| config.pending_key_expiry = Some(7 * DAY)).await;
    let maintenance = master.state.maintenance(master.state.key_watch());
    let keys = maintenance.keys.clone();
    let audit = maintenance.decisions.audit.clone();
    let clock = master.context.clock;
    let upkeep = master.context.spawn(maintenance.run());
    // What is done at the start has been done.
    clock.pause(Duration::from_secs(10)).await;
    for id in ["forgotten", "waits"] {
        present(&keys, id).await;
        let path = master.pki_dir.join("minions_pre").join(id);
        let file = std::fs::File::options().write(true).open(path).unwrap();
        let age = if id == "waits" { 6 * DAY } else { 8 * DAY };
        file.set_modified(clock.wall() - age).unwrap();
    }
    let waiting = async || {
        let listed = keys.with_minions(KeyStore::list).await.unwrap().unwrap();
        let ids = listed.into_iter().map(|entry| entry.id.to_string());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(waiting().await, ["forgotten", "waits"]);
    clock.pause(PRUNING).await;
    // What the timer has begun ends on other threads.
    let deadline = clock.after(10 * PRUNING);
    while waiting().await.len() > 1 {
        assert!(clock.now() < deadline, "nobody looks for old keys");
        clock.pause(Duration::from_secs(1)).await;
    }
    assert_eq!(waiting().await, ["waits"]);
    let lines = loop {
        let lines = audit.tail(10).await.unwrap_or_default();
        if !lines.is_empty() {
            break lines;
        }
        assert!(clock.now() < deadline, "no line says that the key went");
        clock.pause(Duration::from_secs(1)).await;
    };
    assert!(
        lines[0].contains(r#""minions": ["forgotten"]"#) && lines[0].contains("pending_key_days"),
        "{lines:?}"
    );
    master.context.cancel.cancel();
    // It runs until its context is cancelled.
    let _ = upkeep.await;
}

#[tokio::test(start_paused = true)]
async fn old_jobs_are_pruned_soon_after_a_start_and_then_every_five_minutes() {
    let mut timer = pruning_timer(Clock);
    let start = Clock.now();
    for after in [60, 360, 660] {
        timer.tick().await;
        assert_eq!((Clock.now() - start).as_secs(), after);
    }
}
