//! The command box reads arguments as `saline` does.

use std::process::Command;

use saline_testing::{Browser, Fleet};
use serde_json::{Value, json};

use super::{log_in, run};
use crate::http_api::http::Api;
use crate::http_api::users::fleet_with_users;

/// What an operator may write behind a function, in a shell and in the command box.
const LINES: [&str; 26] = [
    "",
    "1 x=1",
    "x=1.0 y=1e3 z=-3",
    "9007199254740993 x=12345678901234567890",
    "true no None null x=None",
    "'~' x=~",
    "'[1, two]' x='{a: [1]}'",
    "[1,two] {a:1}",
    r#""'1'" x="'1'" "x='1'""#,
    r"a\ b 'a b' a'b'c",
    r#""a\nb" 'a\nb' a\\b"#,
    r#""say \"hi\"" "\\ \$""#,
    "'' x=",
    "a==b x=a=b",
    "2024-01-01 12:30:00 1_000",
    "'a: b' 'foo:' x='- a'",
    "'# no' 'a #b' x='[1] # c'",
    "_name=yes name-1=yes 1x=2",
    "'x=a b' x='a  b'",
    "0x10 010 1e400 .5",
    "x=1 x=2",
    "'&a' '*' '|' '>'",
    "<b>bold</b>é",
    "'(a' 'a)' '\"'",
    "__kwarg__=1",
    "'  padded  '",
];

/// Returns what `saline` gets for a line that a shell reads.
fn by_saline(fleet: &Fleet, line: &str) -> Value {
    let saline = fleet.command("saline", &["--out=json", "--static", "web1", "test.arg"]);
    let line = line.replace("<b>bold</b>", "'<b>bold</b>'");
    let line = line.replace("{a:1}", "'{a:1}'");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec \"$0\" \"$@\" {line}"));
    shell.arg(saline.get_program()).args(saline.get_args());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    read["web1"].clone()
}

#[test]
fn arguments_are_read_as_the_command_line_reads_them() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    log_in(&mut browser, &api, "alice");
    for line in LINES {
        run(&mut browser, "web1", &format!("test.arg {line}"), 1);
        let shown = browser.evaluate("document.querySelector('#run-job pre').textContent");
        let shown = shown.as_str().unwrap();
        let shown: Value =
            serde_json::from_str(shown).unwrap_or_else(|_| panic!("{line}: {shown}"));
        assert_eq!(shown, by_saline(&fleet, line), "{line}");
    }
    // Numbers are shown as they were written, also those that JavaScript cannot hold.
    run(&mut browser, "web1", "test.echo 9007199254740993", 1);
    let shown = browser.evaluate("document.querySelector('#run-job pre').textContent");
    assert_eq!(shown, "9007199254740993");
    // A command stays the text that was typed, and several functions have each its own words.
    run(&mut browser, "web1", "cmd.run true", 1);
    let state = browser.evaluate("document.querySelector('#run-job .state').textContent");
    assert_eq!(state, "returned");
    run(&mut browser, "web1", "test.echo,test.arg 1 , x=2", 1);
    let shown = browser.evaluate("JSON.parse(document.querySelector('#run-job pre').textContent)");
    assert_eq!(
        shown,
        json!({ "test.echo": 1, "test.arg": { "args": [], "kwargs": { "x": 2 } } })
    );
    assert_eq!(browser.console(), [""; 0]);
}
