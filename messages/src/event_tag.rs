//! The tags of the events that a master fires, built and parsed in one place.

use std::fmt;

use super::{Jid, MinionId, RunKind};

const AUTH: &str = "salt/auth";
const KEY: &str = "salt/key";
const PRESENCE_CHANGE: &str = "salt/presence/change";
const PRESENCE_PRESENT: &str = "salt/presence/present";
const PRESENCE_DUPLICATE: &str = "salt/presence/duplicate";
const JOB: &str = "salt/job";
const BATCH: &str = "salt/batch";
const MINION: &str = "salt/minion";

/// The tag of an event that a master fires. `Display` writes Salt's text, [`parse`](Self::parse)
/// reads it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EventTag {
    /// `salt/auth`: a minion authenticated, or tried to.
    Auth,
    /// `salt/key`: an operator changed a key.
    Key,
    /// `salt/presence/change`: minions came or went.
    PresenceChange,
    /// `salt/presence/present`: these minions are connected.
    PresencePresent,
    /// `salt/presence/duplicate`: two minions use one id.
    PresenceDuplicate,
    /// `salt/job/<jid>/…`: a job made progress.
    Job(Jid, JobEvent),
    /// `salt/batch/<jid>/…`: a batch made progress.
    Batch(Jid, BatchEvent),
    /// `salt/run/<jid>/…` or `salt/wheel/<jid>/…`: a run of a function of the master made progress.
    Run(RunKind, Jid, RunEvent),
    /// `salt/minion/<id>/<rest>`: an event that a minion fired, or that tells of one minion.
    Minion(MinionId, String),
}

/// The progress of a job that an event reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobEvent {
    /// `new`: the job was published.
    New,
    /// `ret/<id>`: the return of this minion is stored.
    Returned(MinionId),
    /// `start/<id>`: this minion began the job.
    Started(MinionId),
    /// `declined/<id>`: this minion does not match the target.
    Declined(MinionId),
    /// `expired/<id>`: this minion did not begin the job in time.
    Expired(MinionId),
    /// `state/<id>`: this minion came into a state that has no event of its own; the data name it.
    State(MinionId),
    /// `gone/<id>`: this minion, which may still begin or return, is no longer present.
    Gone(MinionId),
}

/// The progress of a batch that an event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchEvent {
    /// `new`: the batch was published.
    New,
    /// `progress`: minions got their turn, or ended.
    Progress,
    /// `stop`: an operator cancelled the job; no further minion gets its turn.
    Stop,
    /// `halted`: a minion failed; no further minion gets its turn.
    Halted,
    /// `complete`: no minion waits for its turn, and none has it.
    Complete,
    /// `recover`: the master was started again and goes on with the batch.
    Recover,
}

/// The progress of a run that an event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEvent {
    /// `new`: it was begun.
    New,
    /// `progress`: it says what it does.
    Progress,
    /// `ret`: it has ended.
    Returned,
}

impl EventTag {
    /// The segments that the tags of every event of `jid` begin with.
    pub fn below_job(jid: &Jid) -> String {
        format!("{JOB}/{jid}")
    }

    /// The segments that the tags of every event of a run begin with.
    pub fn below_run(kind: RunKind, jid: &Jid) -> String {
        format!("{}/{jid}", of_runs(kind))
    }

    /// The segments that the tags of the events of all jobs begin with.
    pub fn below_jobs() -> &'static str {
        JOB
    }

    /// The segments that the tags of all events of minions begin with.
    pub fn below_minions() -> &'static str {
        MINION
    }

    /// Whether a tag is below `salt`, in any case of letters: this or a later master fires such events alone, and nobody who
    /// fires an event by a tag of their choice may use it.
    pub fn is_reserved(tag: &str) -> bool {
        let first = tag.split('/').next().unwrap_or_default();
        first.eq_ignore_ascii_case("salt")
    }

    /// Whether a tag is that of an event that another system fires by a hook of the HTTP API: `salt/netapi/hook` or below it, which
    /// is reserved and for hooks alone.
    pub fn is_hook(tag: &str) -> bool {
        let Some(end) = tag.strip_prefix("salt/netapi/hook") else {
            return false;
        };
        let below = end.strip_prefix('/');
        end.is_empty()
            || below.is_some_and(|below| {
                below
                    .split('/')
                    .all(|part| !["", ".", ".."].contains(&part))
            })
    }

    /// Returns the tag by which a minion fired an event that has this tag on the master's bus; none for other events, and
    /// for a tag below `salt`, which is no minion's to choose.
    pub fn chosen_by_minion(tag: &str) -> Option<&str> {
        let (_, own) = tag
            .strip_prefix(MINION)?
            .strip_prefix('/')?
            .split_once('/')?;
        (!Self::is_reserved(own)).then_some(own)
    }

    /// Reads a tag; none when no master of this version fires it.
    pub fn parse(tag: &str) -> Option<Self> {
        match tag {
            AUTH => return Some(Self::Auth),
            KEY => return Some(Self::Key),
            PRESENCE_CHANGE => return Some(Self::PresenceChange),
            PRESENCE_PRESENT => return Some(Self::PresencePresent),
            PRESENCE_DUPLICATE => return Some(Self::PresenceDuplicate),
            _ => {}
        }
        let below = |prefix: &str| tag.strip_prefix(prefix)?.strip_prefix('/')?.split_once('/');
        if let Some((jid, rest)) = below(JOB) {
            return Some(Self::Job(Jid::parse(jid).ok()?, JobEvent::parse(rest)?));
        }
        if let Some((jid, rest)) = below(BATCH) {
            return Some(Self::Batch(Jid::parse(jid).ok()?, BatchEvent::parse(rest)?));
        }
        for kind in RunKind::ALL {
            if let Some((jid, rest)) = below(of_runs(kind)) {
                return Some(Self::Run(
                    kind,
                    Jid::parse(jid).ok()?,
                    RunEvent::parse(rest)?,
                ));
            }
        }
        let (id, rest) = below(MINION)?;
        Some(Self::Minion(MinionId::parse(id).ok()?, rest.to_owned()))
    }
}

/// Returns the segments that the tags of the events of all runs of a kind begin with.
fn of_runs(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Runner => "salt/run",
        RunKind::Wheel => "salt/wheel",
    }
}

impl JobEvent {
    fn parse(rest: &str) -> Option<Self> {
        if rest == "new" {
            return Some(Self::New);
        }
        let (kind, id) = rest.split_once('/')?;
        let event = match kind {
            "ret" => Self::Returned,
            "start" => Self::Started,
            "declined" => Self::Declined,
            "expired" => Self::Expired,
            "state" => Self::State,
            "gone" => Self::Gone,
            _ => return None,
        };
        Some(event(MinionId::parse(id).ok()?))
    }
}

impl BatchEvent {
    const ALL: [Self; 6] = [
        Self::New,
        Self::Progress,
        Self::Stop,
        Self::Halted,
        Self::Complete,
        Self::Recover,
    ];

    fn parse(rest: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == rest)
    }

    fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Progress => "progress",
            Self::Stop => "stop",
            Self::Halted => "halted",
            Self::Complete => "complete",
            Self::Recover => "recover",
        }
    }
}

impl RunEvent {
    const ALL: [Self; 3] = [Self::New, Self::Progress, Self::Returned];

    fn parse(rest: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == rest)
    }

    fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Progress => "progress",
            Self::Returned => "ret",
        }
    }
}

impl fmt::Display for EventTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auth => f.write_str(AUTH),
            Self::Key => f.write_str(KEY),
            Self::PresenceChange => f.write_str(PRESENCE_CHANGE),
            Self::PresencePresent => f.write_str(PRESENCE_PRESENT),
            Self::PresenceDuplicate => f.write_str(PRESENCE_DUPLICATE),
            Self::Job(jid, event) => write!(f, "{JOB}/{jid}/{event}"),
            Self::Batch(jid, event) => write!(f, "{BATCH}/{jid}/{}", event.name()),
            Self::Run(kind, jid, event) => {
                write!(f, "{}/{}", Self::below_run(*kind, jid), event.name())
            }
            Self::Minion(id, rest) => write!(f, "{MINION}/{id}/{rest}"),
        }
    }
}

impl fmt::Display for JobEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("new"),
            Self::Returned(id) => write!(f, "ret/{id}"),
            Self::Started(id) => write!(f, "start/{id}"),
            Self::Declined(id) => write!(f, "declined/{id}"),
            Self::Expired(id) => write!(f, "expired/{id}"),
            Self::State(id) => write!(f, "state/{id}"),
            Self::Gone(id) => write!(f, "gone/{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_is_written_as_salt_writes_it_and_read_back() {
        let jid = || Jid::parse("20261121091409931549").unwrap();
        let id = || MinionId::parse("web1.example.com").unwrap();
        let job = |event| EventTag::Job(jid(), event);
        for (tag, text) in [
            (EventTag::Auth, "salt/auth"),
            (EventTag::Key, "salt/key"),
            (EventTag::PresenceChange, "salt/presence/change"),
            (EventTag::PresenceDuplicate, "salt/presence/duplicate"),
            (job(JobEvent::New), "salt/job/20261121091409931549/new"),
            (
                job(JobEvent::Returned(id())),
                "salt/job/20261121091409931549/ret/web1.example.com",
            ),
            (
                job(JobEvent::Started(id())),
                "salt/job/20261121091409931549/start/web1.example.com",
            ),
            (
                job(JobEvent::Declined(id())),
                "salt/job/20261121091409931549/declined/web1.example.com",
            ),
            (
                job(JobEvent::Expired(id())),
                "salt/job/20261121091409931549/expired/web1.example.com",
            ),
            (
                job(JobEvent::State(id())),
                "salt/job/20261121091409931549/state/web1.example.com",
            ),
            (
                job(JobEvent::Gone(id())),
                "salt/job/20261121091409931549/gone/web1.example.com",
            ),
            (EventTag::PresencePresent, "salt/presence/present"),
            (EventTag::PresenceChange, "salt/presence/change"),
            (EventTag::PresenceDuplicate, "salt/presence/duplicate"),
            (
                EventTag::Minion(id(), "disk/full".into()),
                "salt/minion/web1.example.com/disk/full",
            ),
        ] {
            assert_eq!(tag.to_string(), text);
            assert_eq!(EventTag::parse(text), Some(tag));
        }
    }

    #[test]
    fn the_tags_of_a_batch_are_salts() {
        let jid = Jid::parse("20261121091409931549").unwrap();
        for name in ["new", "progress", "stop", "halted", "complete", "recover"] {
            let text = format!("salt/batch/20261121091409931549/{name}");
            let tag = EventTag::parse(&text).unwrap();
            assert!(
                matches!(&tag, EventTag::Batch(of, _) if *of == jid),
                "{text}"
            );
            assert_eq!(tag.to_string(), text);
        }
        assert_eq!(
            EventTag::parse("salt/batch/20261121091409931549/other"),
            None
        );
    }

    #[test]
    fn the_tags_of_runners_and_wheels_are_salts() {
        let jid = Jid::parse("20261121091409931549").unwrap();
        for (event, name) in [
            (RunEvent::New, "new"),
            (RunEvent::Progress, "progress"),
            (RunEvent::Returned, "ret"),
        ] {
            for (kind, of_kind) in [(RunKind::Runner, "run"), (RunKind::Wheel, "wheel")] {
                let text = format!("salt/{of_kind}/20261121091409931549/{name}");
                let tag = EventTag::Run(kind, jid.clone(), event);
                assert_eq!(tag.to_string(), text);
                assert_eq!(EventTag::parse(&text), Some(tag));
            }
        }
    }

    #[test]
    fn hooks_have_tags_below_their_own() {
        assert!(EventTag::is_hook("salt/netapi/hook/build/done"));
        assert!(EventTag::is_hook("salt/netapi/hook"));
        for tag in [
            "salt/netapi/hook/",
            "salt/netapi/hooks/a",
            "Salt/netapi/hook/a",
            "salt/netapi/hook/../auth",
            "salt/netapi/hook/a//b",
            "salt/auth",
        ] {
            assert!(!EventTag::is_hook(tag), "{tag}");
        }
    }

    #[test]
    fn everything_below_salt_is_reserved() {
        for tag in [
            "salt",
            "salt/auth",
            "Salt/auth",
            "SALT/x",
            "salt/job/1/ret/x",
            "salt/presence/foo",
            "salt/later",
        ] {
            assert!(EventTag::is_reserved(tag), "{tag}");
        }
        for tag in ["", "my/salt/auth", "saltish/auth", "my/tag"] {
            assert!(!EventTag::is_reserved(tag), "{tag}");
        }
    }

    #[test]
    fn other_texts_are_no_tags_of_a_master() {
        for text in [
            "",
            "salt",
            "salt/authentication",
            "salt/job/20261121091409931549",
            "salt/job/20261121091409931549/",
            "salt/job/20261121091409931549/ret",
            "salt/job/20261121091409931549/ret/a/b",
            "salt/job/20261121091409931549/later/a",
            "salt/jobs/20261121091409931549/new",
            "salt/run/20261121091409931549/other",
            "salt/run/20261121091409931549",
            "salt/wheel/20261121091409931549/other",
            "salt/job/x y/new",
            "salt/minion/web1",
        ] {
            assert_eq!(EventTag::parse(text), None, "{text:?}");
        }
    }
}
