//! Tells which packages there are, and in which versions.

use std::collections::BTreeSet;

use saline_data::Value;
use saline_functions::{Failure, function};

use super::apt::{self, Apt, Done};
use super::asked::PackageName;
use super::changes::Changes;
use super::output;
use crate::{JobContext, Outcome};

/// Returns the installed packages and their versions.
///
/// versions_as_list
///     `True` returns each version in a list.
///
/// removed
///     `True` returns the packages that were removed, and whose configuration files are left, instead.
///
/// CLI Example:
///
///     saline '*' pkg.list_pkgs
#[function]
pub(super) fn list_pkgs(
    job: &JobContext<'_>,
    #[default(false)] versions_as_list: bool,
    #[default(false)] removed: bool,
) -> Result<Value, Failure> {
    let listing = Apt { job }.listing()?;
    let shown = |version: &str| match versions_as_list {
        true => Value::texts([version]),
        false => Value::from(version),
    };
    let packages = listing.packages(!removed);
    Ok(Value::map(
        packages.map(|(name, version)| (name, shown(version))),
    ))
}

/// Returns the version in which a package is installed; an empty text if it is not. Of several packages, returns a mapping.
///
/// CLI Example:
///
///     saline '*' pkg.version openssl
///     saline '*' pkg.version openssl nginx
#[function]
pub(super) fn version(
    job: &JobContext<'_>,
    #[args] names: Vec<PackageName>,
) -> Result<Value, Failure> {
    let listing = Apt { job }.listing()?;
    one_or_many(&names, |name| {
        Ok(Value::from(listing.version(name).unwrap_or_default()))
    })
}

/// Returns the version to which a package can be installed or upgraded; an empty text if it is installed in the newest
/// version, or unknown. Of several packages, returns a mapping.
///
/// refresh
///     `False` works with the lists of the repositories that the machine has.
///
/// CLI Example:
///
///     saline '*' pkg.latest_version openssl refresh=False
#[function]
pub(super) fn latest_version(
    job: &JobContext<'_>,
    #[args] names: Vec<PackageName>,
    #[default(true)] refresh: bool,
) -> Result<Value, Failure> {
    let apt = Apt { job };
    apt.refresh_if(refresh)?;
    let (listing, candidates) = (apt.listing()?, apt.candidates(&names)?);
    one_or_many(&names, |name| {
        let newest = candidates.get(name.as_str()).map_or("", String::as_str);
        let is_newer = match listing.version(name) {
            Some(installed) => apt.is_newer(newest, installed)?,
            None => true,
        };
        Ok(Value::from(if is_newer { newest } else { "" }))
    })
}

/// Returns what `pkg.latest_version` does, under Salt's other name for it.
///
/// CLI Example:
///
///     saline '*' pkg.available_version openssl
#[function]
pub(super) fn available_version(
    job: &JobContext<'_>,
    #[args] names: Vec<PackageName>,
    #[default(true)] refresh: bool,
) -> Result<Value, Failure> {
    latest_version(job, names, refresh)
}

/// Whether a package can be installed or upgraded to a newer version.
///
/// refresh
///     `False` works with the lists of the repositories that the machine has.
///
/// CLI Example:
///
///     saline '*' pkg.upgrade_available openssl
#[function]
pub(super) fn upgrade_available(
    job: &JobContext<'_>,
    name: PackageName,
    #[default(true)] refresh: bool,
) -> Result<bool, Failure> {
    let newest = latest_version(job, vec![name], refresh)?;
    Ok(newest.as_str().is_some_and(|version| !version.is_empty()))
}

/// Returns the installed packages that can be upgraded, each with its new version.
///
/// refresh
///     `False` works with the lists of the repositories that the machine has.
///
/// dist_upgrade
///     `False` leaves out upgrades that install or remove other packages.
///
/// CLI Example:
///
///     saline '*' pkg.list_upgrades
#[function]
pub(super) fn list_upgrades(
    job: &JobContext<'_>,
    #[default(true)] refresh: bool,
    #[default(true)] dist_upgrade: bool,
) -> Result<Outcome, Failure> {
    let apt = Apt { job };
    apt.refresh_if(refresh)?;
    let before = apt.listing()?;
    let simulated = apt.simulate(&[apt::upgrade_verb(dist_upgrade).to_owned()])?;
    Ok(simulated.returning(|done| done.changes(&before).upgrades()))
}

/// Fetches the lists of the repositories. Returns each with `True` if it was fetched, `None` if it had not changed, and
/// `False` if it could not be fetched.
///
/// cache_valid_time
///     Lists that were fetched fewer seconds ago are new enough: nothing is fetched then.
///
/// failhard
///     `True` makes one repository that could not be fetched a failure. Otherwise only an error of apt is one.
///
/// CLI Example:
///
///     saline '*' pkg.refresh_db cache_valid_time=3600
#[function]
pub(super) fn refresh_db(
    job: &JobContext<'_>,
    #[default(0)] cache_valid_time: u64,
    #[default(false)] failhard: bool,
) -> Result<Outcome, Failure> {
    let done: Done = Apt { job }.refresh(cache_valid_time)?;
    let repositories = output::repositories(&done.output);
    let failed = repositories
        .iter()
        .any(|(_, fetched)| *fetched == Value::Bool(false));
    if !done.succeeded() || (failhard && failed) {
        return Ok(done.failure(&Changes::new()));
    }
    Ok(Outcome::from(Value::Map(repositories)))
}

/// Returns the name of the package that a file belongs to; an empty text if it belongs to none. Of several files, returns a
/// mapping. Files that several packages share have all their names, with commas between them.
///
/// CLI Example:
///
///     saline '*' pkg.owner /usr/sbin/nginx
#[function]
pub(super) fn owner(job: &JobContext<'_>, #[args] paths: Vec<String>) -> Result<Value, Failure> {
    let apt = Apt { job };
    one_or_many(&paths, |path| Ok(Value::from(apt.owner(path)?)))
}

/// Returns the files and the folders of packages, as `files`, and under `errors` a line about each that is not installed.
///
/// CLI Example:
///
///     saline '*' pkg.file_list nginx
#[function]
pub(super) fn file_list(
    job: &JobContext<'_>,
    #[args] names: Vec<PackageName>,
) -> Result<Value, Failure> {
    if names.is_empty() {
        return Err(Failure::Invocation("name a package".to_owned()));
    }
    let apt = Apt { job };
    let (mut files, mut errors) = (BTreeSet::new(), Vec::new());
    for name in &names {
        match apt.files(name)? {
            Some(of_package) => files.extend(of_package),
            None => errors.push(format!("package {name} is not installed")),
        }
    }
    Ok(Value::map([
        ("errors", Value::texts(errors)),
        ("files", Value::texts(files)),
    ]))
}

/// Returns the value of the only name, or a mapping of names to values.
fn one_or_many<T: std::fmt::Display>(
    names: &[T],
    value: impl Fn(&T) -> Result<Value, Failure>,
) -> Result<Value, Failure> {
    if let [only] = names {
        return value(only);
    }
    let entries = names
        .iter()
        .map(|name| Ok((name.to_string(), value(name)?)));
    entries.collect::<Result<_, _>>().map(Value::Map)
}
