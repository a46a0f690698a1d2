//! Puts packages on hold, and takes them off it.

use saline_data::Value;
use saline_functions::{Failure, function};

use super::apt::Apt;
use super::asked::Packages;
use super::changes::Changes;
use crate::{JobContext, Outcome};

/// Puts packages on hold: nothing upgrades or removes them until `pkg.unhold`. Returns a mapping of each package to its
/// `changes` (`{old, new}`), `result` and `comment`. The retcode is 1 if a package is not installed.
///
/// name
///     A package, or several with commas between them.
///
/// pkgs
///     A list of packages.
///
/// test
///     `True` returns what would change, and changes nothing.
///
/// CLI Example:
///
///     saline '*' pkg.hold linux-image-amd64
#[function(changes)]
pub(super) fn hold(
    job: &JobContext<'_>,
    name: Option<Packages>,
    pkgs: Option<Packages>,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    mark(job, [name, pkgs], "hold", test)
}

/// Takes packages off hold. The parameters and the return are those of `pkg.hold`.
///
/// CLI Example:
///
///     saline '*' pkg.unhold linux-image-amd64
#[function(changes)]
pub(super) fn unhold(
    job: &JobContext<'_>,
    name: Option<Packages>,
    pkgs: Option<Packages>,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    mark(job, [name, pkgs], "unhold", test)
}

fn mark(
    job: &JobContext<'_>,
    asked: [Option<Packages>; 2],
    verb: &str,
    test: bool,
) -> Result<Outcome, Failure> {
    let packages: Packages = asked.iter().flatten().collect();
    let (apt, holds) = (Apt { job }, verb == "hold");
    let before = apt.listing()?;
    let names: Vec<String> = packages.names().collect();
    let changing = |name: &&String| before.is_installed(name) && before.is_held(name) != holds;
    let changing: Vec<String> = names.iter().filter(changing).cloned().collect();
    if !test && !changing.is_empty() {
        let done = apt.mark(verb, &changing)?;
        if !done.succeeded() {
            return Ok(done.failure(&Changes::new()));
        }
    }
    let (old, new) = if holds {
        ("install", "hold")
    } else {
        ("hold", "install")
    };
    let mut retcode = 0;
    let shown = names.into_iter().map(|name| {
        let is_changing = changing.contains(&name);
        let changes = match is_changing {
            true => Value::map([("new", Value::from(new)), ("old", Value::from(old))]),
            false => Value::Map(Vec::new()),
        };
        let comment = match (before.is_installed(&name), is_changing, test) {
            (false, _, _) => "is not installed".to_owned(),
            (true, false, _) if holds => "was on hold already".to_owned(),
            (true, false, _) => "was not on hold".to_owned(),
            (true, true, false) => format!("changed from {old} to {new}"),
            (true, true, true) => format!("would change from {old} to {new}"),
        };
        let result = before.is_installed(&name);
        retcode |= i64::from(!result);
        let entry = [
            ("changes", changes),
            ("comment", Value::from(format!("{name} {comment}"))),
            ("result", Value::Bool(result)),
        ];
        (name, Value::map(entry))
    });
    let value = Value::map(shown.collect::<Vec<_>>());
    Ok(Outcome::new(value, retcode))
}
