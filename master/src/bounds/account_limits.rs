//! What one minion may have the master do, over all of its sessions and callers: the figures and their reasons.

use std::fmt;

use super::Rate;
use crate::settings::EventRates;

/// One mebibyte, in bytes.
const MIB: f64 = 1024.0 * 1024.0;

/// For how many seconds a minion that was silent may use a resource at once, where nothing else is said.
const BURST_SECONDS: f64 = 10.0;

/// What an account bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Resource {
    /// The bytes of requests.
    BytesIn,
    /// The bytes of answers.
    BytesOut,
    /// The jobs that requests name, each of which is looked up or written.
    Rows,
    /// The jobs that requests name and that are under way no more: each is read from the disk.
    ClosedJobs,
    /// The requests that are answered after a commit.
    Syncs,
    /// The reconciliations and farewells.
    Presences,
    /// The reports of all grains.
    Grains,
    /// The reports of all functions.
    Functions,
    /// The parts of large returns.
    Parts,
    /// The requests about files.
    Files,
    /// The pillars that are compiled.
    Pillars,
    /// The requests about the mine.
    MineRequests,
    /// The bytes that are left in the mine.
    MineBytes,
    /// The events that are fired.
    Events,
    /// The bytes of those events.
    EventBytes,
    /// The calls that `saline-call` stores.
    Calls,
    /// The bytes of those calls.
    CallBytes,
    /// The jobs that the minion says it runs, at a time. It has no bucket.
    OpenJobs,
}

impl Resource {
    /// Every resource, in the order of their numbers.
    pub(crate) const ALL: [Self; 18] = [
        Self::BytesIn,
        Self::BytesOut,
        Self::Rows,
        Self::ClosedJobs,
        Self::Syncs,
        Self::Presences,
        Self::Grains,
        Self::Functions,
        Self::Parts,
        Self::Files,
        Self::Pillars,
        Self::MineRequests,
        Self::MineBytes,
        Self::Events,
        Self::EventBytes,
        Self::Calls,
        Self::CallBytes,
        Self::OpenJobs,
    ];
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BytesIn => "the bytes of its requests",
            Self::BytesOut => "the bytes of its answers",
            Self::Rows => "the jobs that its requests name",
            Self::ClosedJobs => "the ended jobs that its requests name",
            Self::Syncs => "its requests that are written to the disk",
            Self::Presences => "its reconciliations and farewells",
            Self::Grains => "its reports of changed grains",
            Self::Functions => "its reports of changed functions",
            Self::Parts => "the parts of its large returns",
            Self::Files => "its requests about files",
            Self::Pillars => "the pillars that are compiled for it",
            Self::MineRequests => "its requests about the mine",
            Self::MineBytes => "the bytes that it leaves in the mine",
            Self::Events => "its events (minion_event_rate)",
            Self::EventBytes => "the bytes of its events (minion_event_bytes)",
            Self::Calls => "the calls and scheduled jobs that are stored for it",
            Self::CallBytes => "the bytes of the calls and scheduled jobs that are stored for it",
            Self::OpenJobs => "the jobs that it runs at a time",
        })
    }
}

/// What every account allows. A bucket that is full lets ten thousand minions come back at once: they share none.
#[derive(Debug, Clone)]
pub(crate) struct AccountLimits {
    /// Bytes of requests. 256 MiB a second: several times what a minion on the same machine delivers in large returns.
    pub(crate) bytes_in: Rate,
    /// Bytes of answers, of which pages of jobs are the largest. As `bytes_in`.
    pub(crate) bytes_out: Rate,
    /// Jobs named in requests; a request that names none counts as one. 50,000 a second: a minion that runs jobs as
    /// fast as it can (4,000 a second) names each three times, and one that comes back with a full spool delivers 64
    /// returns in a request.
    pub(crate) rows: Rate,
    /// Jobs that are under way no more. 200 a second: each costs the thread that writes the store a read, a tenth of a
    /// millisecond with a few minions and a millisecond with ten thousand. 20,000 at once: the spool of a minion
    /// that was away for days.
    pub(crate) closed_jobs: Rate,
    /// Requests that wait for a commit. 10,000 a second: a disk syncs less often, and many share a sync.
    pub(crate) syncs: Rate,
    /// Reconciliations and farewells. 2 a second, 120 at once: a session begins with one reconciliation for each
    /// thousand jobs that its minion has to account for.
    pub(crate) presences: Rate,
    /// Reports of all grains. One in ten seconds, ten at once: grains change seldom, and each report is written.
    pub(crate) grains: Rate,
    /// Reports of all functions. One a second, thirty at once: they change with the modules of the minion, and each is decoded
    /// and kept in memory alone.
    pub(crate) functions: Rate,
    /// Parts of large returns. 2,000 a second: parts of 256 KiB at `bytes_in`, and some that are sent again.
    pub(crate) parts: Rate,
    /// Requests about files. 2,000 a second: parts of 128 KiB at `bytes_out`, or two thousand small files, each of
    /// which takes two.
    pub(crate) files: Rate,
    /// Compilations of the pillar. One a second, thirty at once: each takes a processor for some milliseconds, and a minion
    /// asks when it begins and when somebody tells it to.
    pub(crate) pillars: Rate,
    /// Requests about the mine. 10 a second, 300 at once: each has a target resolved or rows written, some milliseconds of a
    /// processor with ten thousand minions, and a function that asks for all of their values asks page by page.
    pub(crate) mine_requests: Rate,
    /// Bytes that are left in the mine. 64 KiB a second, 4 MiB at once: all that one minion may have there, four times.
    pub(crate) mine_bytes: Rate,
    /// Calls that are stored, and parts of the returns of scheduled jobs: each call, and each scheduled job, is a job and a return on the
    /// master's disk for which nobody asked. 10 a second.
    pub(crate) calls: Rate,
    /// Bytes of those calls. 16 MiB at once, and 16 KiB a second, 1.3 GiB a day: they stay on the disk, and no operator
    /// asked for them.
    pub(crate) call_bytes: Rate,
    /// Jobs that the minion says it runs, at a time: as many as a heartbeat names, so that the master hears of each that
    /// it still runs.
    pub(crate) open_jobs: usize,
}

impl Default for AccountLimits {
    fn default() -> Self {
        Self {
            bytes_in: rate(256.0 * MIB),
            bytes_out: rate(256.0 * MIB),
            rows: rate(50_000.0),
            closed_jobs: Rate {
                per_second: 200.0,
                burst: 20_000.0,
            },
            syncs: rate(10_000.0),
            presences: Rate {
                per_second: 2.0,
                burst: 120.0,
            },
            grains: Rate {
                per_second: 0.1,
                burst: 10.0,
            },
            functions: Rate {
                per_second: 1.0,
                burst: 30.0,
            },
            parts: rate(2_000.0),
            files: rate(2_000.0),
            pillars: Rate {
                per_second: 1.0,
                burst: 30.0,
            },
            mine_requests: Rate {
                per_second: 10.0,
                burst: 300.0,
            },
            mine_bytes: Rate {
                per_second: MIB / 16.0,
                burst: 4.0 * MIB,
            },
            calls: rate(10.0),
            call_bytes: Rate {
                per_second: MIB / 64.0,
                burst: 16.0 * MIB,
            },
            open_jobs: saline_messages::MAX_RUNNING,
        }
    }
}

impl AccountLimits {
    /// Returns how the bucket of a resource fills; none when nothing bounds it in a second.
    pub(super) fn rate(&self, resource: Resource, events: EventRates) -> Option<Rate> {
        Some(match resource {
            Resource::BytesIn => self.bytes_in,
            Resource::BytesOut => self.bytes_out,
            Resource::Rows => self.rows,
            Resource::ClosedJobs => self.closed_jobs,
            Resource::Syncs => self.syncs,
            Resource::Presences => self.presences,
            Resource::Grains => self.grains,
            Resource::Functions => self.functions,
            Resource::Parts => self.parts,
            Resource::Files => self.files,
            Resource::Pillars => self.pillars,
            Resource::MineRequests => self.mine_requests,
            Resource::MineBytes => self.mine_bytes,
            Resource::Events => rate(events.events? as f64),
            Resource::EventBytes => rate(events.bytes? as f64),
            Resource::Calls => self.calls,
            Resource::CallBytes => self.call_bytes,
            Resource::OpenJobs => return None,
        })
    }
}

/// Returns how a bucket of so many tokens a second fills.
fn rate(per_second: f64) -> Rate {
    Rate {
        per_second,
        burst: per_second * BURST_SECONDS,
    }
}
