use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use saline_protocol::transport::Result;

use saline_config::MasterConfig;
use saline_messages::{Event, MinionEvent, MinionEvents, MinionId, StartId};
use saline_protocol::transport::Topic;
use tokio::sync::Semaphore;

use super::*;
use crate::settings::LiveSettings;
use saline_event_bus::{QUEUE_BYTES, STAMP};

/// A publisher that publishes as much as the test lets it.
#[derive(Debug)]
struct HeldUp {
    permits: Semaphore,
    published: Mutex<usize>,
}

#[async_trait]
impl Publisher for HeldUp {
    async fn publish(&self, _: &Topic, _: Bytes) -> Result<()> {
        self.permits.acquire().await.unwrap().forget();
        *self.published.lock().unwrap() += 1;
        Ok(())
    }

    fn subscriptions(&self, _: &Topic) -> usize {
        1
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_for_the_bus_are_bounded_in_bytes() {
    let publisher = Arc::new(HeldUp {
        permits: Semaphore::new(0),
        published: Mutex::default(),
    });
    let context = Context::default();
    let events = Events::start(Arc::clone(&publisher) as _, nothing_kept(), &context);
    let fire = async |size: usize| {
        let data = [("data", Value::from("x".repeat(size)))];
        let fired = events.fire(EventTag::PresenceChange, EventOrigin::master(), data);
        Clock
            .deadline(Clock.after(Duration::from_secs(3_600)), fired)
            .await
    };
    // Below the bound, with what an event has beside its data.
    let quarter = QUEUE_BYTES / 4 - 1024;
    for _ in 0..4 {
        fire(quarter).await.unwrap();
    }
    assert!(fire(quarter).await.is_err(), "it waits for room");
    assert!(fire(100).await.is_ok(), "what is small has room");
    publisher.permits.add_permits(1);
    fire(quarter).await.unwrap();
    // One that is larger than all the room waits for all of it, and is fired.
    publisher.permits.add_permits(100);
    fire(QUEUE_BYTES * 2).await.unwrap();
    Clock.pause(Duration::from_secs(1)).await;
    assert_eq!(*publisher.published.lock().unwrap(), 7);
    context.cancel.cancel();
}

/// A publisher that publishes as slowly as the test lets it, and notes the tags.
#[derive(Debug)]
struct Slow {
    permits: Semaphore,
    topics: Mutex<Vec<String>>,
}

#[async_trait]
impl Publisher for Slow {
    async fn publish(&self, topic: &Topic, _: Bytes) -> Result<()> {
        self.permits.acquire().await.unwrap().forget();
        self.topics.lock().unwrap().push(topic.to_string());
        Ok(())
    }

    fn subscriptions(&self, _: &Topic) -> usize {
        1
    }
}

fn id(name: &str) -> MinionId {
    MinionId::parse(name).unwrap()
}

fn some_events(first: u64, count: usize) -> MinionEvents {
    let event = MinionEvent {
        tag: "alarm".to_owned(),
        data: saline_data::Packed::pack(&Value::map([("disk", Value::from("full"))])),
    };
    MinionEvents {
        start: StartId([1; 16]),
        first,
        events: vec![event; count],
    }
}

/// Keeps no event.
fn nothing_kept() -> Arc<DurableEvents> {
    let settings = DurableSettings {
        folder: "/nonexistent".into(),
        filter: TagFilter::default(),
        returned: None,
        is_followed: false,
        reacted: TagFilter::default(),
        most_bytes: 0,
    };
    let clock = crate::clock::MasterClock::new(Clock);
    Arc::new(DurableEvents::open(settings, clock).unwrap())
}

fn firer(events: &Events) -> Arc<MinionEventFirer> {
    let limiter = Arc::new(crate::bounds::report_limiter(Clock));
    let settings = LiveSettings::new(&MasterConfig::default());
    Arc::new(MinionEventFirer::new(events.clone(), limiter, settings))
}

/// As [`firer`], where one minion may fire 10,000 events a second.
fn firer_of_many(events: &Events) -> Arc<MinionEventFirer> {
    let limiter = Arc::new(crate::bounds::report_limiter(Clock));
    let mut config = MasterConfig::default();
    config.minion_event_rate = Some(10_000);
    let settings = LiveSettings::new(&config);
    Arc::new(MinionEventFirer::new(events.clone(), limiter, settings))
}

/// Has a minion fire so many requests of events, each when the one before it was taken.
fn flood(context: &Context, firer: &Arc<MinionEventFirer>, requests: u64) {
    let firer = Arc::clone(firer);
    context.spawn(async move {
        for request in 0..requests {
            let origin = EventOrigin::minion(&id("flood"));
            let sent = some_events(1 + 256 * request, 256);
            assert!(firer.fire(origin, &id("flood"), sent).await.unwrap());
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_minion_that_floods_a_slow_bus_delays_nobody_else() {
    let publisher = Arc::new(Slow {
        permits: Semaphore::new(0),
        topics: Mutex::default(),
    });
    let context = Context::default();
    let events = Events::start(Arc::clone(&publisher) as _, nothing_kept(), &context);
    let firer = firer(&events);
    flood(&context, &firer, 40);
    Clock.pause(Duration::from_secs(1)).await;
    // A second request of it does not wait beside the first, in one of the places that all minions share.
    let greedy = id("flood");
    let second = firer.fire(
        EventOrigin::minion(&greedy),
        &greedy,
        some_events(20_000, 1),
    );
    let deadline = Clock.after(Duration::from_secs(1));
    assert!(!Clock.deadline(deadline, second).await.unwrap().unwrap());
    // Neither the others nor the master wait for room.
    for number in 0..20 {
        let other = id(&format!("m{number}"));
        let fired = firer.fire(EventOrigin::minion(&other), &other, some_events(1, 2));
        let deadline = Clock.after(Duration::from_secs(1));
        assert!(Clock.deadline(deadline, fired).await.unwrap().unwrap());
        let fired = events.key(EventOrigin::master(), &other, "accept");
        let deadline = Clock.after(Duration::from_secs(1));
        Clock.deadline(deadline, fired).await.unwrap();
    }
    // With the bus halved, the others have it for 2 turns of 21 minions, and the master for 20 events.
    publisher.permits.add_permits(300);
    Clock.pause(Duration::from_secs(1)).await;
    let topics = publisher.topics.lock().unwrap().clone();
    let count = |wanted: &str| topics.iter().filter(|topic| topic.contains(wanted)).count();
    assert_eq!(topics.len(), 300);
    assert_eq!(count("salt/key"), 20);
    assert_eq!(count("salt/minion/m"), 40);
    // And the flood loses nothing either.
    publisher.permits.add_permits(100_000);
    Clock.pause(Duration::from_secs(5)).await;
    let topics = publisher.topics.lock().unwrap().clone();
    assert_eq!(topics.len(), 40 * 256 + 60);
    context.cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn what_a_minion_saved_up_is_published_at_its_rate() {
    let publisher = Arc::new(Slow {
        permits: Semaphore::new(1_000_000),
        topics: Mutex::default(),
    });
    let context = Context::default();
    let events = Events::start(Arc::clone(&publisher) as _, nothing_kept(), &context);
    // Five seconds' worth at once: a listener's queue has room for 1,024.
    flood(&context, &firer_of_many(&events), 200);
    let (mut before, mut most) = (0, 0);
    for _ in 0..600 {
        Clock.pause(Duration::from_millis(10)).await;
        let published = publisher.topics.lock().unwrap().len();
        most = most.max(published - before);
        before = published;
    }
    assert_eq!(before, 200 * 256, "all of them");
    assert!((256..=512).contains(&most), "{most} in 10 ms");
    context.cancel.cancel();
}

/// A publisher without listeners.
#[derive(Debug)]
struct Unheard;

#[async_trait]
impl Publisher for Unheard {
    async fn publish(&self, _: &Topic, _: Bytes) -> Result<()> {
        Ok(())
    }

    fn subscriptions(&self, _: &Topic) -> usize {
        0
    }
}

#[tokio::test]
async fn while_many_minions_go_others_have_their_turn_though_nobody_listens() {
    let context = Context::default();
    let events = Events::start(Arc::new(Unheard), nothing_kept(), &context);
    let jid = saline_messages::Jid::parse("20261124000000000000").unwrap();
    let ids = (0..10_000).map(|number| id(&format!("m{number}")));
    let gone: Vec<_> = ids.map(|id| (jid.clone(), id)).collect();
    let mut turns = 0;
    let others = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = events.jobs_gone(&gone) => {}
        () = others => {}
    }
    assert!(turns >= gone.len() / 256, "{turns}");
    context.cancel.cancel();
}

#[tokio::test]
async fn an_event_that_no_filter_matches_costs_no_transaction_and_one_that_does_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let settings = DurableSettings {
        folder: folder.path().join("events"),
        filter: TagFilter::compile(&["salt/minion/*/start".to_owned()]).unwrap(),
        returned: None,
        is_followed: false,
        reacted: TagFilter::default(),
        most_bytes: 1 << 20,
    };
    let clock = crate::clock::MasterClock::new(Clock);
    let durable = Arc::new(DurableEvents::open(settings, clock).unwrap());
    let store = Arc::clone(durable.store().unwrap());
    let publisher = Arc::new(Slow {
        permits: Semaphore::new(1_000),
        topics: Mutex::default(),
    });
    let context = Context::default();
    let events = Events::start(publisher, Arc::clone(&durable), &context);
    let log = || {
        let files = std::fs::read_dir(folder.path().join("events")).unwrap();
        let files = files.map(|file| file.unwrap());
        let logs = files.filter(|file| file.file_name().to_string_lossy().ends_with("-wal"));
        logs.map(|file| file.metadata().unwrap().len()).sum::<u64>()
    };
    let before = log();
    let firer = firer(&events);
    let origin = || EventOrigin::minion(&id("web1"));
    firer
        .fire(origin(), &id("web1"), some_events(1, 10))
        .await
        .unwrap();
    events
        .key(EventOrigin::master(), &id("web1"), "accept")
        .await;
    events.presence_change(&[id("web1")], &[], &[]).await;
    assert_eq!(log(), before, "nothing was written");
    let mut start = some_events(11, 3);
    start.events[1].tag = "start".to_owned();
    firer.fire(origin(), &id("web1"), start).await.unwrap();
    assert!(log() > before);
    let page = store.page(0, usize::MAX).await.unwrap();
    let [kept] = &page.events[..] else {
        panic!("{page:?}");
    };
    let event = Event::decode(kept.event.as_ref().unwrap()).unwrap();
    assert_eq!(event.tag, "salt/minion/web1/start");
    assert_eq!(event.origin, origin());
    assert!(event.data.get(STAMP).is_some());
    // What is in force can change, and what a full disk does not take is counted where nobody fires it again.
    durable.set_filter(TagFilter::compile(&["*".to_owned()]).unwrap());
    let accept = async |minion: &str| {
        let origin = EventOrigin::master();
        events.key(origin, &id(minion), "accept").await;
    };
    store.limit_size(true).await;
    let many: Vec<MinionId> = (0..10_000).map(|n| id(&format!("minion-{n}"))).collect();
    events.presence_change(&many, &[], &[]).await;
    let mut start = some_events(14, 1);
    start.events[0].tag = "start".to_owned();
    let large = Value::map([("text", Value::from("x".repeat(60_000)))]);
    start.events[0].data = saline_data::Packed::pack(&large);
    let failed = firer.fire(origin(), &id("web1"), start).await;
    assert!(matches!(failed, Err(StoreError::Full)), "{failed:?}");
    store.limit_size(false).await;
    accept("web2").await;
    let rest = store.page(kept.number, usize::MAX).await.unwrap();
    let rest: Vec<_> = rest.events.iter().map(|kept| kept.event.as_ref()).collect();
    assert!(matches!(rest[..], [Err(1), Ok(_)]), "{rest:?}");
    // A disk that fails: the minion is not told that its event was taken, and what is fired again is kept.
    store.close().await;
    let mut start = some_events(14, 1);
    start.events[0].tag = "start".to_owned();
    let failed = firer.fire(origin(), &id("web1"), start).await;
    assert!(matches!(failed, Err(StoreError::Closed)), "{failed:?}");
    // An operator is told too.
    let by_operator = EventOrigin::operator("root");
    let failed = events.sent_by(by_operator, "salt/minion/x/start", Vec::new());
    assert!(matches!(failed.await, Err(StoreError::Closed)));
    context.cancel.cancel();
}
