//! A follower over real stores, with a destination whose answers a test prescribes.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use saline_config::{ReturnerConfig, ReturnerName};
use saline_data::Value;
use saline_messages::{Event, EventOrigin};
use saline_protocol::transport::Clock;
use saline_returners::{Content, DeliveryError, Destination, Record};

use super::figures::ReturnerFigures;
use super::follower::{Follower, Following};
use super::wanted::Wanted;
use crate::clock::MasterClock;
use crate::events::{DurableEvents, DurableSettings, EventReader, ReturnedTags, TagFilter};
use crate::jobs::{JobStore, StoreSettings};

/// Answers, in their order, and yes to everything after them; and the tags of what was delivered.
#[derive(Debug, Clone, Default)]
struct Scripted {
    answers: Arc<Mutex<VecDeque<Result<(), DeliveryError>>>>,
    taken: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Destination for Scripted {
    async fn deliver(&mut self, records: &[Record]) -> Result<(), DeliveryError> {
        let answer = self.answers.lock().unwrap().pop_front();
        answer.unwrap_or(Ok(()))?;
        let tags: Vec<String> = records.iter().map(tag).collect();
        if tags.iter().any(|tag| tag == "bad") {
            return Err(DeliveryError::Refused("no".to_owned()));
        }
        self.taken.lock().unwrap().extend(tags);
        Ok(())
    }
}

fn tag(record: &Record) -> String {
    match &record.content {
        Content::Event { tag, .. } => tag.clone(),
        other => format!("{other:?}"),
    }
}

/// The stores of a master in a folder, and what was delivered from them.
struct Stores {
    jobs: Arc<JobStore>,
    durable: Arc<DurableEvents>,
    figures: Arc<ReturnerFigures>,
    destination: Scripted,
}

impl Stores {
    fn open(folder: &Path) -> Self {
        let clock = MasterClock::new(Clock);
        let settings = StoreSettings {
            folder: folder.join("jobs"),
            secrets_key: folder.join("secrets.key"),
            keep: Duration::from_secs(86_400),
            max_bytes: None,
            largest_payload: 1 << 20,
            heartbeat: Duration::from_secs(15),
            cache_bytes: 1 << 20,
        };
        let jobs = JobStore::open(settings, clock.clone()).unwrap();
        let left_out = TagFilter::compile(&["hidden*".to_owned()]).unwrap();
        let settings = DurableSettings {
            folder: folder.join("events"),
            filter: TagFilter::default(),
            returned: Some(ReturnedTags::new(TagFilter::default(), left_out)),
            is_followed: true,
            reacted: crate::events::TagFilter::default(),
            most_bytes: 64 * 1024,
        };
        Self {
            jobs: Arc::new(jobs),
            durable: Arc::new(DurableEvents::open(settings, clock).unwrap()),
            figures: Arc::new(ReturnerFigures::new(ReturnerName::Http)),
            destination: Scripted::default(),
        }
    }

    async fn follow(&self) -> Following {
        let config = ReturnerConfig {
            event_return: vec![ReturnerName::Http],
            ..ReturnerConfig::default()
        };
        let follower = Follower {
            destination: Box::new(self.destination.clone()),
            wanted: Wanted::new(ReturnerName::Http, &config, &self.durable),
            limit: Duration::from_secs(60),
            reader: EventReader::new(&self.jobs, &self.durable).unwrap(),
            jobs: Arc::clone(&self.jobs),
            figures: Arc::clone(&self.figures),
            clock: Clock,
        };
        follower.begin().await.unwrap()
    }

    async fn fire(&self, tag: &str, size: usize) {
        let Some(store) = self.durable.keeps(tag) else {
            return;
        };
        let event = Event {
            tag: tag.to_owned(),
            origin: EventOrigin::master(),
            data: Value::map([("x", Value::Bytes(vec![0; size]))]),
        };
        let bytes = event.encode();
        store.keep("master".to_owned(), vec![bytes]).await.unwrap();
    }

    fn will_answer(&self, answers: impl IntoIterator<Item = Result<(), DeliveryError>>) {
        self.destination.answers.lock().unwrap().extend(answers);
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.destination.taken.lock().unwrap())
    }

    async fn close(self) {
        self.durable.store().unwrap().close().await;
        self.jobs.close().await;
    }
}

fn away() -> Result<(), DeliveryError> {
    Err(DeliveryError::Away("it is away".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_from_the_first_start_on_is_delivered_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Stores::open(folder.path());
    stores.fire("before", 1).await;
    let mut following = stores.follow().await;
    stores.fire("one", 1).await;
    stores.fire("hidden/one", 1).await;
    stores.will_answer([away(), away()]);
    following.step(false).await.unwrap();
    assert_eq!(stores.taken(), ["one"]);
    assert_eq!(
        (stores.figures.delivered(), stores.figures.failures()),
        (1, 2)
    );
    // The master ends while this one waits.
    stores.fire("two", 1).await;
    drop(following);
    stores.close().await;

    let stores = Stores::open(folder.path());
    stores.fire("three", 1).await;
    let mut following = stores.follow().await;
    following.step(false).await.unwrap();
    assert_eq!(stores.taken(), ["two", "three"]);
    drop(following);
    stores.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_refused_is_left_out_and_no_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Stores::open(folder.path());
    let mut following = stores.follow().await;
    for tag in ["a", "b", "bad", "c", "d", "bad", "e"] {
        stores.fire(tag, 1).await;
    }
    following.step(false).await.unwrap();
    assert_eq!(stores.taken(), ["a", "b", "c", "d", "e"]);
    let figures = &stores.figures;
    assert_eq!(
        (figures.delivered(), figures.refused(), figures.lost()),
        (5, 2, 0)
    );
    drop(following);
    stores.close().await;
}

#[tokio::test(start_paused = true)]
async fn events_that_went_before_they_were_delivered_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Stores::open(folder.path());
    let mut following = stores.follow().await;
    for number in 0..8 {
        stores.fire(&format!("event/{number}"), 15 * 1024).await;
    }
    following.step(false).await.unwrap();
    let (taken, lost) = (stores.taken(), stores.figures.lost());
    assert!(
        lost > 0 && taken.len() as u64 + lost == 8,
        "{taken:?}, lost: {lost}"
    );
    assert_eq!(taken.last().map(String::as_str), Some("event/7"));
    drop(following);
    stores.close().await;
}
