//! `timezone`: the time zone of the machine.

use std::path::{Component, Path};

use saline_data::Value;
use saline_functions::{Failure, function};

use crate::change::change;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&GET_ZONE, &GET_OFFSET, &GET_ZONECODE, &SET_ZONE];

/// The file that the C library reads.
const LOCALTIME: &str = "/etc/localtime";

/// Where the zones are.
const ZONES: &str = "/usr/share/zoneinfo";

/// Returns the name of the time zone, such as `Europe/Berlin`.
///
/// CLI Example:
///
///     saline '*' timezone.get_zone
#[function]
fn get_zone(_: &JobContext<'_>) -> Result<String, Failure> {
    zone()?.ok_or_else(|| {
        Failure::Execution(format!(
            "{LOCALTIME} is not a link to a zone, so that its name is unknown"
        ))
    })
}

/// Returns by how much the time zone is ahead of UTC now, such as `+0100`.
///
/// CLI Example:
///
///     saline '*' timezone.get_offset
#[function]
fn get_offset(job: &JobContext<'_>) -> Result<String, Failure> {
    Ok(job.succeed(&["date", "+%z"], "")?.trim().to_owned())
}

/// Returns the letters of the time zone, such as `CET`.
///
/// CLI Example:
///
///     saline '*' timezone.get_zonecode
#[function]
fn get_zonecode(job: &JobContext<'_>) -> Result<String, Failure> {
    Ok(job.succeed(&["date", "+%Z"], "")?.trim().to_owned())
}

/// Sets the time zone. Programs that run take note of it when they start the next time. Returns the names, `{old, new}`.
///
/// timezone
///     The name of a zone, such as `Europe/Berlin` or `UTC`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' timezone.set_zone Europe/Berlin
#[function(changes)]
fn set_zone(
    _: &JobContext<'_>,
    timezone: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let name = Path::new(&timezone);
    let is_below = name
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let file = Path::new(ZONES).join(name);
    if timezone.is_empty() || !is_below || !is_zone(&file) {
        let why = format!("there is no time zone {timezone:?} in {ZONES}");
        return Err(Failure::Execution(why));
    }
    let old = zone()?;
    let done = change(
        old.clone().map_or(Value::Null, Value::Text),
        timezone.as_str(),
    );
    if test || old.as_ref() == Some(&timezone) {
        return Ok(done);
    }
    link(&file)
        .map_err(|error| Failure::Execution(format!("cannot write {LOCALTIME}: {error}")))?;
    // Debian keeps the name in a file too, which must not contradict the link.
    let names = Path::new("/etc/timezone");
    if names.is_file() {
        let mut lines = crate::line_file::Lines::default();
        lines.push(&timezone);
        lines.write(names)?;
    }
    Ok(done)
}

/// Puts a link to the zone in the place of the file, in one step.
fn link(zone: &Path) -> std::io::Result<()> {
    let folder = tempfile::Builder::new()
        .prefix(".saline-")
        .tempdir_in("/etc")?;
    let link = folder.path().join("localtime");
    std::os::unix::fs::symlink(zone, &link)?;
    std::fs::rename(link, LOCALTIME)
}

/// Whether a file begins as the files of zones do.
fn is_zone(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"TZif"))
}

/// Returns the name of the zone that the link names; `UTC` if there is no file, as in the C library.
fn zone() -> Result<Option<String>, Failure> {
    let target = match std::fs::read_link(LOCALTIME) {
        Ok(target) => target,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Some("UTC".to_owned()));
        }
        // A copy of a zone.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => return Ok(None),
        Err(error) => {
            return Err(Failure::Execution(format!(
                "cannot read {LOCALTIME}: {error}"
            )));
        }
    };
    let text = target.to_string_lossy();
    Ok(text
        .split_once("zoneinfo/")
        .map(|(_, name)| name.to_owned()))
}
