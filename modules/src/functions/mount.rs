//! `mount`: mounted filesystems, and `/etc/fstab`.

use std::path::Path;

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};

use crate::change::change;
use crate::line_file::Lines;
use crate::mount_table::Mount;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &ACTIVE,
    &IS_MOUNTED,
    &FSTAB,
    &SWAPS,
    &MOUNT,
    &UMOUNT,
    &REMOUNT,
    &SET_FSTAB,
    &RM_FSTAB,
];

/// Options of a mount: a text with commas, or a list.
struct MountOptions(Vec<String>);

impl FromValue for MountOptions {
    const TAKES: &'static str = "options with commas between them, or a list of them";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let options: Vec<String> = match value {
            list @ Value::List(_) => Vec::from_value(list)?,
            one => vec![String::from_value(one)?],
        };
        let options = options.iter().flat_map(|some| some.split(','));
        let options = options.filter(|one| !one.is_empty()).map(str::to_owned);
        Ok(Self(options.collect()))
    }
}

impl MountOptions {
    fn joined(&self) -> String {
        match self.0.is_empty() {
            true => "defaults".to_owned(),
            false => self.0.join(","),
        }
    }
}

/// Returns what is mounted, by folder: the device, the kind of filesystem and the options. Of several filesystems on one
/// folder, the last one.
///
/// CLI Example:
///
///     saline '*' mount.active
#[function]
fn active(_: &JobContext<'_>) -> Result<Value, Failure> {
    let mut found: Vec<(String, Value)> = Vec::new();
    for mount in active_mounts()? {
        let value = Value::map([
            ("device", Value::from(mount.device)),
            ("fstype", Value::from(mount.fstype)),
            ("opts", Value::texts(mount.options)),
        ]);
        found.retain(|(folder, _)| *folder != mount.folder);
        found.push((mount.folder, value));
    }
    Ok(Value::Map(found))
}

/// Returns whether a filesystem is mounted on this folder.
///
/// CLI Example:
///
///     saline '*' mount.is_mounted /mnt/share
#[function]
fn is_mounted(_: &JobContext<'_>, name: String) -> Result<bool, Failure> {
    mounted(&name)
}

/// Returns the entries of `/etc/fstab` by folder.
///
/// config
///     Another file.
///
/// CLI Example:
///
///     saline '*' mount.fstab
#[function]
fn fstab(_: &JobContext<'_>, #[default("/etc/fstab")] config: String) -> Result<Value, Failure> {
    let lines = Lines::read(Path::new(&config))?;
    let mut found: Vec<(String, Value)> = Vec::new();
    for mount in lines.texts().filter_map(|line| Mount::parse(&line)) {
        // Several entries for swap stand on the folder none or swap, as in Salt.
        found.push((mount.folder.clone(), mount.to_value()));
    }
    Ok(Value::Map(found))
}

/// Returns the files and partitions that are used as swap space: `type`, `size` and `used` in KiB, and `priority`.
///
/// CLI Example:
///
///     saline '*' mount.swaps
#[function]
fn swaps(_: &JobContext<'_>) -> Result<Value, Failure> {
    let lines = Lines::read(Path::new("/proc/swaps"))?;
    let entries = lines.texts().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [file, kind, size, used, priority] = fields[..] else {
            return None;
        };
        let value = Value::map(
            [
                ("type", kind),
                ("size", size),
                ("used", used),
                ("priority", priority),
            ]
            .map(|(name, text)| (name, Value::from(text))),
        );
        Some((file.to_owned(), value))
    });
    Ok(Value::map(entries.collect::<Vec<_>>()))
}

/// Mounts a filesystem. Returns `{old, new}`, nothing if it is mounted already.
///
/// name
///     The folder.
///
/// device
///     The device; by default the one that `/etc/fstab` names for the folder.
///
/// mkmnt
///     Whether to create the folder if it is missing.
///
/// fstype
///     The kind of filesystem; by default, `mount` finds out.
///
/// opts
///     Options, as a list or with commas between them.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' mount.mount /mnt/share //nas/share fstype=cifs opts=ro
#[function(changes)]
fn mount(
    job: &JobContext<'_>,
    name: String,
    device: Option<String>,
    #[default(false)] mkmnt: bool,
    #[default("")] fstype: String,
    #[default("defaults")] opts: MountOptions,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let folder = folder(&name)?;
    if mounted(folder)? {
        return Ok(change("", ""));
    }
    let done = change(Value::Null, device.as_deref().unwrap_or(folder));
    if test {
        return Ok(done);
    }
    if mkmnt {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::Execution(format!("cannot create {folder}: {error}")))?;
    }
    let options = opts.joined();
    let mut words = vec!["mount", "-o", &options];
    if !fstype.is_empty() {
        words.extend(["-t", &fstype]);
    }
    words.push("--");
    words.extend(device.as_deref());
    words.push(folder);
    job.succeed(&words, "")?;
    Ok(done)
}

/// Unmounts a filesystem. Returns `{old, new}`, nothing if none is mounted there.
///
/// name
///     The folder.
///
/// device
///     The device to unmount instead, if it is mounted at several places.
///
/// lazy
///     Whether to take it out of sight now, and to unmount it once nobody uses it.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' mount.umount /mnt/share
#[function(changes)]
fn umount(
    job: &JobContext<'_>,
    name: String,
    device: Option<String>,
    #[default(false)] lazy: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let folder = folder(&name)?;
    let real = real(folder);
    let Some(mount) = active_mounts()?
        .into_iter()
        .rev()
        .find(|mount| mount.folder == real)
    else {
        return Ok(change("", ""));
    };
    let done = change(mount.device, Value::Null);
    if !test {
        let mut words = vec!["umount"];
        words.extend(lazy.then_some("-l"));
        words.extend(["--", device.as_deref().unwrap_or(folder)]);
        job.succeed(&words, "")?;
    }
    Ok(done)
}

/// Changes the options of a mounted filesystem, or mounts it. Returns the options, `{old, new}`.
///
/// name
///     The folder.
///
/// opts
///     Options, as a list or with commas between them.
///
/// test
///     Only tells what would be asked for: the kernel decides which options there are then.
///
/// CLI Example:
///
///     saline '*' mount.remount /srv opts=ro,noatime
#[function(changes)]
fn remount(
    job: &JobContext<'_>,
    name: String,
    device: Option<String>,
    #[default(false)] mkmnt: bool,
    #[default("")] fstype: String,
    #[default("noatime")] opts: MountOptions,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let folder = folder(&name)?;
    if !mounted(folder)? {
        return mount(job, name, device, mkmnt, fstype, opts, test);
    }
    let real = real(folder);
    let options = || {
        let found = active_mounts()?
            .into_iter()
            .rev()
            .find(|mount| mount.folder == real);
        let options = found.map_or(Value::Null, |mount| Value::texts(mount.options));
        Ok::<_, Failure>(options)
    };
    let old = options()?;
    if test {
        return Ok(change(old, Value::texts(opts.0)));
    }
    let wanted = format!("remount,{}", opts.joined());
    job.succeed(&["mount", "-o", &wanted, "--", folder], "")?;
    Ok(change(old, options()?))
}

/// Sets the entry of `/etc/fstab` for a folder, where it stands, or at the end. Nothing is mounted. Returns the entry,
/// `{old, new}`.
///
/// name
///     The folder.
///
/// dump
///     Whether `dump` saves the filesystem, 0 or 1.
///
/// pass_num
///     The place in the order of checks at the start; 0 for none.
///
/// config
///     Another file.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' mount.set_fstab /srv UUID=0f3a ext4 opts=noatime pass_num=2
#[function(changes)]
#[expect(clippy::too_many_arguments, reason = "they are Salt's")]
fn set_fstab(
    _: &JobContext<'_>,
    name: String,
    device: String,
    fstype: String,
    #[default("defaults")] opts: MountOptions,
    #[default(0)] dump: u64,
    #[default(0)] pass_num: u64,
    #[default("/etc/fstab")] config: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let entry = Mount {
        device,
        folder: name,
        fstype,
        options: opts.joined().split(',').map(str::to_owned).collect(),
        dump,
        pass: pass_num,
    };
    if [&entry.device, &entry.folder, &entry.fstype]
        .iter()
        .any(|field| field.is_empty())
    {
        let why = "name, device and fstype must not be empty";
        return Err(Failure::Invocation(why.to_owned()));
    }
    let path = Path::new(&config);
    let mut lines = Lines::read(path)?;
    let old = set_entry(&mut lines, &entry);
    let done = change(
        old.as_ref().map_or(Value::Null, Mount::to_value),
        entry.to_value(),
    );
    if !test && old.as_ref() != Some(&entry) {
        lines.write(path)?;
    }
    Ok(done)
}

/// Removes the entries of `/etc/fstab` for a folder. Nothing is unmounted. Returns the last one, `{old, new}`.
///
/// device
///     Only entries of this device.
///
/// config
///     Another file.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' mount.rm_fstab /srv
#[function(changes)]
fn rm_fstab(
    _: &JobContext<'_>,
    name: String,
    device: Option<String>,
    #[default("/etc/fstab")] config: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let path = Path::new(&config);
    let mut lines = Lines::read(path)?;
    let mut removed = None;
    lines.retain(|line| match Mount::parse(line) {
        Some(mount)
            if mount.folder == name
                && device.as_ref().is_none_or(|device| *device == mount.device) =>
        {
            removed = Some(mount);
            false
        }
        _ => true,
    });
    if removed.is_some() && !test {
        lines.write(path)?;
    }
    Ok(change(
        removed.map_or(Value::Null, |mount| mount.to_value()),
        Value::Null,
    ))
}

/// Puts an entry in the place of the one for the same folder, or at the end. Returns the one that was there.
fn set_entry(lines: &mut Lines, entry: &Mount) -> Option<Mount> {
    let is_swap = entry.fstype == "swap";
    let same =
        |mount: &Mount| mount.folder == entry.folder && (!is_swap || mount.device == entry.device);
    let at = lines.position(|line| Mount::parse(line).as_ref().is_some_and(same));
    let old = at.and_then(|at| lines.texts().nth(at).and_then(|line| Mount::parse(&line)));
    match at {
        Some(at) if old.as_ref() != Some(entry) => lines.set(at, &entry.to_string()),
        Some(_) => {}
        None => lines.push(&entry.to_string()),
    }
    old
}

/// Returns the path of a folder; an option in its place is refused.
fn folder(name: &str) -> Result<&str, Failure> {
    match name.starts_with('/') {
        true => Ok(name),
        false => Err(Failure::Invocation(format!(
            "name: {name:?} is not an absolute path"
        ))),
    }
}

fn active_mounts() -> Result<Vec<Mount>, Failure> {
    Mount::active().map_err(|error| Failure::Execution(format!("cannot read the mounts: {error}")))
}

fn mounted(name: &str) -> Result<bool, Failure> {
    let real = real(name);
    Ok(active_mounts()?.iter().any(|mount| mount.folder == real))
}

/// Returns the path as the kernel names it.
fn real(name: &str) -> String {
    let trimmed = match name.trim_end_matches('/') {
        "" => "/",
        trimmed => trimmed,
    };
    let found = std::fs::canonicalize(trimmed);
    found.map_or_else(|_| trimmed.to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_edit_of_fstab_leaves_other_lines_alone(
            lines in proptest::collection::vec("(#[ -~]{0,10}|/dev/s[ab] +/[xyz] ext4 *[a-z]{0,4}[ 0-9]{0,3}|\\PC{0,6})", 0..8),
        ) {
            let mut table = Lines::of(format!("{}\n", lines.join("\n")).as_bytes());
            let before = table.clone();
            let entry = Mount::parse("/dev/new /x xfs ro 0 2").unwrap();
            let old = set_entry(&mut table, &entry);
            let position = table.position(|line| Mount::parse(line).as_ref() == Some(&entry)).unwrap();
            let at = match old {
                Some(_) => before.position(|line| Mount::parse(line).is_some_and(|m| m.folder == "/x")).unwrap(),
                None => before.texts().len(),
            };
            prop_assert_eq!(position, at);
            let others = |lines: &Lines| -> Vec<String> {
                lines.texts().enumerate().filter(|(n, _)| *n != at).map(|(_, l)| l.into_owned()).collect()
            };
            prop_assert_eq!(others(&table), others(&before));
        }
    }
}
