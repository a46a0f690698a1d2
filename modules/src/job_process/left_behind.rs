//! The jobs that an earlier minion left behind, as the next one finds them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::folder::{Holder, JobFolder, holder};
use super::process::without;
use super::result::JobResult;
use super::versioned::FormatError;
use super::{JobEnd, JobFolders, JobProcess, JobRecord};

/// The largest number of folders that are looked at.
const MAX_FOLDERS: usize = 100_000;

/// What became of the process of a job that never began, after "the process of this job".
const NEVER_BEGUN: &str =
    "was never started, since the minion was ended first: the job did not run";

/// A job that an earlier minion left behind.
#[derive(Debug)]
pub struct LeftJob {
    /// The job.
    pub record: JobRecord,
    /// The process.
    pub process: LeftProcess,
    folder: JobFolder,
}

/// The process of a job that was left behind.
#[derive(Debug)]
pub enum LeftProcess {
    /// The process runs.
    Running(JobProcess),
    /// The process has ended, or was never started and never will be.
    Ended(JobEnd),
}

impl LeftJob {
    /// Removes everything of the job. To be called when its return is kept elsewhere.
    pub fn remove(&self) {
        self.folder.remove();
    }
}

/// The reason why a folder is not the one of a job that is gone on with.
enum Refused {
    /// Nobody needs the folder: it is removed.
    Stale(&'static str),
    /// The folder may be another minion's: it is left alone.
    Aside(String),
}

/// Finds the jobs that an earlier minion in the same place left behind, and removes what is left of others. Without a place,
/// or with that of another machine or boot, or in a copy of the folder, none is found.
pub fn find(folders: &JobFolders, place: Option<&[u8]>) -> Vec<LeftJob> {
    let run = folders.run();
    let entries = match run.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => saline_private_files::check_folder(run).and_then(|()| fs::read_dir(run).map(Some)),
    };
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(
                "jobs that an earlier minion left behind are not looked for: {}: {error}",
                run.display()
            );
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for entry in entries.into_iter().flatten().flatten().take(MAX_FOLDERS) {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_ours(name)) else {
            continue;
        };
        let folder = folders.named(name);
        match look_into(&folder, place) {
            Ok(job) => found.push(job),
            Err(Refused::Stale(why)) => {
                tracing::info!("removing {}: {why}", folder.path().display());
                folder.remove();
                continue;
            }
            Err(Refused::Aside(why)) => {
                tracing::warn!(
                    "{} is left alone, and its job counts as interrupted: {why}",
                    folder.path().display()
                );
            }
        }
        names.insert(format!("{name}.return"));
    }
    sweep(folders.state(), &names);
    found
}

/// Whether a minion gave a folder this name.
fn is_ours(name: &str) -> bool {
    let parts = name.split_once('-');
    parts.is_some_and(|(start, number)| {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        start.len() == 16 && start.bytes().all(is_hex) && number.parse::<u64>().is_ok()
    })
}

fn look_into(folder: &JobFolder, place: Option<&[u8]>) -> Result<LeftJob, Refused> {
    let aside = |error: io::Error| Refused::Aside(error.to_string());
    if !folder.path().symlink_metadata().map_err(aside)?.is_dir() {
        return Err(Refused::Aside("it is not a folder".to_owned()));
    }
    let file = match folder.open_record() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Refused::Stale("its job was given up"));
        }
        opened => opened.map_err(aside)?,
    };
    let record = match JobFolder::read_record(&file) {
        Ok(record) => record,
        Err(error @ (FormatError::Version(_) | FormatError::Damaged)) => {
            return Err(Refused::Aside(format!("the record of its job: {error}")));
        }
        Err(FormatError::Read(error)) => return Err(aside(error)),
    };
    let is_here = place == Some(record.place.as_slice())
        && folder
            .identity()
            .is_ok_and(|identity| identity == record.folder);
    if !is_here {
        return Err(match holder(&file).map_err(aside)? {
            Holder::Nobody => {
                Refused::Stale("its job was begun before the machine was started, or elsewhere")
            }
            _ => Refused::Aside(format!(
                "its process runs job {}, and was started before the state of this minion was put back",
                record.jid
            )),
        });
    }
    let process = loop {
        match folder.give_up(&file).map_err(aside)? {
            Holder::Nobody => {
                break LeftProcess::Ended(match JobResult::find(folder) {
                    Ok(Some(result)) => JobEnd::Returned(result),
                    Ok(None) if folder.is_not_begun() => JobEnd::Without {
                        why: NEVER_BEGUN.to_owned(),
                        retcode: None,
                    },
                    Ok(None) => without(None),
                    Err(error) => JobEnd::Without {
                        why: format!(
                            "has left a return that is not understood, in {}: {error}",
                            folder.set_aside().display()
                        ),
                        retcode: None,
                    },
                });
            }
            Holder::Unseen => {
                return Err(Refused::Aside(format!(
                    "job {} runs in another container",
                    record.jid
                )));
            }
            Holder::Process(pid) => {
                let process = JobProcess::of_holder(folder.clone(), pid, &file).map_err(aside)?;
                if let Some(process) = process {
                    break LeftProcess::Running(process);
                }
            }
        }
    };
    Ok(LeftJob {
        record,
        process,
        folder: folder.clone(),
    })
}

/// Removes large returns that belong to no folder.
fn sweep(state: &Path, kept: &BTreeSet<String>) {
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_return = name.to_str().is_some_and(|name| {
            let job = name.split_once(".return").map(|(job, _)| job);
            job.is_some_and(|job| is_ours(job) && !kept.contains(&format!("{job}.return")))
        });
        if is_return && let Err(error) = fs::remove_file(entry.path()) {
            tracing::warn!("cannot remove {}: {error}", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use saline_messages::{Arguments, Jid, Job, MustClaim, StartId};
    use saline_targeting::Target;

    use super::*;

    const PLACE: &[u8] = b"here";

    fn job() -> Job {
        Job {
            jid: Jid::parse("20261121091409931549").unwrap(),
            target: Target::glob("*"),
            fun: "cmd.run".into(),
            arg: Arguments::default().pack(),
            user: "root".into(),
            created: 1000,
            expires: 61_000,
            claims: MustClaim::NOBODY,
        }
    }

    /// Leaves the folder of a job as a minion does that is killed before it has started the process.
    fn leave(folders: &JobFolders) -> JobFolder {
        let folder = folders.create(StartId([7; 16]), 1).unwrap();
        let identity = folder.identity().unwrap();
        let record = JobRecord::of(&job(), None, PLACE.to_vec(), identity);
        folder.write_record(&record).unwrap();
        folder
    }

    fn folders() -> (tempfile::TempDir, JobFolders) {
        let root = tempfile::tempdir().unwrap();
        let folders = JobFolders::below(&root.path().join("run"), &root.path().join("state"));
        (root, folders)
    }

    #[test]
    fn a_job_that_is_given_up_runs_in_no_late_process() {
        let (_root, folders) = folders();
        assert!(find(&folders, Some(PLACE)).is_empty(), "nothing was left");
        let folder = leave(&folders);
        let left = find(&folders, Some(PLACE));
        let LeftProcess::Ended(JobEnd::Without { why, .. }) = &left[0].process else {
            panic!("{left:?}");
        };
        assert_eq!(why, NEVER_BEGUN);
        assert!(folder.claim().unwrap().is_none());
        left[0].remove();
        assert!(!folder.path().exists());
        assert!(folder.claim().unwrap().is_none());
    }

    #[test]
    fn a_job_that_has_begun_is_not_said_to_have_not_run() {
        let (_root, folders) = folders();
        let folder = leave(&folders);
        folder.begin().unwrap();
        let left = find(&folders, Some(PLACE));
        let LeftProcess::Ended(JobEnd::Without { why, .. }) = &left[0].process else {
            panic!("{left:?}");
        };
        assert!(why.starts_with("ended without a return"), "{why}");
    }

    #[test]
    fn a_return_is_found_in_each_place_and_one_of_another_version_is_set_aside() {
        let (root, folders) = folders();
        for large in [false, true] {
            let folder = leave(&folders);
            let result = JobResult {
                retcode: 3,
                payload: saline_data::Packed::pack(&match large {
                    true => "x".repeat(2_000_000).into(),
                    false => saline_data::Value::from("small"),
                }),
                log: Vec::new(),
                described: None,
            };
            let memory = tempfile::tempfile().unwrap();
            result.leave(&folder, &memory).unwrap();
            assert_eq!(folder.result().exists(), !large);
            assert_eq!(folder.large_result().exists(), large);
            // A minion that ends before its spool has the return leaves it for the next one.
            assert_eq!(find(&folders, Some(PLACE)).len(), 1);
            let left = find(&folders, Some(PLACE));
            let LeftProcess::Ended(JobEnd::Returned(found)) = &left[0].process else {
                panic!("{left:?}");
            };
            assert_eq!(found, &result);
            left[0].remove();
            assert!(!folder.path().exists() && !folder.large_result().exists());
        }
        let folder = leave(&folders);
        saline_private_files::write(&folder.result(), b"SALJOB\x02 and more").unwrap();
        let left = find(&folders, Some(PLACE));
        let LeftProcess::Ended(JobEnd::Without { why, .. }) = &left[0].process else {
            panic!("{left:?}");
        };
        assert!(why.contains("it is of version 2"), "{why}");
        left[0].remove();
        let aside = root.path().join("run/jobs/0707070707070707-1.aside/return");
        assert!(aside.exists(), "it is kept for the operator");
        assert!(find(&folders, Some(PLACE)).is_empty());
        assert!(aside.exists());
    }

    #[test]
    fn a_return_that_no_folder_takes_is_left_in_memory() {
        let (root, folders) = folders();
        let folder = leave(&folders);
        let mut result = JobResult {
            retcode: 0,
            payload: saline_data::Packed::pack(&"x".repeat(2_000_000).into()),
            log: Vec::new(),
            described: None,
        };
        let mut memory = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut memory, b"a longer call").unwrap();
        std::fs::write(root.path().join("state"), "a file in its place").unwrap();
        // A large one has place in the folder too.
        result.leave(&folder, &memory).unwrap();
        assert_eq!(JobResult::find(&folder).unwrap(), Some(result.clone()));
        std::fs::remove_dir_all(root.path().join("run")).unwrap();
        result.payload = saline_data::Packed::pack(&"kept".into());
        result.leave(&folder, &memory).unwrap();
        assert_eq!(JobResult::from_memory(&memory).unwrap(), result);
    }

    #[test]
    fn what_is_from_elsewhere_is_removed() {
        let (root, folders) = folders();
        for place in [None, Some(&b"another boot"[..])] {
            let folder = leave(&folders);
            assert!(find(&folders, place).is_empty());
            assert!(!folder.path().exists());
        }
        // A copy of the folder.
        let folder = leave(&folders);
        let copy = folders.named("0707070707070707-2");
        saline_private_files::create_folder(copy.path()).unwrap();
        std::fs::copy(folder.path().join("job"), copy.path().join("job")).unwrap();
        folder.remove();
        assert!(find(&folders, Some(PLACE)).is_empty());
        assert!(!copy.path().exists());
        // Large returns whose folders were in memory.
        let state = root.path().join("state/jobs");
        saline_private_files::create_folder(&state).unwrap();
        for name in ["0707070707070707-9.return", "precious"] {
            std::fs::write(state.join(name), "").unwrap();
        }
        assert!(find(&folders, Some(PLACE)).is_empty());
        let left: Vec<_> = std::fs::read_dir(&state).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_folder_that_others_can_change_is_not_looked_into() {
        use std::os::unix::fs::PermissionsExt;

        let (_root, folders) = folders();
        let folder = leave(&folders);
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(folders.run(), 0o777);
        assert!(find(&folders, Some(PLACE)).is_empty());
        mode(folders.run(), 0o700);
        mode(folder.path(), 0o777);
        assert!(find(&folders, Some(PLACE)).is_empty());
        mode(folder.path(), 0o700);
        mode(&folder.path().join("job"), 0o666);
        assert!(find(&folders, Some(PLACE)).is_empty());
        mode(&folder.path().join("job"), 0o600);
        assert_eq!(find(&folders, Some(PLACE)).len(), 1);
    }
}
