//! `pkg`: installs and removes packages, with apt.

mod apt;
mod asked;
mod changes;
mod dpkg;
mod output;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::Path;

use saline_data::Value;
use saline_functions::{Failure, function, parameters};

use self::apt::{Apt, Done};
use self::asked::{Files, PackageName, Packages, Release, Version};
use self::changes::{Changes, between};
use crate::{Functions, JobContext, Outcome};

pub(super) const FUNCTIONS: Functions = &[
    &AUTOREMOVE,
    &AVAILABLE_VERSION,
    &HOLD,
    &INSTALL,
    &LATEST_VERSION,
    &LIST_PKGS,
    &LIST_UPGRADES,
    &OWNER,
    &PURGE,
    &REFRESH_DB,
    &REMOVE,
    &UNHOLD,
    &UPGRADE,
    &UPGRADE_AVAILABLE,
    &VERSION,
];

/// Returns what a machine without apt lacks.
pub(super) fn lacks() -> Option<String> {
    match Path::new("/usr/bin/apt-get").exists() {
        true => None,
        false => Some("apt-get, which the module pkg works with".to_owned()),
    }
}

/// The parameters of `pkg.install`.
#[parameters]
struct Install {
    name: Option<Packages>,
    #[default(false)]
    refresh: bool,
    fromrepo: Option<Release>,
    #[default(false)]
    skip_verify: bool,
    pkgs: Option<Packages>,
    sources: Option<Files>,
    #[default(false)]
    reinstall: bool,
    #[default(false)]
    downloadonly: bool,
    version: Option<Version>,
    #[default(0)]
    cache_valid_time: u64,
    #[default(true)]
    install_recommends: bool,
    #[default(false)]
    only_upgrade: bool,
    #[default(false)]
    force_conf_new: bool,
    #[default(false)]
    update_holds: bool,
    #[default(false)]
    hold: bool,
    #[default(false)]
    test: bool,
}

/// Installs packages, or brings them to the newest version. Returns a mapping of what changed, with the packages that were
/// installed, upgraded or removed on the way: `{name: {old: VERSION, new: VERSION}}`, where an empty version means that the
/// package was not installed. It asks no questions, and waits up to ten minutes while another program holds dpkg's lock.
/// If apt fails, the retcode is not 0, and the return has what changed as `changes` and apt's last lines as `errors`.
///
/// name
///     A package, or several with commas between them. `name:ARCHITECTURE` is one of another architecture.
///
/// refresh
///     `True` fetches the lists of the repositories before.
///
/// fromrepo
///     A release, such as `bookworm-backports`, whose packages are preferred.
///
/// skip_verify
///     `True` takes packages of repositories without a valid signature too.
///
/// pkgs
///     A list of packages. An element may be a mapping of a name to a version.
///
/// sources
///     A list of absolute paths of `.deb` files on the minion, or of mappings of names to such paths.
///
/// reinstall
///     `True` installs the packages again if they are installed in the newest version.
///
/// downloadonly
///     `True` stores the packages in apt's cache and installs nothing.
///
/// version
///     The version of the one package in `name`, which may be an older one than is installed.
///
/// cache_valid_time
///     With `refresh`, lists that were fetched fewer seconds ago are new enough.
///
/// install_recommends
///     `False` leaves out packages that are only recommended.
///
/// only_upgrade
///     `True` leaves out packages that are not installed yet.
///
/// force_conf_new
///     `True` replaces configuration files that were changed on the machine. Otherwise they stay.
///
/// update_holds
///     `True` changes packages on hold too. They are on hold afterwards as well.
///
/// hold
///     `True` puts the packages on hold afterwards.
///
/// test
///     `True` returns what would change, and changes nothing.
///
/// CLI Example:
///
///     saline '*' pkg.install nginx refresh=True
///     saline '*' pkg.install openssl version=3.0.11-1~deb12u2
///     saline '*' pkg.install pkgs='[curl, {jq: 1.6-2.1}]' test=True
#[function(changes)]
fn install(job: &JobContext<'_>, #[parameters] asked: Install) -> Result<Outcome, Failure> {
    let apt = Apt { job };
    let targets = asked.targets()?;
    let before = apt.listing()?;
    if asked.refresh && !asked.test {
        let refreshed = apt.refresh(asked.cache_valid_time)?;
        if !refreshed.succeeded() {
            return Ok(refreshed.failure(&Changes::new()));
        }
    }
    let words = [
        asked.options(),
        vec!["install".into(), "--".into()],
        targets,
    ]
    .concat();
    let named = asked.packages();
    if asked.test {
        return Ok(apt.simulate(&words)?.report(|done| done.changes(&before)));
    }
    let done = apt.get(&words)?;
    let mut after = apt.listing()?;
    let mut to_hold: BTreeSet<String> = before
        .held()
        .filter(|name| after.is_installed(name) && !after.is_held(name))
        .map(str::to_owned)
        .collect();
    if asked.hold && done.succeeded() {
        to_hold.extend(named.names().filter(|name| after.is_installed(name)));
    }
    if !to_hold.is_empty() {
        let held = apt.mark("hold", &to_hold.into_iter().collect::<Vec<_>>())?;
        if done.succeeded() && !held.succeeded() {
            return Ok(held.failure(&between(&before, &after, false)));
        }
        after = apt.listing()?;
    }
    let mut changes = between(&before, &after, false);
    if asked.reinstall && done.succeeded() {
        changes.add_unchanged(named.names().filter_map(|name| after.entry(&name)));
    }
    Ok(done.report(|_| changes))
}

impl Install {
    /// Returns the packages that are asked for by their names.
    fn packages(&self) -> Packages {
        [&self.name, &self.pkgs].into_iter().flatten().collect()
    }

    /// Returns the arguments of apt-get that name what is to be installed.
    fn targets(&self) -> Result<Vec<String>, Failure> {
        let refused = |text: &str| Err(Failure::Invocation(text.to_owned()));
        let packages = self.packages();
        let files = self.sources.iter().flat_map(Files::paths);
        let mut targets: Vec<String> = files.collect();
        match &self.version {
            None => targets.extend(packages.targets()),
            Some(version) => match packages.only() {
                Some(name) => targets.push(format!("{name}={version}")),
                None => {
                    return refused(
                        "version= is for one package in name; in pkgs, write {name: version}",
                    );
                }
            },
        }
        match targets.is_empty() {
            true => refused("name a package, or a list of them as pkgs= or sources="),
            false => Ok(targets),
        }
    }

    /// Returns the options of apt-get.
    fn options(&self) -> Vec<String> {
        let has_version = self.version.is_some() || self.packages().have_versions();
        let flags = [
            (self.skip_verify, "--allow-unauthenticated"),
            (self.reinstall, "--reinstall"),
            (self.downloadonly, "--download-only"),
            (!self.install_recommends, "--no-install-recommends"),
            (self.only_upgrade, "--only-upgrade"),
            (self.update_holds, "--allow-change-held-packages"),
            (has_version, "--allow-downgrades"),
        ];
        let mut options = apt::kept_configuration(!self.force_conf_new);
        options.extend(
            flags
                .iter()
                .filter(|flag| flag.0)
                .map(|flag| flag.1.to_owned()),
        );
        if let Some(release) = &self.fromrepo {
            options.push(format!("--target-release={release}"));
        }
        options
    }
}

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
fn remove(
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
fn purge(
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
fn autoremove(
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

/// Upgrades all packages. Returns what changed, as `pkg.install` does.
///
/// refresh
///     `False` works with the lists of the repositories that the machine has.
///
/// dist_upgrade
///     `True` also installs and removes packages where an upgrade needs it. Otherwise such upgrades are left out.
///
/// cache_valid_time
///     Lists that were fetched fewer seconds ago are new enough.
///
/// downloadonly
///     `True` stores the packages in apt's cache and upgrades nothing.
///
/// force_conf_new
///     `True` replaces configuration files that were changed on the machine. Otherwise they stay.
///
/// test
///     `True` returns what would change by the lists that the machine has, and changes nothing.
///
/// CLI Example:
///
///     saline '*' pkg.upgrade dist_upgrade=True test=True
#[function(changes)]
fn upgrade(
    job: &JobContext<'_>,
    #[default(true)] refresh: bool,
    #[default(false)] dist_upgrade: bool,
    #[default(0)] cache_valid_time: u64,
    #[default(false)] downloadonly: bool,
    #[default(false)] force_conf_new: bool,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    let apt = Apt { job };
    if refresh && !test {
        let refreshed = apt.refresh(cache_valid_time)?;
        if !refreshed.succeeded() {
            return Ok(refreshed.failure(&Changes::new()));
        }
    }
    let mut words = apt::kept_configuration(!force_conf_new);
    words.extend(downloadonly.then(|| "--download-only".to_owned()));
    words.push(apt::upgrade_verb(dist_upgrade).to_owned());
    apt.change(&apt.listing()?, false, &words, test)
}

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
fn list_pkgs(
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
fn version(job: &JobContext<'_>, #[args] names: Vec<PackageName>) -> Result<Value, Failure> {
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
fn latest_version(
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
fn available_version(
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
fn upgrade_available(
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
fn list_upgrades(
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
fn hold(
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
fn unhold(
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
fn refresh_db(
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
fn owner(job: &JobContext<'_>, #[args] paths: Vec<String>) -> Result<Value, Failure> {
    let apt = Apt { job };
    one_or_many(&paths, |path| Ok(Value::from(apt.owner(path)?)))
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
