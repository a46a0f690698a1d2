//! apt and dpkg, as commands of a job.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_data::Value;
use saline_functions::Failure;
use saline_protocol::transport::Clock;

use super::asked::PackageName;
use super::changes::{Changes, between};
use super::dpkg::{FORMAT, Listing};
use super::output::{candidates, owner, simulated, telling_lines};
use crate::command::{Command, Finished};
use crate::system_program::in_one_line;
use crate::{JobContext, Outcome};

/// How long a command may take that changes no package. One that changes packages has no limit: it would leave them
/// half installed.
const TIME_TO_READ: Duration = Duration::from_secs(120);

/// How long all repositories may take together. apt has limits of its own for each.
const TIME_TO_FETCH: Duration = Duration::from_secs(1800);

/// The seconds that apt waits while another program holds dpkg's lock.
const LOCK_TIMEOUT: u32 = 600;

/// The folder of the lists of repositories.
const LISTS: &str = "/var/lib/apt/lists";

/// apt and dpkg, as commands of a job.
pub(super) struct Apt<'a> {
    pub job: &'a JobContext<'a>,
}

/// The end of a command of apt.
pub(super) struct Done {
    pub output: String,
    pub retcode: i64,
}

impl Done {
    pub(super) fn succeeded(&self) -> bool {
        self.retcode == 0
    }

    /// Returns the outcome of a function whose command failed.
    pub(super) fn failure(&self, changes: &Changes) -> Outcome {
        let value = Value::map([
            ("changes", Value::from(changes)),
            ("errors", Value::texts(telling_lines(&self.output))),
        ]);
        Outcome::new(value, self.retcode)
    }

    /// Returns the outcome of a function that returns what changed.
    pub(super) fn report(&self, changes: impl FnOnce(&Self) -> Changes) -> Outcome {
        let changes = changes(self);
        match self.succeeded() {
            true => Outcome::from(changes),
            false => self.failure(&changes),
        }
    }

    /// Returns the outcome of a function that returns this value if the command succeeded.
    pub(super) fn returning(&self, value: impl FnOnce(&Self) -> Value) -> Outcome {
        match self.succeeded() {
            true => Outcome::from(value(self)),
            false => self.failure(&Changes::new()),
        }
    }

    /// Returns what a simulation would change.
    pub(super) fn changes(&self, before: &Listing) -> Changes {
        simulated(&self.output, before)
    }
}

/// Returns the options that let dpkg ask nobody about configuration files: it keeps those that were changed on the
/// machine, or replaces them.
pub(super) fn kept_configuration(kept: bool) -> Vec<String> {
    let which = if kept {
        "--force-confold"
    } else {
        "--force-confnew"
    };
    let option = |value: &str| ["-o".to_owned(), format!("DPkg::Options::={value}")];
    [option("--force-confdef"), option(which)].concat()
}

/// Returns the command of apt-get that upgrades.
pub(super) fn upgrade_verb(dist_upgrade: bool) -> &'static str {
    if dist_upgrade {
        "dist-upgrade"
    } else {
        "upgrade"
    }
}

impl Apt<'_> {
    /// Returns the packages that dpkg knows.
    pub(super) fn listing(&self) -> Result<Listing, Failure> {
        Listing::parse(&self.query(FORMAT)?).map_err(|error| Failure::Execution(error.to_string()))
    }

    /// Returns what dpkg-query prints of all packages in this format.
    pub(super) fn query(&self, format: &str) -> Result<String, Failure> {
        let format = format!("--showformat={format}");
        let words = ["dpkg-query", "--show", &format];
        let finished = self.run(&words, Some(TIME_TO_READ), false)?;
        self.checked(finished, "dpkg-query")
    }

    /// Returns what dpkg prints of the selections of packages whose names match one of these globs; of all without any.
    pub(super) fn selections(&self, patterns: &[&str]) -> Result<String, Failure> {
        let words = [&["dpkg", "--get-selections", "--"], patterns].concat();
        let finished = self.run(&words, Some(TIME_TO_READ), false)?;
        self.checked(finished, "dpkg")
    }

    /// Runs apt-get to its end.
    pub(super) fn get(&self, words: &[String]) -> Result<Done, Failure> {
        self.apt_get(words, None)
    }

    /// Runs apt-get so that it only says what it would do.
    pub(super) fn simulate(&self, words: &[String]) -> Result<Done, Failure> {
        let words = [&["--simulate".to_owned()], words].concat();
        self.apt_get(&words, Some(TIME_TO_READ))
    }

    /// Changes packages, or only says what would change.
    pub(super) fn change(
        &self,
        before: &Listing,
        purges: bool,
        words: &[String],
        test: bool,
    ) -> Result<Outcome, Failure> {
        if test {
            return Ok(self.simulate(words)?.report(|done| done.changes(before)));
        }
        let done = self.get(words)?;
        let changes = between(before, &self.listing()?, purges);
        Ok(done.report(|_| changes))
    }

    /// Fetches the lists of the repositories, unless they are newer than `valid` seconds.
    pub(super) fn refresh(&self, valid: u64) -> Result<Done, Failure> {
        let fetched = Path::new(LISTS)
            .metadata()
            .and_then(|lists| lists.modified());
        let age = fetched
            .ok()
            .and_then(|at| Clock.wall().duration_since(at).ok());
        if age.is_some_and(|age| age < Duration::from_secs(valid)) {
            return Ok(Done {
                output: String::new(),
                retcode: 0,
            });
        }
        self.apt_get(&["update".to_owned()], Some(TIME_TO_FETCH))
    }

    /// Fetches the lists of the repositories before they are read, if that is wanted.
    pub(super) fn refresh_if(&self, wanted: bool) -> Result<(), Failure> {
        if !wanted {
            return Ok(());
        }
        let done = self.refresh(0)?;
        match done.succeeded() {
            true => Ok(()),
            false => Err(Failure::Execution(format!(
                "apt-get update failed: {}",
                in_one_line(telling_lines(&done.output))
            ))),
        }
    }

    /// Runs `apt-mark hold` or `apt-mark unhold`.
    pub(super) fn mark(&self, verb: &str, names: &[String]) -> Result<Done, Failure> {
        let mut words = vec!["apt-mark", verb, "--"];
        words.extend(names.iter().map(String::as_str));
        let finished = self.run(&words, Some(TIME_TO_READ), true)?;
        Ok(done(finished))
    }

    /// Returns the versions that apt would install, by the names of the packages.
    pub(super) fn candidates(
        &self,
        names: &[PackageName],
    ) -> Result<BTreeMap<String, String>, Failure> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut words = vec!["apt-cache", "--no-all-versions", "show", "--"];
        words.extend(names.iter().map(PackageName::as_str));
        let finished = self.run(&words, Some(TIME_TO_READ), false)?;
        // It fails if it finds none.
        let records = text(finished.stdout)?;
        let mut found = BTreeMap::new();
        for (name, architecture, version) in candidates(&records) {
            found.insert(format!("{name}:{architecture}"), version.clone());
            found.entry(name).or_insert(version);
        }
        Ok(found)
    }

    /// Whether the first version is newer than the second.
    pub(super) fn is_newer(&self, first: &str, second: &str) -> Result<bool, Failure> {
        if first.is_empty() {
            return Ok(false);
        }
        let words = ["dpkg", "--compare-versions", first, "gt", second];
        Ok(self.run(&words, Some(TIME_TO_READ), false)?.retcode == 0)
    }

    /// Returns the packages that a file belongs to, with commas between them; an empty text for none.
    pub(super) fn owner(&self, path: &str) -> Result<String, Failure> {
        if !Path::new(path).is_absolute() {
            let text = format!("{path:?} is not an absolute path");
            return Err(Failure::Invocation(text));
        }
        // Where /bin is a link to /usr/bin, dpkg knows a file by one of both.
        let other = match path.strip_prefix("/usr/") {
            Some(rest) => format!("/{rest}"),
            None => format!("/usr{path}"),
        };
        let is_same = || matches!((Path::new(path).canonicalize(), Path::new(&other).canonicalize()), (Ok(a), Ok(b)) if a == b);
        for path in [Some(path), is_same().then_some(&*other)]
            .into_iter()
            .flatten()
        {
            // A path may have the signs of a pattern.
            let pattern: String = path
                .chars()
                .flat_map(|c| "\\*?[".contains(c).then_some('\\').into_iter().chain([c]))
                .collect();
            let words = ["dpkg-query", "--search", "--", &pattern];
            let printed = text(self.run(&words, Some(TIME_TO_READ), false)?.stdout)?;
            if let Some(owner) = owner(&printed, path) {
                return Ok(owner.to_owned());
            }
        }
        Ok(String::new())
    }

    /// Returns the files and the folders of a package; none if it is not installed.
    pub(super) fn files(&self, name: &PackageName) -> Result<Option<Vec<String>>, Failure> {
        let words = ["dpkg-query", "--listfiles", "--", name.as_str()];
        let done = self.run(&words, Some(TIME_TO_READ), false)?;
        if done.retcode != 0 {
            return Ok(None);
        }
        let printed = text(done.stdout)?;
        // A line about a diversion names a file too, but is none of the package.
        let files = printed
            .lines()
            .filter(|line| line.starts_with('/') && *line != "/.");
        Ok(Some(files.map(str::to_owned).collect()))
    }

    fn apt_get(&self, words: &[String], timeout: Option<Duration>) -> Result<Done, Failure> {
        let lock = format!("DPkg::Lock::Timeout={LOCK_TIMEOUT}");
        // A name that no package has is an error, and no pattern.
        let plain = "APT::Cmd::Pattern-Only=true";
        let mut all = vec![
            "apt-get",
            "--quiet",
            "--assume-yes",
            "-o",
            &lock,
            "-o",
            plain,
        ];
        all.extend(words.iter().map(String::as_str));
        Ok(done(self.run(&all, timeout, true)?))
    }

    fn run(
        &self,
        words: &[&str],
        timeout: Option<Duration>,
        merged: bool,
    ) -> Result<Finished, Failure> {
        let set = |(name, value): (&str, &str)| (name.to_owned(), Some(value.to_owned()));
        let environment = [
            ("LC_ALL", "C.UTF-8"),
            ("DEBIAN_FRONTEND", "noninteractive"),
            ("APT_LISTBUGS_FRONTEND", "none"),
            ("APT_LISTCHANGES_FRONTEND", "none"),
            ("UCF_FORCE_CONFFOLD", "1"),
        ];
        self.job.run(&Command {
            argv: words.iter().map(|word| (*word).to_owned()).collect(),
            folder: Some(PathBuf::from("/")),
            environment: environment.map(set).into(),
            timeout,
            merged,
            ..Command::default()
        })
    }

    /// Returns what a command printed.
    fn checked(&self, finished: Finished, program: &str) -> Result<String, Failure> {
        if finished.timed_out {
            let text = format!("{program} has not ended after {} s", TIME_TO_READ.as_secs());
            return Err(Failure::Execution(text));
        }
        if finished.retcode != 0 {
            let said = text(finished.stderr)?;
            let text = format!("{program} failed: {}", in_one_line(telling_lines(&said)));
            return Err(Failure::Execution(text));
        }
        text(finished.stdout)
    }
}

/// Returns the end of a command whose output is not needed to the last byte.
fn done(finished: Finished) -> Done {
    let (retcode, timed_out) = (finished.retcode, finished.timed_out);
    let mut output = text(finished.stdout).unwrap_or_else(|failure| failure.to_string());
    if timed_out {
        output.push_str("\nthe command was ended, since it took too long");
    }
    Done {
        output,
        retcode: if timed_out { retcode.max(1) } else { retcode },
    }
}

fn text(output: crate::command::Output) -> Result<String, Failure> {
    let bytes = output.into_bytes().map_err(Failure::Execution)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
