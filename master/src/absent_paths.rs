//! Folders, programs and files that the configuration names and the machine does not have. A master starts without them.

use std::path::Path;

use saline_config::{ExternalPillar, MasterConfig};
use saline_daemon::{absent_file, absent_folder, absent_folder_of, absent_program};

use crate::pillar::{PROGRAM_FOLDERS, program_of};

/// The option with further sources of pillars.
const EXT_PILLAR: &str = "ext_pillar";

/// Words that a shell takes at the beginning of a command, and that are no programs on every machine.
const SHELL_WORDS: [&str; 31] = [
    ".", ":", "alias", "break", "case", "cd", "command", "continue", "echo", "eval", "exec",
    "exit", "export", "false", "for", "if", "kill", "local", "printf", "pwd", "read", "return",
    "set", "shift", "test", "trap", "true", "ulimit", "umask", "unset", "while",
];

/// Returns a line about each folder, program and file that the configuration names and that surely is not there. A default is none
/// that it names.
pub(crate) fn absent_paths(config: &MasterConfig) -> Vec<String> {
    let mut absent = Vec::new();
    for (option, roots) in [
        ("file_roots", &config.files.roots),
        ("pillar_roots", &config.pillar.roots),
    ] {
        for (environment, folders) in roots.iter().flatten() {
            let option = format!("{option}, {environment}");
            let folders = folders.iter();
            absent.extend(folders.filter_map(|folder| absent_folder(&option, folder)));
        }
    }
    absent.extend(config.pillar.external.iter().filter_map(absent_source));
    let returners = &config.returners;
    if let Some(program) = returners.executable.command.first() {
        let option = "returner.executable.command";
        absent.extend(absent_program(option, Path::new(program)));
    }
    for (option, file) in [
        ("returner.local.file", &returners.local_file),
        ("returner.sqlite3.database", &returners.sqlite3_database),
    ] {
        let file = file.as_deref();
        absent.extend(file.and_then(|file| absent_folder_of(option, file)));
    }
    for (option, file) in [
        ("returner.http.sslrootcert", &returners.http.authorities),
        (
            "returner.postgres.sslrootcert",
            &returners.postgres.authorities,
        ),
    ] {
        let file = file.as_deref();
        absent.extend(file.and_then(|file| absent_file(option, file)));
    }
    absent
}

/// Returns a line about what a source of `ext_pillar` names and the machine does not have.
fn absent_source(source: &ExternalPillar) -> Option<String> {
    match source {
        ExternalPillar::FileTree { root, .. } => {
            absent_folder(&format!("{EXT_PILLAR}, root_dir of file_tree"), root)
        }
        ExternalPillar::CmdJson(command) => {
            let option = format!("{EXT_PILLAR}, cmd_json");
            let program = program_of(command)?;
            match program.split_once('/') {
                None if SHELL_WORDS.contains(&program) || is_found(program, command) => None,
                None => Some(format!(
                    "{option}: there is no program {program} in {PROGRAM_FOLDERS}: install it, or write its whole path"
                )),
                Some(("", _)) => absent_program(&option, Path::new(program)),
                // It depends on the folder in which the command runs.
                Some(_) => None,
            }
        }
    }
}

/// Whether the program of a command is in the folders where the command looks for it, which it may say itself.
fn is_found(program: &str, command: &str) -> bool {
    let mut words = command.split_whitespace();
    let mut folders = PROGRAM_FOLDERS.split(':').map(Path::new);
    words.any(|word| word.starts_with("PATH="))
        || folders.any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_named_and_absent_is_told_and_no_default() {
        assert_eq!(absent_paths(&MasterConfig::default()), [""; 0]);
        let mut config = MasterConfig::default();
        let of_base = |folders: &[&str]| {
            let folders = folders.iter().map(Into::into).collect();
            Some(BTreeMap::from([("base".to_owned(), folders)]))
        };
        config.files.roots = of_base(&["/", "/nosuch/files"]);
        config.pillar.roots = of_base(&["/nosuch/pillar"]);
        let command = |text: &str| ExternalPillar::CmdJson(text.to_owned());
        config.pillar.external = vec![
            command("PASSWORD=secret /nosuch/cmdb %s"),
            command("nosuch-cmdb secret"),
            command("cd /nosuch && ./cmdb secret"),
            command("sh -c secret"),
            command("PATH=/nosuch/bin nosuch-cmdb secret"),
            ExternalPillar::FileTree {
                root: "/nosuch/tree".into(),
                keep_newline: false,
            },
        ];
        config.returners.executable.command = vec!["/nosuch/program".into(), "secret".into()];
        config.returners.local_file = Some("/nosuch/log/returns.json".into());
        config.returners.sqlite3_database = Some("/nosuch/lib/jobs.sqlite".into());
        config.returners.http.authorities = Some("/nosuch/http.pem".into());
        let told = [
            "file_roots, base: the folder /nosuch/files does not exist: make it, or correct the path",
            "pillar_roots, base: the folder /nosuch/pillar does not exist: make it, or correct the path",
            "ext_pillar, cmd_json: the program /nosuch/cmdb does not exist: install it, or correct the path",
            "ext_pillar, cmd_json: there is no program nosuch-cmdb in /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin: install it, or write its whole path",
            "ext_pillar, root_dir of file_tree: the folder /nosuch/tree does not exist: make it, or correct the path",
            "returner.executable.command: the program /nosuch/program does not exist: install it, or correct the path",
            "returner.local.file: /nosuch/log/returns.json cannot be written, since there is no folder /nosuch/log: make it for the user that this runs as, or correct the path",
            "returner.sqlite3.database: /nosuch/lib/jobs.sqlite cannot be written, since there is no folder /nosuch/lib: make it for the user that this runs as, or correct the path",
            "returner.http.sslrootcert: the file /nosuch/http.pem does not exist: put it there, or correct the path",
        ];
        assert_eq!(absent_paths(&config), told);
    }
}
