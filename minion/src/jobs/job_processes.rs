//! Jobs in processes of their own: how they begin, and how their returns reach the spool, also when an earlier start of the
//! minion began them.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use saline_messages::{Jid, Known, RETCODE_INTERRUPTED, Return};
use saline_modules::job::Entered;
use saline_modules::job_process::{
    self, JobCall, JobProcess, JobProcesses, JobResult, LeftJob, LeftProcess, StartError,
};
use saline_modules::{Host, Modules, Outcome, ended, ended_before_start};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::run_job::{JobEnd, JobToRun, begin, revealed};
use crate::spool::Spool;
use saline_data::{Packed, Value};
use saline_functions::Failure;

/// A job whose process runs.
#[derive(Debug)]
pub(super) struct RunningProcess {
    pub(super) process: Arc<JobProcess>,
    pub(super) jid: Jid,
    /// The name of the job in the minion's own schedule, if it is of that.
    pub(super) schedule: Option<String>,
    fun: String,
    entered: Entered,
}

/// How the beginning of a job in a process of its own went.
#[derive(Debug)]
pub(super) enum Begun {
    /// The job runs in its process.
    Running(RunningProcess),
    /// No process was started: the job has begun, and is to run on this thread.
    NoProcess(Entered),
    /// The job has ended.
    Ended(JobEnd),
}

/// Notes in the spool that a job begins, gets what its functions need of the master, and starts its process.
pub(super) fn begin_in_process(
    processes: &JobProcesses,
    modules: &Modules,
    host: &Host,
    spool: &Spool,
    run: &JobToRun,
    entered: Entered,
) -> Begun {
    let job = &run.job;
    if let Err(end) = begin(spool, run) {
        return Begun::Ended(end);
    }
    let end_with = |failure: &Failure, entered: Entered| {
        let outcome = Outcome::of_failure(failure, &job.fun, "");
        let payload = Packed::pack(&outcome.value);
        finish(spool, &job.jid, &job.fun, outcome.retcode, payload);
        drop(entered);
        Begun::Ended(JobEnd::Spooled)
    };
    let (arguments, hidden) = match revealed(run) {
        Ok(revealed) => revealed,
        Err(failure) => return end_with(&failure, entered),
    };
    if let Err(ending) = entered.control().begin() {
        return end_with(&ended_before_start(&ending), entered);
    }
    let control = entered.control();
    let prepared = match modules.prepare(&job.fun, &arguments, &hidden, host, control) {
        Ok(prepared) => prepared,
        Err(failure) => return end_with(&failure, entered),
    };
    let call = JobCall {
        job,
        scheduled: run.scheduled.as_ref(),
        arguments: &arguments,
        hidden,
        prepared,
    };
    #[cfg(feature = "chaos")]
    if saline_daemon::sabotage::is_on("rerun") {
        // The other run counts.
        let _ = processes.start(modules, host, call.clone());
    }
    match processes.start(modules, host, call) {
        Ok(process) => {
            let process = Arc::new(process);
            entered.control().runs_in(Arc::clone(&process));
            Begun::Running(RunningProcess {
                process,
                jid: job.jid.clone(),
                schedule: run.scheduled.as_ref().map(|call| call.run.schedule.clone()),
                fun: job.fun.clone(),
                entered,
            })
        }
        Err(StartError::Lost(error)) => {
            let why = StartError::Lost(error).to_string();
            let (retcode, payload) = lost(&why, None, &job.fun);
            finish(spool, &job.jid, &job.fun, retcode, payload);
            drop(entered);
            Begun::Ended(JobEnd::Spooled)
        }
        Err(error) => {
            tracing::warn!(
                "job {}: it runs in the minion and ends with it, since it cannot get a process of its own: {error}",
                job.jid
            );
            Begun::NoProcess(entered)
        }
    }
}

impl RunningProcess {
    /// Waits for the end of the process.
    ///
    /// # Cancel safety
    /// The process goes on when the future is dropped.
    #[allow(
        unsafe_code,
        reason = "tokio asks its caller to keep the descriptor open"
    )]
    pub(super) async fn ended(&self) -> io::Result<()> {
        let process = self.process.as_fd();
        // SAFETY: the process keeps its descriptor, one and the same, for longer than this borrows it.
        let ended = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }?;
        ended.readable().await.map(drop)
    }

    /// Puts the return of the process, which has ended, into the spool.
    pub(super) fn collect(self, modules: &Modules, spool: &Spool) -> JobEnd {
        let end = self.process.end();
        let ending = self.entered.control().ending();
        let (retcode, payload) = match end {
            job_process::JobEnd::Returned(result) => {
                result.teach(modules);
                returned(result, &self.jid)
            }
            job_process::JobEnd::Without { why, retcode } => match ending {
                Some(ending) => failed(&ended(&ending), &self.fun),
                None => lost(&why, retcode, &self.fun),
            },
        };
        // On a full disk the next start finds it in the folder, should this minion be killed before the master has it.
        if finish(spool, &self.jid, &self.fun, retcode, payload) {
            self.process.remove();
        }
        // After the return is spooled, so that every heartbeat either lists the job or finds its return.
        drop(self.entered);
        JobEnd::Spooled
    }
}

/// Puts the returns of jobs that an earlier start of the minion began into the spool, and enters those that run as running.
pub(super) fn take_over(left: Vec<LeftJob>, host: &Host, spool: &Spool) -> Vec<RunningProcess> {
    let mut running = Vec::new();
    for job in left {
        let (jid, fun) = (job.record.jid.clone(), job.record.fun.clone());
        let known = spool.known(&jid);
        match job.process {
            LeftProcess::Running(process) => {
                tracing::info!("job {jid}: {fun} has gone on in process {}", process.pid());
                spool.take_over(&job.record);
                let schedule = job.record.scheduled.as_ref();
                let schedule = schedule.map(|call| call.run.schedule.clone());
                let entered = host.running.enter(job.record.running_job());
                // Nobody could ask it to end before it was entered.
                let _ = entered.control().begin();
                let process = Arc::new(process);
                entered.control().runs_in(Arc::clone(&process));
                running.push(RunningProcess {
                    process,
                    jid,
                    schedule,
                    fun,
                    entered,
                });
            }
            LeftProcess::Ended(ref end) => {
                let mut is_kept = true;
                if matches!(known, Known::No | Known::Running) {
                    spool.take_over(&job.record);
                    let (retcode, payload) = match end {
                        job_process::JobEnd::Returned(result) => {
                            tracing::info!("job {jid}: {fun} has ended meanwhile");
                            returned(result.clone(), &jid)
                        }
                        job_process::JobEnd::Without { why, retcode } => {
                            tracing::warn!("job {jid}: the process of {fun} {why}");
                            lost(why, *retcode, &fun)
                        }
                    };
                    is_kept = finish(spool, &jid, &fun, retcode, payload);
                }
                if is_kept {
                    job.remove();
                }
            }
        }
    }
    running
}

fn returned(result: JobResult, jid: &Jid) -> (i64, Packed) {
    result.log(jid);
    let payload = result.payload;
    #[cfg(feature = "chaos")]
    let payload = match payload.unpack() {
        Ok(value) => Packed::pack(&super::run_job::shortened(value)),
        Err(_) => payload,
    };
    (result.retcode, payload)
}

fn failed(failure: &Failure, fun: &str) -> (i64, Packed) {
    let outcome = Outcome::of_failure(failure, fun, "");
    (outcome.retcode, Packed::pack(&outcome.value))
}

/// Makes the return of a job whose process left none.
fn lost(why: &str, retcode: Option<i64>, fun: &str) -> (i64, Packed) {
    let text = format!("ERROR: the process of this job ({fun}) {why}");
    let retcode = retcode.unwrap_or(RETCODE_INTERRUPTED);
    (retcode, Packed::pack(&Value::from(text)))
}

/// Puts a return into the spool. Returns whether it is on the disk.
fn finish(spool: &Spool, jid: &Jid, fun: &str, retcode: i64, payload: Packed) -> bool {
    spool.finish(Return {
        jid: jid.clone(),
        fun: fun.to_owned(),
        retcode,
        success: retcode == 0,
        payload,
    })
}
