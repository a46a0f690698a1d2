//! What an accepted minion may fire at a master with `minion_event_rate` and `minion_event_bytes`.

use crate::support::{Deployment, TEST_TIMEOUT};
use saline_config::MasterConfig;
use saline_data::Packed;
use saline_messages::{MAX_EVENTS, MinionEvent, MinionEvents, MinionReply, MinionRequest, StartId};

/// Returns a request that fires so many events, each with so many bytes.
fn fire(first: u64, count: usize, size: usize) -> MinionRequest {
    let event = MinionEvent {
        tag: "alarm".into(),
        data: Packed::from_bytes(vec![0xc0; size]),
    };
    MinionRequest::FireEvents(MinionEvents {
        start: StartId([1; 16]),
        first,
        events: vec![event; count],
    })
}

/// Fires what goes beyond ten seconds' worth, and then one event more. Returns how long the master asks the
/// minion to wait, in milliseconds.
async fn exceed(change: impl FnOnce(&mut MasterConfig), first: MinionRequest) -> u32 {
    let deployment = Deployment::start_with(|config| {
        config.auto_accept = true;
        change(config);
    })
    .await;
    let (greedy, other) = (deployment.minion("m1").await, deployment.minion("m2").await);
    assert_eq!(greedy.ask(first.clone()).await, MinionReply::Done);
    let MinionReply::Busy { after_ms } = greedy.ask(fire(1_000, 1, 1)).await else {
        panic!("it may fire on");
    };
    assert_eq!(other.ask(first).await, MinionReply::Done, "another minion");
    deployment.master.shutdown(TEST_TIMEOUT).await;
    after_ms
}

#[tokio::test]
async fn a_minion_fires_as_many_events_as_minion_event_rate_allows() {
    let rate = |config: &mut MasterConfig| config.minion_event_rate = Some(10);
    // 156 more than it has saved in ten seconds.
    let after_ms = exceed(rate, fire(1, MAX_EVENTS, 1)).await;
    assert!((10_000..=15_700).contains(&after_ms), "{after_ms}");
}

#[tokio::test]
async fn a_minion_fires_as_many_bytes_as_minion_event_bytes_allows() {
    let bytes = |config: &mut MasterConfig| config.minion_event_bytes = Some(1_000);
    let after_ms = exceed(bytes, fire(1, 1, 25_000)).await;
    assert!((10_000..=15_006).contains(&after_ms), "{after_ms}");
}
