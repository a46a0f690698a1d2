//! What Salt 3008 prints and how it exits for the commands of an operator's first day, against ours: each test types
//! what was typed there. Where Saline differs on purpose, the line above the expectation says so.

mod jobs;
mod keys;
mod outputs;
mod publishing;

use saline_testing::{CommandOutput, Fleet};

const MINIONS: [&str; 3] = ["m000", "m001", "m002"];

/// Returns both streams and the exit code, without what differs from run to run.
fn shown(fleet: &Fleet, said: CommandOutput) -> String {
    let folder = fleet.config().display().to_string();
    let root = fleet.root().display().to_string();
    let plain = |text: &str| {
        let text = text
            .replace(&format!(" -c {folder}"), "")
            .replace(&root, "ROOT");
        without_numbers(&text)
    };
    format!(
        "--- stdout\n{}--- stderr\n{}--- exit {}",
        plain(&said.stdout),
        plain(&said.stderr),
        said.code.unwrap()
    )
}

/// Writes JID for jids, KEY for fingerprints, and N for pids.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for line in text.split_inclusive('\n') {
        let mut words = Vec::new();
        for word in line.split(' ') {
            let bare = word.trim_end().trim_end_matches(':');
            let is_jid = bare.len() == 20 && bare.bytes().all(|byte| byte.is_ascii_digit());
            let is_key = bare.len() == 95 && bare.split(':').count() == 32;
            words.push(match (is_jid, is_key) {
                (true, _) => word.replace(bare, "JID"),
                (_, true) => word.replace(bare, "KEY"),
                _ => word.to_owned(),
            });
        }
        plain.push_str(&words.join(" "));
    }
    plain
}

/// Returns the blocks of an output, each of which begins at the margin, in an order of their own: minions answer in
/// any.
fn sorted(mut said: CommandOutput) -> CommandOutput {
    let mut blocks: Vec<String> = Vec::new();
    for line in said.stdout.split_inclusive('\n') {
        match blocks.last_mut() {
            Some(block) if line.starts_with([' ', '}', '"']) => block.push_str(line),
            _ => blocks.push(line.to_owned()),
        }
    }
    blocks.sort();
    said.stdout = blocks.concat();
    said
}
