//! The pages of the manual and the completion for shells, which packages install.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use clap::Command;
use saline_cli::Program;

/// The variable that has the tests write the generated files.
const REWRITE: &str = "SALINE_WRITE_DOCS";

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(file)
}

/// The command lines of the programs that packages install.
fn command_lines() -> [Command; 8] {
    [
        Program::Saline.command_line(),
        Program::Call.command_line(),
        Program::Cp.command_line(),
        Program::Key.command_line(),
        Program::Run.command_line(),
        saline_master::command_line(),
        saline_minion::command_line(),
        saline_net_api::command_line(),
    ]
}

/// Returns the page of a program.
fn page(command: Command) -> String {
    let about = command.get_about().unwrap().to_string();
    let summary = about
        .lines()
        .next()
        .unwrap()
        .trim_end_matches(':')
        .to_owned();
    // In the name of a page stands one line.
    let command = command.about(summary).long_about(about);
    let mut page = Vec::new();
    let manual = clap_mangen::Man::new(command).source("").date("");
    manual.render(&mut page).unwrap();
    String::from_utf8(page).unwrap()
}

#[test]
fn the_pages_of_the_manual_are_up_to_date() {
    for command in command_lines() {
        let path = packaging(&format!("man/{}.1", command.get_name()));
        let written = page(command);
        if std::env::var_os(REWRITE).is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &written).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == written,
            "{} is stale: run {REWRITE}=1 cargo test --test manual",
            path.display()
        );
    }
}

#[test]
fn every_help_begins_with_three_examples() {
    for command in command_lines() {
        let name = command.get_name().to_owned();
        let help = command.clone().render_help().to_string();
        let options = help.find("\nOptions:").unwrap();
        let example = format!("\n  {name} ");
        assert_eq!(help[..options].matches(&example).count(), 3, "{help}");
        assert!(
            help.matches(":\n  -").count() + help.matches(":\n      --").count() > 1,
            "{help}"
        );
    }
}

#[test]
fn the_packages_of_the_daemons_need_the_shared_one_of_their_own_version() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let needed = concat!("saline-common (= ", env!("CARGO_PKG_VERSION"), "-1)");
    assert_eq!(manifest.matches(needed).count(), 3, "{needed}");
}

#[test]
fn daemons_options_are_those_of_the_completion() {
    for daemon in [
        saline_master::command_line(),
        saline_minion::command_line(),
        saline_net_api::command_line(),
    ] {
        let mut daemon = daemon;
        daemon.build();
        let shown = daemon.get_arguments().filter(|arg| !arg.is_hide_set());
        let mut options: Vec<String> = shown
            .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
            .collect();
        options.sort();
        for script in ["completions/saline.bash", "completions/_saline"] {
            let text = fs::read_to_string(packaging(script)).unwrap();
            assert!(
                text.contains(&options.join(" ")),
                "{script} has not {options:?}"
            );
        }
    }
}

/// What bash would offer for the last word of a line.
fn offered(shell: &Path, program: &str, line: &[&str]) -> String {
    let script = r#"
        source "$1"; shift
        complete -p saline > /dev/null || exit 1
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _saline "$1"
        echo "${COMPREPLY[*]}"
    "#;
    let mut bash = Process::new(shell);
    bash.args(["-c", script, "bash"])
        .arg(packaging("completions/saline.bash"))
        .arg(program)
        .args(line);
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A configuration with minions and a nodegroup.
fn configured() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "root_dir: {}\nnodegroups: {{frontend: 'web*'}}\n",
        folder.path().display()
    );
    fs::write(folder.path().join("master"), config).unwrap();
    let keys = folder.path().join("etc/saline/pki/master/minions");
    fs::create_dir_all(&keys).unwrap();
    for id in ["web1", "web2", "db1"] {
        fs::write(keys.join(id), "").unwrap();
    }
    folder
}

/// Types a line and two tabs in an interactive zsh, whose completion system has loaded our file, and waits until what it shows
/// matches a pattern.
fn zsh_shows(line: &str, pattern: &str) {
    let script = r#"
        zmodload zsh/zpty
        zpty z "PS1='READY> ' zsh -f -i"
        zpty -w z "PATH=$1:\$PATH fpath=($2 \$fpath); autoload -Uz compinit; compinit -D -u; LISTMAX=1000; echo LOADED"
        zpty -r z shown $'*LOADED\r\n*READY> '
        zpty -w -n z "$3"$'\t\t'
        zpty -r z shown "$4"
        zpty -d z
    "#;
    let programs = Path::new(env!("CARGO_BIN_EXE_saline")).parent().unwrap();
    // A pattern that never comes would be waited for without end.
    let mut zsh = Process::new("timeout");
    zsh.args(["60", "zsh", "-f", "-c", script, "zsh"])
        .args([programs, &packaging("completions")])
        .args([line, pattern]);
    let output = zsh.output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
}

#[test]
fn zsh_asks_the_programs() {
    if !Path::new("/usr/bin/zsh").exists() {
        return println!("skipped: this machine has no zsh");
    }
    let folder = configured();
    let folder = folder.path().display();
    for (line, pattern) in [
        (format!("saline -c {folder} w"), "*web1*web2*"),
        (format!("saline -c {folder} -N fr"), "*-N fr*ontend*"),
        ("saline '*' test.pi".to_owned(), "*test.pi*ng*"),
        ("saline --out js".to_owned(), "*--out js*on*"),
        ("saline-run manage.dow".to_owned(), "*manage.dow*n*"),
        ("saline-cp --no-comp".to_owned(), "*--no-comp*ression*"),
        ("saline-key --make-t".to_owned(), "*--make-t*oken*"),
        ("saline-call --loc".to_owned(), "*--loc*al*"),
        ("saline-master --hea".to_owned(), "*--hea*lth*"),
    ] {
        zsh_shows(&line, pattern);
    }
}

#[test]
fn bash_asks_the_programs() {
    let shell = Path::new("/bin/bash");
    if !shell.exists() {
        return println!("skipped: this machine has no bash");
    }
    let folder = configured();
    let folder = folder.path().to_str().unwrap();
    let saline = |line: &[&str]| offered(shell, env!("CARGO_BIN_EXE_saline"), line);
    assert_eq!(saline(&["-c", folder, "w"]), "web1 web2");
    assert_eq!(saline(&["*", "test.pi"]), "test.ping");
    assert_eq!(saline(&["--out", "=", "j"]), "json");
    assert_eq!(saline(&["-c", folder, "-N", "fr"]), "frontend");
    let run = |line: &[&str]| offered(shell, env!("CARGO_BIN_EXE_saline-run"), line);
    assert_eq!(run(&["manage.dow"]), "manage.down");
    let cp = |line: &[&str]| offered(shell, env!("CARGO_BIN_EXE_saline-cp"), line);
    assert_eq!(cp(&["-c", folder, "w"]), "web1 web2");
    let call = |line: &[&str]| offered(shell, env!("CARGO_BIN_EXE_saline-call"), line);
    assert_eq!(call(&["--loc"]), "--local");
    let key = |line: &[&str]| offered(shell, env!("CARGO_BIN_EXE_saline-key"), line);
    assert_eq!(key(&["-c", folder, "-d", "d"]), "db1");
}
