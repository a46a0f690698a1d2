//! Lists files of the master, page by page.

use saline_data::Value;
use saline_functions::Failure;
use saline_messages::{FileEntry, FileRefusal, FileReply, FileRequest};

use super::refused;
use crate::JobContext;
use crate::pending_answer::wrong_answer;

/// The most bytes of a page that is asked for.
const PAGE: u64 = 48 * 1024;

/// Hands every file and folder below a folder of an environment to `take`. Returns whether there is such a folder.
///
/// # Errors
/// When the master does not list it, and with the failure of `take`.
pub(crate) fn list(
    job: &JobContext<'_>,
    environment: &str,
    below: &str,
    mut take: impl FnMut(FileEntry) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut after: Option<String> = None;
    loop {
        let request = FileRequest::List {
            environment: environment.to_owned(),
            below: below.to_owned(),
            after: after.clone(),
            bytes: PAGE,
        };
        let page = match job.ask_or_refused(&request)? {
            FileReply::Listed(page) => page,
            FileReply::Refused(FileRefusal::NoFile) => return Ok(false),
            FileReply::Refused(why) => return Err(refused(&request, why)),
            _ => return Err(wrong_answer()),
        };
        let last = page.entries.last().map(|entry| entry.path.clone());
        page.entries.into_iter().try_for_each(&mut take)?;
        if !page.more || last.is_none() || last == after {
            return Ok(true);
        }
        after = last;
    }
}

/// Returns the paths below a folder of an environment that are wanted, if they fit into a return.
pub(crate) fn list_names(
    job: &JobContext<'_>,
    environment: &str,
    below: &str,
    is_wanted: impl Fn(&FileEntry) -> bool,
) -> Result<Value, Failure> {
    let (most, mut bytes, mut names) = (job.host.max_payload(), 0, Vec::new());
    list(job, environment, below, |entry| {
        if is_wanted(&entry) {
            bytes += entry.path.len() + 8;
            if bytes > most {
                return Err(Failure::Execution(
                    "the list is too large for a return: name a folder with `prefix`".to_owned(),
                ));
            }
            names.push(Value::from(entry.path));
        }
        Ok(())
    })?;
    Ok(Value::List(names))
}
