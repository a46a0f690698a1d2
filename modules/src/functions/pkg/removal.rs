//! Removes packages.

use saline_data::Value;
use saline_functions::{Failure, function};

use super::apt::Apt;
use super::asked::Packages;
use super::changes::Changes;
use crate::{JobContext, Outcome};

/// Removes packages, with those that depend on them. Their configuration files stay. Packages that are not installed are
/// left out. Returns what changed, as `pkg.install` does.
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
///     saline '*' pkg.remove nginx
///     saline '*' pkg.remove pkgs='[nginx, apache2]' test=True
#[function(changes)]
pub(super) fn remove(
    job: &JobContext<'_>,
    name: Option<Packages>,
    pkgs: Option<Packages>,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    take_away(job, "remove", [name, pkgs], test)
}

/// Removes packages with their configuration files, as `pkg.remove` does without them. A package whose configuration files
/// alone are left is purged too.
///
/// CLI Example:
///
///     saline '*' pkg.purge nginx
#[function(changes)]
pub(super) fn purge(
    job: &JobContext<'_>,
    name: Option<Packages>,
    pkgs: Option<Packages>,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    take_away(job, "purge", [name, pkgs], test)
}

fn take_away(
    job: &JobContext<'_>,
    verb: &str,
    asked: [Option<Packages>; 2],
    test: bool,
) -> Result<Outcome, Failure> {
    let packages: Packages = asked.iter().flatten().collect();
    if packages.is_empty() {
        let text = "name a package, or a list of them as pkgs=";
        return Err(Failure::Invocation(text.to_owned()));
    }
    let (apt, purges) = (Apt { job }, verb == "purge");
    let before = apt.listing()?;
    // Only packages that are there: apt takes another name for a pattern, and `name+` for one to be installed.
    let names = packages.names();
    let there = names.filter(|name| before.is_installed(name) || (purges && before.is_known(name)));
    let there: Vec<String> = there.collect();
    if there.is_empty() {
        return Ok(Outcome::from(Changes::new()));
    }
    apt.change(
        &before,
        purges,
        &[vec![verb.into(), "--".into()], there].concat(),
        test,
    )
}

/// Removes packages that were installed because others depended on them, and that no package depends on any more.
/// Returns what changed, as `pkg.install` does.
///
/// list_only
///     `True` returns the list of their names, and removes nothing.
///
/// purge
///     `True` removes their configuration files too.
///
/// test
///     `True` returns what would change, and changes nothing.
///
/// CLI Example:
///
///     saline '*' pkg.autoremove list_only=True
#[function(changes)]
pub(super) fn autoremove(
    job: &JobContext<'_>,
    #[default(false)] list_only: bool,
    #[default(false)] purge: bool,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    let apt = Apt { job };
    let before = apt.listing()?;
    let mut words = vec!["autoremove".to_owned()];
    words.extend(purge.then(|| "--purge".to_owned()));
    if list_only {
        let simulated = apt.simulate(&words)?;
        return Ok(simulated.returning(|done| Value::texts(done.changes(&before).names())));
    }
    apt.change(&before, false, &words, test)
}
