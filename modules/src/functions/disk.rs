//! `disk`: space on filesystems.

use rustix::fs::{StatVfs, statvfs};
use saline_data::Value;
use saline_functions::{Failure, function};

use crate::mount_table::Mount;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&USAGE, &PERCENT, &INODEUSAGE];

/// Returns the space of each filesystem that has any: `1K-blocks`, `used` and `available` in KiB, and `capacity`, the share
/// that is used. Numbers are texts, as in Salt. A network filesystem whose server does not answer blocks the job until it is
/// killed.
///
/// args
///     A folder or a file: only the filesystem that has it.
///
/// CLI Example:
///
///     saline '*' disk.usage
///     saline '*' disk.usage /var/lib
#[function]
fn usage(_: &JobContext<'_>, args: Option<String>) -> Result<Value, Failure> {
    of_filesystems(args.as_deref(), |mount, space| {
        let kibibytes = |blocks: u64| {
            let bytes = u128::from(blocks) * u128::from(space.f_frsize);
            Value::from((bytes / 1024).to_string())
        };
        (space.f_blocks > 0).then(|| {
            Value::map([
                ("filesystem", Value::from(mount.device.as_str())),
                ("1K-blocks", kibibytes(space.f_blocks)),
                (
                    "used",
                    kibibytes(space.f_blocks.saturating_sub(space.f_bfree)),
                ),
                ("available", kibibytes(space.f_bavail)),
                ("capacity", used_space(space).into()),
            ])
        })
    })
}

/// Returns the share of each filesystem that is used, such as `33%`.
///
/// args
///     A folder where a filesystem is mounted: only its share, as a text.
///
/// CLI Example:
///
///     saline '*' disk.percent
///     saline '*' disk.percent /var
#[function]
fn percent(_: &JobContext<'_>, args: Option<String>) -> Result<Value, Failure> {
    let all = of_filesystems(args.as_deref(), |_, space| {
        (space.f_blocks > 0).then(|| used_space(space).into())
    })?;
    Ok(match (all, args) {
        (Value::Map(mut shares), Some(_)) => shares.pop().map_or(Value::Null, |(_, share)| share),
        (all, _) => all,
    })
}

/// Returns the inodes of each filesystem that counts them: `inodes`, `used`, `free`, and `use`, the share that is used.
///
/// args
///     A folder or a file: only the filesystem that has it.
///
/// CLI Example:
///
///     saline '*' disk.inodeusage
#[function]
fn inodeusage(_: &JobContext<'_>, args: Option<String>) -> Result<Value, Failure> {
    of_filesystems(args.as_deref(), |mount, space| {
        let used = space.f_files.saturating_sub(space.f_ffree);
        let number = |number: u64| Value::from(number.to_string());
        (space.f_files > 0).then(|| {
            Value::map([
                ("filesystem", Value::from(mount.device.as_str())),
                ("inodes", number(space.f_files)),
                ("used", number(used)),
                ("free", number(space.f_ffree)),
                ("use", share(used, space.f_favail).into()),
            ])
        })
    })
}

/// Returns a value for each folder where a filesystem is mounted, or for the one that has `path`. Of several filesystems
/// mounted on one folder the last one is seen there.
fn of_filesystems(
    path: Option<&str>,
    value: impl Fn(&Mount, &StatVfs) -> Option<Value>,
) -> Result<Value, Failure> {
    let failed = |what: &str, error: std::io::Error| Failure::Execution(format!("{what}: {error}"));
    let mut mounts = Mount::active().map_err(|error| failed("cannot read the mounts", error))?;
    mounts.reverse();
    let mut found: Vec<(String, Value)> = Vec::new();
    if let Some(path) = path {
        let real = std::fs::canonicalize(path).map_err(|error| failed(path, error))?;
        let holds = |mount: &&Mount| real.starts_with(&mount.folder);
        let holder = mounts
            .iter()
            .filter(holds)
            .max_by_key(|mount| mount.folder.len());
        // A folder that is mounted twice is seen as it was mounted last.
        let last = holder.and_then(|holder| mounts.iter().find(|one| one.folder == holder.folder));
        mounts = last.cloned().into_iter().collect();
    }
    for mount in &mounts {
        if found.iter().any(|(folder, _)| *folder == mount.folder) {
            continue;
        }
        // One that this process may not look at, or that was unmounted meanwhile, is left out, as df does.
        let Ok(space) = statvfs(&mount.folder) else {
            continue;
        };
        if let Some(value) = value(mount, &space) {
            found.push((mount.folder.clone(), value));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Value::Map(found))
}

/// Returns the used share as df computes it: of what users may fill, rounded up.
fn used_space(space: &StatVfs) -> String {
    share(space.f_blocks.saturating_sub(space.f_bfree), space.f_bavail)
}

fn share(used: u64, available: u64) -> String {
    let (used, all) = (u128::from(used), u128::from(used) + u128::from(available));
    match all {
        0 => "-".to_owned(),
        all => format!("{}%", (used * 100).div_ceil(all)),
    }
}
