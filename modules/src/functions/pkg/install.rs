//! Installs packages, and upgrades all of them.

use std::collections::BTreeSet;

use saline_functions::{Failure, function, parameters};

use super::apt::{self, Apt};
use super::asked::{Files, Packages, Release, Version};
use super::changes::{Changes, between};
use crate::{JobContext, Outcome};

/// The parameters of `pkg.install`.
#[parameters]
pub(super) struct Install {
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
pub(super) fn install(
    job: &JobContext<'_>,
    #[parameters] asked: Install,
) -> Result<Outcome, Failure> {
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
pub(super) fn upgrade(
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
