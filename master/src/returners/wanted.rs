//! What a destination gets of what is stored.

use std::sync::Arc;

use saline_config::{ReturnerConfig, ReturnerName};
use saline_messages::{Event, EventTag, Jid, JobEvent, MinionId};
use saline_returners::{Content, Record};

use crate::events::{DurableEvents, ReadEvent, job_tag};

/// What a destination gets.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    name: &'static str,
    /// Every job and return.
    every_job: bool,
    /// The events that `event_return` is about.
    events: bool,
    durable: Arc<DurableEvents>,
}

impl Wanted {
    pub(super) fn new(
        name: ReturnerName,
        config: &ReturnerConfig,
        durable: &Arc<DurableEvents>,
    ) -> Self {
        Self {
            name: name.as_str(),
            every_job: config.gets_every_job(name),
            events: config.event_return.contains(&name),
            durable: Arc::clone(durable),
        }
    }

    /// Whether it gets something of the publication of a job, or of the return of a minion, where the order of the job named
    /// these destinations.
    pub(super) fn is_wanted(
        &self,
        jid: &Jid,
        minion: Option<&MinionId>,
        returners: &[String],
    ) -> bool {
        self.gets_job(returners) || self.gets_event(&job_tag(jid, minion).to_string())
    }

    /// Returns the records of what was read, and how many events that it wanted are lost.
    pub(super) fn records(&self, read: Vec<ReadEvent>) -> (Vec<Record>, u64) {
        let (mut records, mut lost) = (Vec::with_capacity(read.len()), 0);
        for ReadEvent {
            number,
            event,
            returners,
        } in read
        {
            match event {
                Ok(event) => self.add(&mut records, number, event, &returners),
                Err(gone) if self.events => lost += gone,
                Err(_) => {}
            }
        }
        (records, lost)
    }

    fn add(&self, records: &mut Vec<Record>, number: i64, event: Event, returners: &[String]) {
        let Event { tag, origin, data } = event;
        let gets_event = self.gets_event(&tag);
        let job = match EventTag::parse(&tag) {
            Some(EventTag::Job(jid, JobEvent::New)) => Some(Content::Job {
                jid: jid.as_str().to_owned(),
                data: data.clone(),
            }),
            Some(EventTag::Job(jid, JobEvent::Returned(minion))) => Some(Content::Return {
                jid: jid.as_str().to_owned(),
                minion: minion.as_str().to_owned(),
                data: data.clone(),
            }),
            _ => None,
        };
        let job = job.filter(|_| self.gets_job(returners));
        let event = gets_event.then(|| Content::Event {
            origin: origin.to_value(),
            tag,
            data,
        });
        let contents = job.into_iter().chain(event);
        records.extend(contents.map(|content| Record { number, content }));
    }

    fn gets_job(&self, returners: &[String]) -> bool {
        self.every_job || returners.iter().any(|name| name == self.name)
    }

    fn gets_event(&self, tag: &str) -> bool {
        self.events && self.durable.returns(tag)
    }
}
