use saline_channel::PublicIdentity;
use saline_data::Packed;
use saline_messages::{MineEntry, MineRequest};

use super::*;
use crate::parts::testing::TestMaster;

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

/// Copies a key there as an operator does.
fn seed(master: &TestMaster, id: &str, number: u8) -> [u8; 32] {
    let path = master.pki_dir.join("minions").join(id);
    std::fs::write(path, PublicIdentity([number; 32]).to_pem()).unwrap();
    [number; 32]
}

fn changed(id: MinionId, identity: Option<[u8; 32]>) -> KeyChanges {
    KeyChanges {
        changed: vec![ExternalChange { id, identity }],
        ..KeyChanges::default()
    }
}

#[tokio::test]
async fn late_news_undo_nothing() {
    let master = TestMaster::start(|_| {}).await;
    let (old, minion) = (seed(&master, "m1", 1), id("m1"));
    let watch = master.state.key_watch();
    watch.compare_at_start().await.unwrap();
    let jobs = &watch.revocation.jobs;
    assert!(jobs.has_key(&minion, old));
    // It was removed by hand, and accepted again before its removal is seen.
    watch.follow(changed(minion.clone(), None)).await;
    assert!(jobs.has_key(&minion, old), "its jobs stay its own");
    // It was replaced, which somebody else has settled before the first key is seen.
    let new = seed(&master, "m1", 2);
    watch.revocation.settle(vec![minion.clone()]).await;
    let accepted = KeyChanges {
        accepted: vec![(minion.clone(), old)],
        ..KeyChanges::default()
    };
    watch.follow(accepted).await;
    watch.follow(changed(minion.clone(), Some(old))).await;
    assert!(jobs.has_key(&minion, new));
    // What is true is followed.
    std::fs::remove_file(master.pki_dir.join("minions/m1")).unwrap();
    watch.follow(changed(minion.clone(), None)).await;
    assert!(!jobs.has_key_or_jobs(&minion));
}

#[tokio::test]
async fn a_file_that_lost_its_key_while_the_master_runs_is_no_key() {
    let master = TestMaster::start(|_| {}).await;
    let (key, minion) = (seed(&master, "m1", 1), id("m1"));
    let watch = master.state.key_watch();
    watch.compare_at_start().await.unwrap();
    assert!(watch.revocation.jobs.has_key(&minion, key));
    std::fs::write(master.pki_dir.join("minions/m1"), "").unwrap();
    // The store has seen that at two looks.
    watch.follow(changed(minion.clone(), None)).await;
    assert!(!watch.revocation.jobs.has_key(&minion, key));
}

#[tokio::test]
async fn what_cannot_be_read_at_the_start_is_settled_when_it_can_be_or_is_gone() {
    let master = TestMaster::start(|_| {}).await;
    let ids = ["back", "replaced", "gone", "stays"].map(id);
    for (number, id) in ids.iter().enumerate() {
        seed(&master, id.as_str(), number as u8);
    }
    let watch = master.state.key_watch();
    watch.compare_at_start().await.unwrap();
    let key = |number: u8| [number; 32];
    for id in &ids {
        std::fs::write(master.pki_dir.join("minions").join(id.as_str()), "").unwrap();
    }
    // As at the next start: a store that has seen nothing.
    let keys = master.open_keys();
    let again = KeyWatch::new(watch.clock.clone(), keys.clone(), watch.revocation.clone());
    again.compare_at_start().await.unwrap();
    let jobs = &again.revocation.jobs;
    let noted = || [0, 1, 2, 3].map(|n| jobs.has_key(&ids[n], key(n as u8)));
    assert_eq!(noted(), [true; 4], "none was removed");
    let look = async || {
        let changes = keys
            .with_minions(KeyStore::external_changes)
            .await
            .unwrap()
            .unwrap();
        again.follow(changes).await;
    };
    look().await;
    assert_eq!(noted(), [true; 4]);
    seed(&master, "back", 0);
    seed(&master, "replaced", 9);
    std::fs::remove_file(master.pki_dir.join("minions/gone")).unwrap();
    look().await;
    assert_eq!(noted(), [true, false, false, true]);
    assert!(jobs.has_key(&ids[1], key(9)));
}

#[tokio::test]
async fn sessions_of_keys_that_are_all_missing_end_within_a_minute_and_their_jobs_stay() {
    let master = TestMaster::start(|_| {}).await;
    let keys = [seed(&master, "m1", 1), seed(&master, "m2", 2)];
    let ids = ["m1", "m2"].map(id);
    let watch = master.state.key_watch();
    watch.compare_at_start().await.unwrap();
    let group_key = || watch.revocation.publisher.current().epoch;
    let before = group_key();
    let missing = || KeyChanges {
        missing: ids.to_vec(),
        ..KeyChanges::default()
    };
    watch.follow(missing()).await;
    tokio::time::pause();
    tokio::time::advance(MISSING_FOR - SCAN_INTERVAL).await;
    tokio::time::resume();
    watch.follow(missing()).await;
    assert_eq!(group_key(), before, "the folder may be mounted again");
    tokio::time::pause();
    tokio::time::advance(SCAN_INTERVAL).await;
    tokio::time::resume();
    for _ in 0..2 {
        watch.follow(missing()).await;
        assert_ne!(group_key(), before, "they have ended, once");
    }
    let jobs = &watch.revocation.jobs;
    assert!(jobs.has_key(&ids[0], keys[0]) && jobs.has_key(&ids[1], keys[1]));
    // One file is back, and the other key was deleted by an operator.
    std::fs::remove_file(master.pki_dir.join("minions/m2")).unwrap();
    watch.follow(KeyChanges::default()).await;
    assert!(jobs.has_key(&ids[0], keys[0]));
    assert!(!jobs.has_key_or_jobs(&ids[1]));
}

#[tokio::test]
async fn what_a_minion_left_in_the_mine_goes_with_its_key() {
    let master = TestMaster::start(|_| {}).await;
    let minions = [id("m1"), id("m2")];
    for minion in &minions {
        seed(&master, minion.as_str(), 1);
    }
    let watch = master.state.key_watch();
    watch.compare_at_start().await.unwrap();
    let mine = &watch.revocation.mine;
    let store = |minion| {
        let entry = MineEntry {
            name: "a".to_owned(),
            value: Packed::pack(&"x".into()),
            allowed: None,
        };
        mine.answer(minion, MineRequest::Store(vec![entry]))
    };
    for minion in &minions {
        store(minion).await;
    }
    assert_eq!(mine.size().0, 2);
    std::fs::remove_file(master.pki_dir.join("minions/m1")).unwrap();
    watch.follow(changed(id("m1"), None)).await;
    assert_eq!(mine.size().0, 1);
    // Another machine that gets the id finds nothing.
    seed(&master, "m2", 2);
    watch.revocation.settle(vec![id("m2")]).await;
    assert_eq!(mine.size().0, 0);
}
