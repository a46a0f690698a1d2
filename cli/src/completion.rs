//! Completion of command lines for shells, whose scripts ask the program itself: `saline --complete INDEX WORD...` prints the
//! candidates for the word at the index, one a line. Completion asks no master: it takes the ids of minions from the files of their
//! accepted keys, which root and the master's user can list, nodegroups from the configuration, and the functions of minions' own
//! modules from the file in which the master keeps their names.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory};
use saline_config::MasterConfig;
use saline_messages::is_plain_name;
use saline_protocol::transport::Registry;

use crate::arguments::{CallArguments, CpArguments, KeyArguments, RunArguments, SalineArguments};

/// The first argument of a program that is to complete a command line.
const COMPLETE: &str = "--complete";

/// A command of operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `saline`
    Saline,
    /// `saline-call`
    Call,
    /// `saline-cp`
    Cp,
    /// `saline-key`
    Key,
    /// `saline-run`
    Run,
}

impl Program {
    /// Returns the command line of the program, for completion and the page of the manual.
    pub fn command_line(self) -> Command {
        match self {
            Self::Saline => SalineArguments::command(),
            Self::Call => CallArguments::command(),
            Self::Cp => CpArguments::command(),
            Self::Key => KeyArguments::command(),
            Self::Run => RunArguments::command(),
        }
    }
}

/// Prints the candidates if `words`, the command line of this process, asks for them; returns `None` if it does not. `functions`
/// returns the functions that the program can call.
pub fn complete(
    program: Program,
    words: &[OsString],
    registry: &Registry,
    functions: impl FnOnce() -> Vec<String>,
) -> Option<ExitCode> {
    let (asked, rest) = words.get(1..)?.split_first()?;
    if asked != COMPLETE {
        return None;
    }
    // A word that is not UTF-8 matches no candidate.
    let mut rest = rest.iter().map(|word| word.to_string_lossy().into_owned());
    let index = rest.next().and_then(|index| index.parse().ok());
    let line = Line::read(program, &rest.collect::<Vec<_>>(), index.unwrap_or(0));
    let mut text = String::new();
    for candidate in line.candidates(registry, functions) {
        text.push_str(&candidate);
        text.push('\n');
    }
    // The shell may have closed the pipe.
    let _ = io::stdout().write_all(text.as_bytes());
    Some(ExitCode::SUCCESS)
}

/// A command line up to the word that is completed.
struct Line {
    program: Program,
    command: Command,
    /// The word that is completed, as far as it is typed.
    current: String,
    /// The option whose value is completed, if it is one.
    value_of: Option<Arg>,
    /// The number of earlier words that belong to no option.
    position: usize,
    /// Whether `--` has ended the options.
    only_words: bool,
    /// The ids of the earlier options.
    given: Vec<String>,
    config_dir: PathBuf,
}

impl Line {
    fn read(program: Program, words: &[String], index: usize) -> Self {
        let mut command = program.command_line();
        command.build();
        // Some shells split words at the equals sign, and pass it as a word.
        let before = words.get(1..index).unwrap_or_default();
        let before = before.iter().filter(|word| *word != "=");
        let current = words.get(index).filter(|word| *word != "=").cloned();
        let mut line = Self {
            program,
            command,
            current: current.unwrap_or_default(),
            value_of: None,
            position: 0,
            only_words: false,
            given: Vec::new(),
            config_dir: PathBuf::from("/etc/saline"),
        };
        for word in before {
            line.take(word);
        }
        if let Some((option, value)) = line.current.split_once('=')
            && let Some(arg) = line.long(option.trim_start_matches('-'))
        {
            (line.value_of, line.current) = (Some(arg), value.to_owned());
        }
        line
    }

    /// Takes a word before the one that is completed.
    fn take(&mut self, word: &str) {
        if let Some(arg) = self.value_of.take() {
            if arg.get_id() == "config_dir" {
                self.config_dir = PathBuf::from(word);
            }
        } else if self.only_words || word == "-" || !word.starts_with('-') {
            self.position += 1;
        } else if word == "--" {
            self.only_words = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let arg = self.long(name);
            self.note(arg, value);
        } else {
            for (at, letter) in word.char_indices().skip(1) {
                let mut args = self.command.get_arguments();
                let arg = args.find(|arg| arg.get_short() == Some(letter));
                let arg = arg.cloned();
                drop(args);
                let rest = &word[at + letter.len_utf8()..];
                let takes_value = arg.as_ref().is_some_and(takes_value);
                self.note(arg, Some(rest).filter(|rest| !rest.is_empty()));
                if takes_value {
                    break;
                }
            }
        }
    }

    /// Notes an option, and its value if the same word contains it.
    fn note(&mut self, arg: Option<Arg>, value: Option<&str>) {
        let Some(arg) = arg else { return };
        self.given.push(arg.get_id().to_string());
        if takes_value(&arg) {
            self.value_of = Some(arg);
            if let Some(value) = value {
                self.take(value);
            }
        }
    }

    /// Returns the option with this long name, or the first whose name begins with it.
    fn long(&self, name: &str) -> Option<Arg> {
        let names = |arg: &Arg| {
            arg.get_long_and_visible_aliases()
                .unwrap_or_default()
                .contains(&name)
        };
        let begins = |arg: &&Arg| arg.get_long().is_some_and(|long| long.starts_with(name));
        let mut exact = self.command.get_arguments().filter(|arg| names(arg));
        let mut begun = self.command.get_arguments().filter(begins);
        let found = exact.next().or_else(|| begun.next());
        found.cloned()
    }

    fn candidates(
        &self,
        registry: &Registry,
        functions: impl FnOnce() -> Vec<String>,
    ) -> Vec<String> {
        let mut found = match &self.value_of {
            Some(arg) => self.values(arg, registry),
            None if self.current.starts_with('-') && !self.only_words => self.options(),
            None => self.words(registry, functions),
        };
        found.retain(|candidate| candidate.starts_with(&self.current));
        found
    }

    /// Returns the long options that are not hidden.
    fn options(&self) -> Vec<String> {
        let shown = self
            .command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set());
        let longs = shown.filter_map(Arg::get_long);
        longs.map(|long| format!("--{long}")).collect()
    }

    /// Returns the values of an option.
    fn values(&self, arg: &Arg, registry: &Registry) -> Vec<String> {
        const LEVELS: [&str; 7] = ["quiet", "error", "warning", "info", "debug", "trace", "all"];
        const OF_KEYS: [&str; 6] = ["accept", "reject", "delete", "print", "finger", "token_for"];
        let id = arg.get_id().as_str();
        if OF_KEYS.contains(&id) {
            let pki_dir = self.pki_dir(registry);
            let folders = self.folders_of_keys(id).into_iter();
            let mut ids: Vec<String> = folders
                .flat_map(|state| names_in(&pki_dir.join(state)))
                .collect();
            // An id may have an accepted key and a denied one.
            ids.sort();
            ids.dedup();
            return ids;
        }
        if id.starts_with("log_") && id.ends_with("level") {
            return LEVELS.map(str::to_owned).to_vec();
        }
        let values = arg.get_possible_values();
        values
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect()
    }

    /// Returns the folders of the keys that an option of `saline-key` acts on, as the earlier options include further ones. Since
    /// `--include-accepted` may follow, `-r` may mean accepted keys in any case.
    fn folders_of_keys(&self, option: &str) -> Vec<&'static str> {
        let has = |flag: &str| self.given.iter().any(|given| given == flag);
        let included = |flag: &str| has(flag) || has("include_all") && flag != "include_denied";
        let further = match option {
            "accept" => [
                ("minions_rejected", included("include_rejected")),
                ("minions_denied", included("include_denied")),
            ],
            "reject" => [
                ("minions", true),
                ("minions_denied", included("include_denied")),
            ],
            "delete" if has("only_denied") => return vec!["minions_denied"],
            _ => {
                return vec![
                    "minions",
                    "minions_pre",
                    "minions_denied",
                    "minions_rejected",
                ];
            }
        };
        let further = further.into_iter().filter(|(_, is_meant)| *is_meant);
        ["minions_pre"]
            .into_iter()
            .chain(further.map(|(folder, _)| folder))
            .collect()
    }

    /// Returns the candidates for a word that belongs to no option.
    fn words(&self, registry: &Registry, functions: impl FnOnce() -> Vec<String>) -> Vec<String> {
        let documents = self.given.iter().any(|option| option == "doc");
        match (self.program, self.position) {
            (Program::Saline | Program::Cp, 0) => self.targets(registry),
            (Program::Saline, at) if at == 1 || documents => {
                let mut all = functions();
                all.extend(self.own_functions(registry));
                all.sort();
                all.dedup();
                all
            }
            (Program::Call | Program::Run, 0) => functions(),
            (Program::Call | Program::Run, _) if documents => functions(),
            _ => Vec::new(),
        }
    }

    /// Returns the functions of minions' own modules, as the master last wrote them; none for who may not read the file.
    fn own_functions(&self, registry: &Registry) -> Vec<String> {
        let path = self
            .config(registry)
            .unwrap_or_default()
            .own_functions_file();
        let names = std::fs::read_to_string(path).unwrap_or_default();
        // A name with other characters is no name of a function, and shells would read more in it.
        let names = names.lines().filter(|name| is_plain_name(name));
        names.map(str::to_owned).collect()
    }

    /// Returns the candidates for a target of the kind that the earlier options name.
    fn targets(&self, registry: &Registry) -> Vec<String> {
        const OTHERS: [&str; 7] = [
            "pcre",
            "grain",
            "grain_pcre",
            "ipcidr",
            "assigned",
            "compound",
            "pillar",
        ];
        let is_given = |kind: &str| self.given.iter().any(|given| given == kind);
        if is_given("nodegroup") {
            let config = self.config(registry);
            return config.map_or_else(Vec::new, |config| {
                config.nodegroups.names().map(str::to_owned).collect()
            });
        }
        if OTHERS.into_iter().any(is_given) {
            return Vec::new();
        }
        let ids = names_in(&self.pki_dir(registry).join("minions"));
        match self.current.rsplit_once(',') {
            Some((before, _)) if is_given("list") => {
                let further = ids.filter(|id| before.split(',').all(|listed| listed != id));
                further.map(|id| format!("{before},{id}")).collect()
            }
            _ => ids.collect(),
        }
    }

    fn config(&self, registry: &Registry) -> Option<MasterConfig> {
        let schemes: Vec<&str> = registry.schemes().collect();
        // The command itself reports a mistake in the configuration.
        let loaded = MasterConfig::load(&self.config_dir, &schemes).ok()?;
        Some(loaded.config)
    }

    fn pki_dir(&self, registry: &Registry) -> PathBuf {
        let config = self.config(registry).unwrap_or_default();
        config.paths.pki_dir
    }
}

/// Returns the names of the files in a folder, in alphabetical order; none when it cannot be read.
fn names_in(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = files
        .filter_map(|file| file.file_name().into_string().ok())
        .collect();
    names.sort();
    names.into_iter()
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_positional()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completes the last word of a line in a folder with a configuration, three accepted minions, a pending and a rejected one. One of the
    /// minions has functions of its own.
    fn completed(program: Program, line: &str) -> String {
        let root = tempfile::tempdir().unwrap();
        let config = format!(
            "root_dir: {}\nnodegroups: {{web: 'web*', db: 'db*'}}\n",
            root.path().display()
        );
        std::fs::write(root.path().join("master"), config).unwrap();
        let keys = root.path().join("etc/saline/pki/master");
        for key in [
            "minions/web1",
            "minions/web2",
            "minions/db1",
            "minions_pre/new1",
            "minions_rejected/bad1",
            "minions_denied/web1",
        ] {
            let file = keys.join(key);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let cache = root.path().join("var/cache/saline/master");
        std::fs::create_dir_all(&cache).unwrap();
        let names = "vhosts.enable\ntest.ping\n$(id)\nvhosts.disable\n";
        std::fs::write(cache.join("own_functions"), names).unwrap();
        let line = line.replace("DIR", &root.path().display().to_string());
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let line = Line::read(program, &words, words.len() - 1);
        let functions = || vec!["test.ping".to_owned(), "test.sleep".to_owned()];
        line.candidates(&Registry::new(), functions).join(" ")
    }

    #[test]
    fn targets_are_known_by_their_kind() {
        let saline = |line: &str| completed(Program::Saline, &format!("saline -c DIR {line}"));
        assert_eq!(saline(""), "db1 web1 web2");
        assert_eq!(saline("w"), "web1 web2");
        assert_eq!(saline("--out json w"), "web1 web2");
        assert_eq!(saline("-vN "), "db web");
        assert_eq!(saline("--nodegr w"), "web");
        assert_eq!(saline("-L web1,w"), "web1,web2");
        assert_eq!(saline("-L web1,web2,w"), "");
        assert_eq!(saline("-G "), "");
        let cp = |line: &str| completed(Program::Cp, &format!("saline-cp -c DIR {line}"));
        assert_eq!(cp("w"), "web1 web2");
        assert_eq!(cp("-C w"), "web1 web2");
        // The shell offers files.
        assert_eq!(cp("web1 "), "");
        assert_eq!(completed(Program::Saline, "saline -c/nowhere w"), "");
    }

    #[test]
    fn functions_stand_after_the_target() {
        assert_eq!(completed(Program::Saline, "saline * test.p"), "test.ping");
        assert_eq!(
            completed(Program::Saline, "saline -t 5 * "),
            "test.ping test.sleep"
        );
        assert_eq!(completed(Program::Saline, "saline * test.sleep "), "");
        assert_eq!(
            completed(Program::Saline, "saline -c DIR * "),
            "test.ping test.sleep vhosts.disable vhosts.enable"
        );
        assert_eq!(
            completed(Program::Saline, "saline -c DIR * -d v"),
            "vhosts.disable vhosts.enable"
        );
        assert_eq!(completed(Program::Run, "saline-run -c DIR v"), "");
        assert_eq!(
            completed(Program::Saline, "saline * -d test.ping test.s"),
            "test.sleep"
        );
        assert_eq!(completed(Program::Run, "saline-run test.s"), "test.sleep");
        assert_eq!(
            completed(Program::Call, "saline-call --local test.p"),
            "test.ping"
        );
    }

    #[test]
    fn options_and_their_values() {
        assert_eq!(
            completed(Program::Saline, "saline --batch-s"),
            "--batch-size --batch-safe-limit --batch-safe-size"
        );
        assert_eq!(
            completed(Program::Saline, "saline --pillar"),
            "--pillar --pillar-pcre"
        );
        assert_eq!(completed(Program::Saline, "saline -- --b"), "");
        assert_eq!(completed(Program::Saline, "saline --out j"), "json");
        assert_eq!(
            completed(Program::Saline, "saline --out=n"),
            "nested newline_values_only no_return"
        );
        assert_eq!(completed(Program::Saline, "saline --out = j"), "json");
        assert_eq!(completed(Program::Saline, "saline -l i"), "info");
        let key = |line: &str| completed(Program::Key, &format!("saline-key -c DIR {line} "));
        assert_eq!(key("-y -a"), "new1");
        assert_eq!(key("--include-rejected -a"), "bad1 new1");
        assert_eq!(key("--include-all -a"), "bad1 new1");
        assert_eq!(key("--include-denied -a"), "new1 web1");
        assert_eq!(key("-r"), "db1 new1 web1 web2");
        assert_eq!(key("-d"), "bad1 db1 new1 web1 web2");
        assert_eq!(key("--only-denied -d"), "web1");
        assert_eq!(key("-f"), "bad1 db1 new1 web1 web2");
        assert_eq!(completed(Program::Key, "saline-key -l p"), "pre");
    }
}
