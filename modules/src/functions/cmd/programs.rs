//! Which programs the machine has.

use std::path::{Path, PathBuf};

use rustix::fs::Access;
use saline_data::Value;
use saline_functions::{FromValue, Mismatch, function};

use crate::JobContext;

/// The list of shells that users may choose.
const SHELLS_FILE: &str = "/etc/shells";

/// Returns the path of a program that the minion's commands find in their `PATH`; `None` if there is none.
///
/// cmd
///     The name of a program, or the absolute path of one.
///
/// CLI Example:
///
///     saline '*' cmd.which rsync
#[function(nonblocking)]
pub(super) fn which(_: &JobContext<'_>, cmd: String) -> Value {
    found(&cmd).map_or(Value::Null, Value::from)
}

/// Returns the path of the first of these programs that the machine has; `None` if it has none of them.
///
/// CLI Example:
///
///     saline '*' cmd.which_bin '[python3, python]'
#[function(nonblocking)]
pub(super) fn which_bin(_: &JobContext<'_>, cmds: Names) -> Value {
    let first = cmds.0.iter().find_map(|name| found(name));
    first.map_or(Value::Null, Value::from)
}

/// Returns whether the minion's commands find this program.
///
/// CLI Example:
///
///     saline '*' cmd.has_exec rsync
#[function(nonblocking)]
pub(super) fn has_exec(_: &JobContext<'_>, cmd: String) -> bool {
    found(&cmd).is_some()
}

/// Returns the shells that `/etc/shells` lists.
///
/// CLI Example:
///
///     saline '*' cmd.shells
#[function]
pub(super) fn shells(_: &JobContext<'_>) -> Value {
    let text = std::fs::read_to_string(SHELLS_FILE).unwrap_or_default();
    let lines = text.lines().map(str::trim);
    Value::texts(lines.filter(|line| line.starts_with('/')))
}

/// The names of programs.
pub(super) struct Names(Vec<String>);

impl FromValue for Names {
    const TAKES: &'static str = "a name, or a list of names";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            list @ Value::List(_) => Vec::from_value(list).map(Self),
            one => String::from_value(one).map(|name| Self(vec![name])),
        }
    }
}

/// Returns the path of a program, as a command would find it.
fn found(name: &str) -> Option<String> {
    let runs = |path: &Path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        let path = Path::new(name);
        return (path.is_absolute() && runs(path)).then(|| name.to_owned());
    }
    if name.is_empty() {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let found: Option<PathBuf> = folders.find_map(|folder| {
        let path = folder.join(name);
        runs(&path).then_some(path)
    });
    found.map(|path| path.display().to_string())
}
