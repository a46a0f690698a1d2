//! Snapshots of how command lines are parsed and refused. They are one file so that all refusals are read beside each other.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use clap::Parser;
use proptest::prelude::*;
use saline_messages::{KeyAction, KeyState};
use saline_targeting::TargetKind;

use super::{
    About, CallArguments, KeyArguments, KeyListing, KeyVerb, Refused, RunArguments,
    SalineArguments, Selection,
};
use crate::output::Format;

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

fn no_input() -> io::Result<String> {
    Ok(String::new())
}

fn saline(line: &str) -> SalineArguments {
    SalineArguments::read(words(line), no_input).expect("arguments that can be read")
}

fn refused(line: &str) -> Refused {
    SalineArguments::read(words(line), no_input).expect_err("arguments that are refused")
}

fn error(line: &str) -> String {
    let refused = refused(line);
    assert_eq!((refused.code, refused.out.as_str()), (64, ""));
    refused.err
}

#[test]
fn options_stand_anywhere() {
    let read = saline("saline m* -t 3 -v test.arg a --out=json b=1 --static -c /x");
    assert_eq!(read.target().expression, "m*");
    assert_eq!(read.target().kind, TargetKind::Glob);
    assert_eq!(read.function(), "test.arg");
    assert_eq!(read.arguments(), ["a", "b=1"]);
    assert_eq!(read.timeout, Some(Duration::from_secs(3)));
    assert!(read.verbose && read.static_ && !read.async_);
    assert_eq!(read.output.format(), Format::Json);
    assert_eq!(read.common.config_dir.to_str(), Some("/x"));
}

#[test]
fn a_command_without_quotation_marks_is_pointed_out() {
    insta::assert_snapshot!(error("saline db1 cmd.run ls -la /"), @r#"
    Usage: saline [options] '<target>' <function> [arguments]

    saline: error: option --log-level: unknown log level "a"; known are: quiet, critical, error, warning, info, profile, debug, trace, garbage, all
    -la after a command is an option of saline: put the whole command in quotes, as in cmd.run 'ls -la /'
    "#);
    insta::assert_snapshot!(error("saline db1 cmd.run ls -d /"), @"
    Usage: saline [options] '<target>' <function> [arguments]

    saline: error: -d after a command is an option of saline: put the whole command in quotes, as in cmd.run 'ls -la /'
    ");
    assert_eq!(saline("saline db1 cmd.run -d").arguments(), ["cmd.run"]);
    assert!(saline("saline db1 cmd.run ls -v").verbose);
    assert!(!error("saline db1 test.echo ls -la").contains("quotes"));
}

#[test]
fn negative_numbers_and_what_follows_two_dashes_are_arguments() {
    assert_eq!(saline("saline * test.echo -1").arguments(), ["-1"]);
    assert_eq!(
        saline("saline * test.arg -1.5 x=-2 -").arguments(),
        ["-1.5", "x=-2", "-"]
    );
    assert_eq!(
        saline("saline * -v -- cmd.run -x --out=json").arguments(),
        ["-x", "--out=json"]
    );
}

#[test]
fn the_last_of_an_option_counts_and_long_ones_may_be_cut() {
    let read = saline("saline * test.ping --out json --output raw -t 1 -t 0.5 --verb");
    assert_eq!(read.output.format(), Format::Raw);
    assert_eq!(read.timeout, Some(Duration::from_millis(500)));
    assert!(read.verbose);
}

#[test]
fn options_and_arguments_are_read_from_the_standard_input() {
    let read = |line: &str, input: &str| {
        SalineArguments::read(words(line), || Ok(input.to_owned())).expect("arguments")
    };
    let read_all = read(
        "saline m* cmd.run --args-stdin",
        "echo a  b\n--out=json\ncwd=/tmp\r\n\n-1\n",
    );
    assert_eq!(read_all.arguments(), ["echo a  b", "cwd=/tmp", "", "-1"]);
    assert_eq!(read_all.output.format(), Format::Json);
    assert_eq!(
        read("saline --args-stdin", "*\ntest.ping").function(),
        "test.ping"
    );
    assert_eq!(
        read("saline * test.arg --args-stdin -- -x", "--out=json").arguments(),
        ["-x", "--out=json"]
    );
    let unread = SalineArguments::read(words("saline * f --args-stdin"), || {
        Err(io::Error::other("it is closed"))
    });
    insta::assert_snapshot!(unread.expect_err("an input that cannot be read").err, @"
    Usage: saline [options] '<target>' <function> [arguments]

    saline: error: cannot read the standard input: it is closed
    ");
    let asks = || -> io::Result<String> { panic!("the input was not asked for") };
    assert!(SalineArguments::read(words("saline * test.ping"), asks).is_ok());
}

#[test]
fn documentation_needs_no_function() {
    let read = saline("saline * -d");
    assert_eq!((read.function(), read.arguments().len()), ("sys.doc", 0));
    let read = saline("saline * -d cmd.run test");
    assert_eq!(
        (read.function(), read.arguments()),
        ("sys.doc", &["cmd.run".to_owned(), "test".to_owned()][..])
    );
    let once = |line: &str| {
        let read = saline(line);
        read.wants_documentation(read.output.format())
    };
    assert!(once("saline * -d") && once("saline * sys.doc") && once("saline * -d --out=json"));
    assert!(!once("saline * sys.doc --out=json") && !once("saline * test.ping"));
    assert_eq!(saline("saline -d").target().expression, "*");
    assert_eq!(refused("saline -d -E").code, 42);
}

#[test]
fn a_description_of_the_program_needs_no_other_argument() {
    assert_eq!(saline("saline -V").about.asked(), Some(About::Versions));
    assert_eq!(
        saline("saline --config-dump").about.asked(),
        Some(About::Config)
    );
    let run = RunArguments::read(words("saline-run --versions-report")).expect("arguments");
    assert_eq!(run.about.asked(), Some(About::Versions));
    let key = KeyArguments::read(words("saline-key --config-dump")).expect("arguments");
    assert_eq!(key.about.asked(), Some(About::Config));
}

#[test]
fn colours_are_for_terminals_unless_they_are_forced() {
    let colour = |options: &str, terminal, unwanted| {
        let read = saline(&format!("saline * test.ping {options}"));
        read.output.style_of(terminal, unwanted).colour
    };
    assert!(colour("-v", true, false));
    assert!(!colour("-v", false, false));
    assert!(!colour("-v", true, true), "NO_COLOR");
    assert!(!colour("--no-color", true, false));
    assert!(colour("--force-color", false, true));
    assert!(!colour("--force-color --no-color", true, false));
}

#[test]
fn targets() {
    for (line, kind, expression) in [
        ("saline -L a,b test.ping", TargetKind::List, "a,b"),
        ("saline a|b test.ping -E", TargetKind::Pcre, "a|b"),
        ("saline -G os:x test.ping", TargetKind::Grain, "os:x"),
        (
            "saline --grain-pcre os:x test.ping",
            TargetKind::GrainPcre,
            "os:x",
        ),
        ("saline -S ::1 test.ping", TargetKind::IpCidr, "::1"),
        ("saline -N web test.ping", TargetKind::Nodegroup, "web"),
        ("saline -C G@a:b test.ping", TargetKind::Compound, "G@a:b"),
        ("saline -J a:b test.ping", TargetKind::PillarPcre, "a:b"),
        (
            "saline -G a/b test.ping --delimiter /",
            TargetKind::Compound,
            "G/@a/b",
        ),
        ("saline --preview-target m*", TargetKind::Glob, "m*"),
    ] {
        let target = saline(line).target();
        assert_eq!(
            (target.kind, target.expression.as_str()),
            (kind, expression),
            "{line}"
        );
    }
    let read = saline("saline * test.ping --subset 3");
    assert_eq!(read.targeting.subset, Some(3));
}

#[test]
fn bad_options_are_refused_in_two_lines() {
    insta::assert_snapshot!(error("saline --nosuch"), @"
    Usage: saline [options] '<target>' <function> [arguments]

    saline: error: no such option: --nosuch
    "
    );
    let last = |line: &str| {
        let said = error(line);
        said.lines().last().unwrap_or_default().to_owned()
    };
    let lines = [
        "saline --ver * test.ping",
        "saline --batch-s 3 * test.ping",
        "saline --return_config x * test.ping",
        "saline * test.ping -t soon",
        "saline * test.ping -t",
        "saline * test.ping -v=3",
        "saline * test.ping --ttl 1w",
        "saline * test.ping -t -1",
        "saline * test.ping -t 0",
        "saline * test.ping -b 0",
        "saline * test.ping -b 1 --batch-wait 1w",
        "saline * test.ping --batch-safe-limit many",
        "saline * test.ping --batch-safe-size 0",
        "saline * test.ping --subset x",
        "saline * test.ping --delimiter ::",
        "saline * test.ping --out xml",
        "saline * test.ping --out json --out-indent two",
        "saline * test.ping --out json --out-indent 65",
        "saline * test.ping -l loud",
        "saline -E -L a test.ping",
        "saline -L a test.ping --delimiter /",
        "saline * --preview-target --subset 1",
        "saline * f --log-file-level debug",
        "saline * f --jid now",
    ];
    insta::assert_snapshot!(lines.map(last).join("\n"), @r#"
    saline: error: ambiguous option: --ver (--verbose, --version, --versions-report?)
    saline: error: ambiguous option: --batch-s (--batch-safe-limit, --batch-safe-size, --batch-size?)
    saline: error: no such option: --return_config (Salt has it, Saline does not)
    saline: error: option --timeout: 'soon' is not a time above zero; write 5, 0.5, 90s, 15m, 1h or 2d
    saline: error: --timeout option requires 1 argument
    saline: error: no such option: -=
    saline: error: option --ttl: '1w' is not a time above zero; write 5, 0.5, 90s, 15m, 1h or 2d
    saline: error: option --timeout: '-1' is not a time above zero; write 5, 0.5, 90s, 15m, 1h or 2d
    saline: error: option --timeout: '0' is not a time above zero; write 5, 0.5, 90s, 15m, 1h or 2d
    saline: error: option --batch-size: '0' is not a valid size of a batch; write a number such as 10, or 1% to 100%
    saline: error: option --batch-wait: '1w' is not a time; write 5, 0.5, 90s or 15m
    saline: error: option --batch-safe-limit: 'many' is not a valid number of minions, nor 0 for never
    saline: error: option --batch-safe-size: '0' is not a number of minions, 1 or more
    saline: error: option --subset: 'x' is not a number of minions, 1 or more
    saline: error: option --delimiter: '::' is not one character
    saline: error: option --out: invalid choice: 'xml' (choose from 'nested', 'json', 'yaml', 'txt', 'raw', 'pprint', 'key', 'table', 'newline_values_only', 'no_return', 'quiet')
    saline: error: option --out-indent: 'two' is not a valid number of spaces, at most 64; a negative one prints one line
    saline: error: option --out-indent: '65' is not a valid number of spaces, at most 64; a negative one prints one line
    saline: error: option --log-level: unknown log level "loud"; known are: quiet, critical, error, warning, info, profile, debug, trace, garbage, all
    saline: error: only one kind of target can be given, not -E/--pcre, -L/--list together
    saline: error: option --delimiter goes with -G, -P, -A, -I or -J; in a compound expression write it behind the letter: G|@key|value
    saline: error: option --preview-target shows all that match; --subset chooses again for each job
    saline: error: option --log-file is missing, which another option needs
    saline: error: option --jid: 'now' is not a valid jid; write the present time in UTC as YYYYMMDDhhmmssffffff, 20 digits
    "#);
}

#[test]
fn a_target_that_matches_nobody_may_have_been_meant_otherwise() {
    let hint = |line: &str| saline(line).target_hint();
    assert!(hint("saline web1,web2 f").is_some_and(|hint| hint.contains("-L")));
    assert!(hint("saline -d test.ping").is_some_and(|hint| hint.ends_with("'*' -d test.ping")));
    for line in [
        "saline web{1,2} f",
        "saline -L web1,web2 f",
        "saline web f",
        "saline w.x f",
    ] {
        assert_eq!(hint(line), None, "{line}");
    }
}

#[test]
fn what_guards_a_batch_needs_one() {
    let refused = |line: &str, safe_limit| saline(line).check_batch(safe_limit).is_err();
    for guard in ["--failhard", "--batch-wait 3", "--batch-timeout 60"] {
        assert!(refused(&format!("saline * f {guard}"), 0));
        assert!(refused(
            &format!("saline * f {guard} --batch-safe-limit 0"),
            9
        ));
        assert!(!refused(&format!("saline * f {guard}"), 9));
        assert!(!refused(
            &format!("saline * f {guard} --batch-safe-limit 3"),
            0
        ));
        assert!(!refused(&format!("saline * f {guard} -b 3"), 0));
    }
    assert!(!refused("saline * f", 0));
}

#[test]
fn a_target_and_a_function_must_stand_there() {
    let empty = SalineArguments::read(["saline", "*", ""].map(OsString::from), no_input);
    insta::assert_snapshot!(empty.expect_err("no function").err, @"
    Usage: saline [options] '<target>' <function> [arguments]

    saline: error: the name of the function is empty
    ");
    for line in ["saline", "saline *", "saline -v * --static"] {
        let refused = refused(line);
        assert_eq!(refused.code, 42);
        assert_eq!(refused.err, "\nIncomplete options passed.\n\n");
        assert!(
            refused
                .out
                .starts_with("Usage: saline [options] '<target>' <function> [arguments]\n")
        );
    }
}

#[test]
fn help_and_version() {
    let version = refused("saline --version");
    assert_eq!((version.out.as_str(), version.code), ("saline 0.1.0\n", 0));
    // The pages of the manual in packaging/man hold the options.
    let help = refused("saline -h").out;
    let is_head = |line: &&str| !line.starts_with("  -") && !line.starts_with("      --");
    let heads: Vec<&str> = help.lines().filter(is_head).collect();
    insta::assert_snapshot!(heads.join("\n"), @r#"
    Usage: saline [options] '<target>' <function> [arguments]

    Runs a function on the minions that the target matches, and prints what each returns:

      saline '*' test.ping                        every accepted minion
      saline -G 'os:Debian' cmd.run 'uptime'      those with this grain
      saline -C 'web* and not web9' -b 10% cmd.run 'systemctl restart nginx'   in batches

    Options:

    Target:

    Job:

    Batch:

    Output:

    User:

    Configuration and log:

    About the program:
    "#);
}

fn key(line: &str) -> KeyVerb {
    KeyArguments::read(words(line))
        .expect("arguments that can be read")
        .verb()
}

#[test]
fn keys() {
    let states = |verb| match verb {
        KeyVerb::Act(_, Selection { states, .. }) | KeyVerb::Show(_, Selection { states, .. }) => {
            states
        }
        _ => Vec::new(),
    };
    let all = Selection {
        glob: "*".into(),
        states: KeyState::ALL.to_vec(),
        fingerprint: None,
    };
    assert_eq!(
        key("saline-key"),
        KeyVerb::Show(KeyListing::Names, all.clone())
    );
    assert_eq!(
        key("saline-key -L"),
        KeyVerb::Show(KeyListing::Names, all.clone())
    );
    assert_eq!(
        key("saline-key -P"),
        KeyVerb::Show(KeyListing::Keys, all.clone())
    );
    assert_eq!(
        key("saline-key -F master"),
        KeyVerb::Show(KeyListing::Fingerprints, all.clone())
    );
    assert_eq!(
        key("saline-key -D -y"),
        KeyVerb::Act(KeyAction::Delete, all)
    );
    assert_eq!(
        key("saline-key -a m* -y"),
        KeyVerb::Act(
            KeyAction::Accept,
            Selection {
                glob: "m*".into(),
                states: vec![KeyState::Pending],
                fingerprint: None,
            }
        )
    );
    for (line, expected) in [
        ("saline-key -l pre", vec![KeyState::Pending]),
        ("saline-key -l accepted", vec![KeyState::Accepted]),
        ("saline-key --list den", vec![KeyState::Denied]),
        ("saline-key -l rej", vec![KeyState::Rejected]),
        (
            "saline-key -A --include-all",
            vec![KeyState::Pending, KeyState::Rejected],
        ),
        ("saline-key -A --include-accepted", vec![KeyState::Pending]),
        (
            "saline-key -r m1 --include-accepted",
            vec![KeyState::Accepted, KeyState::Pending],
        ),
        (
            "saline-key -R --include-denied",
            vec![KeyState::Denied, KeyState::Pending],
        ),
    ] {
        assert_eq!(states(key(line)), expected, "{line}");
    }
}

#[test]
fn keys_are_acted_on_one_glob_at_a_time() {
    let error = |line| {
        KeyArguments::read(words(line))
            .expect_err("arguments that are refused")
            .err
    };
    insta::assert_snapshot!(error("saline-key -a m1 m2"), @r#"
    Usage: saline-key [options]

    saline-key: error: unexpected argument "m2": give one key or glob for each option, in quotes
    "#);
    insta::assert_snapshot!(error("saline-key -A -D"), @"
    Usage: saline-key [options]

    saline-key: error: one thing at a time: list, accept, accept-list, reject, delete, print, finger, gen-keys, hash-password, rotate-aes-key, rotate-identity, make-token, list-tokens, revoke-token, accept-operator or delete-operator
    ");
    insta::assert_snapshot!(error("saline-key -a web1 --finger web1"), @"
    Usage: saline-key [options]

    saline-key: error: --finger beside -a, -r or -d takes a whole fingerprint, as saline-key -f prints it
    ");
    insta::assert_snapshot!(error("saline-key -d web1 --include-denied"), @"
    Usage: saline-key [options]

    saline-key: error: -d deletes keys in every state: --only-denied deletes denied ones alone, and --finger the key with one fingerprint
    ");
    insta::assert_snapshot!(error("saline-key -a web1 --only-denied"), @"
    Usage: saline-key [options]

    saline-key: error: --only-denied goes with -d or -D
    ");
    insta::assert_snapshot!(error("saline-key -l some"), @"
    Usage: saline-key [options]

    saline-key: error: option --list: invalid choice: 'some' (choose from 'acc', 'accepted', 'pre', 'un', 'unaccepted', 'den', 'denied', 'rej', 'rejected', 'all')
    ");
}

#[test]
fn runs() {
    let read =
        RunArguments::read(words("saline-run jobs.lookup_jid 1 --out=json")).expect("arguments");
    assert_eq!(
        (read.function(), read.arguments()),
        ("jobs.lookup_jid", &["1".to_owned()][..])
    );
    assert_eq!(
        RunArguments::read(words("saline-run"))
            .expect_err("nothing")
            .code,
        42
    );
}

/// The options that operators know from Salt, by program: each is taken with Salt's name, or refused as one of
/// Salt's.
#[test]
fn options_of_salt_are_taken_or_named() {
    let taken = [
        "saline * f -t 5 --timeout 5 --async -b 2 --batch-size 2 --batch 2 --batch-wait 1 --batch-safe-limit 5 \
         --batch-safe-size 2 --failhard -s --static -p --progress -v --verbose --show-jid --hide-timeout --summary -c /x \
         --config-dir /x -l debug --log-level debug --out json --output json --out-indent 2 --output-indent 2 --out-file x \
         --output-file x --out-file-append --output-file-append --no-color --no-colour --force-color --force-colour",
        "saline * -d",
        "saline * --doc",
        "saline * --documentation",
        "saline * f --args-stdin",
        "saline --config-dump",
        "saline -V",
        "saline --versions-report",
        "saline -E x f",
        "saline --pcre x f",
        "saline -L x f",
        "saline --list x f",
        "saline -G a:b f --delimiter ;",
        "saline --grain a:b f",
        "saline -P a:b f",
        "saline --grain-pcre a:b f",
        "saline -S ::1 f",
        "saline --ipcidr ::1 f",
        "saline -N x f",
        "saline --nodegroup x f",
        "saline -C x f",
        "saline --compound x f",
        "saline -I a:b f",
        "saline --pillar a:b f",
        "saline -J a:b f",
        "saline --pillar-pcre a:b f",
        "saline * f --subset 3",
        "saline * f --metadata {\"ticket\":4711}",
        "saline * f --return postgres,local",
        "saline * --preview-target",
        "saline * f --start-event",
        "saline * f --jid 20261121091409931549",
        "saline * f --log-file /x --log-file-level debug -u root",
        "saline * f --user root",
        "saline -a file --username ann * f",
        "saline --eauth sharedsecret --username ann --password x -T * f",
        "saline -T * f",
        "saline -d",
    ];
    for line in taken {
        saline(line);
    }
    for option in [
        "-R",
        "--range",
        "--return_config",
        "--return_kwargs",
        "--output-diff",
        "--module-executors",
        "--executor-opts",
        "--state-output",
        "--state-verbose",
        "--hard-crash",
        "--no-parse",
        "--saltfile",
    ] {
        let said = error(&format!("saline {option} x * f"));
        let expected = format!("no such option: {option} (Salt has it, Saline does not)\n");
        assert!(said.ends_with(&expected), "{said}");
    }
    for line in [
        "-l acc",
        "--list acc",
        "-L",
        "--list-all",
        "-a x",
        "--accept x",
        "-A",
        "--accept-all",
        "-r x",
        "--reject x",
        "-R",
        "--reject-all",
        "-d x",
        "--delete x",
        "-D",
        "--delete-all",
        "-p x",
        "--print x",
        "-P",
        "--print-all",
        "-f x",
        "--finger x",
        "-F",
        "--finger-all",
        "-L -v --verbose",
        "--gen-keys web1",
        "--rotate-aes-key",
        "--rotate-identity -y",
        "--make-token --for web* --hours 0.5 --uses 3",
        "--list-tokens --out json",
        "--revoke-token 3f9a002c",
        "--accept-list x --dry-run --include-denied",
        "--gen-keys web1 --gen-keys-dir /x --keysize 4096 --user root",
        "-L -u root --log-file /x",
        "-d x --only-denied",
        "-D --only-denied",
        "-A --include-all --include-accepted --include-rejected --include-denied",
        "-A -y -q --yes --quiet --out json --no-color -c /x --log-level info",
    ] {
        key(&format!("saline-key {line}"));
    }
    for option in [
        "--gen-signature",
        "--priv",
        "--pub",
        "--signature-path",
        "--auto-create",
        "--preserve-minions",
    ] {
        let refused =
            KeyArguments::read(words(&format!("saline-key {option} x"))).expect_err(option);
        assert!(
            refused.err.contains("(Salt has it, Saline does not)"),
            "{}",
            refused.err
        );
        assert_eq!(refused.code, 64);
    }
    for line in [
        "--local test.ping --retcode-passthrough --master x --id m1 --out json -l info -c /x",
        "-g",
        "--grains",
        "-d",
        "--doc test",
    ] {
        CallArguments::read(words(&format!("saline-call {line}"))).expect("arguments");
    }
}

#[test]
fn the_definitions_are_sound() {
    use clap::CommandFactory;
    for command in [
        SalineArguments::command(),
        RunArguments::command(),
        KeyArguments::command(),
        CallArguments::command(),
    ] {
        command.debug_assert();
    }
    let _ = SalineArguments::try_parse_from([""]);
}

proptest! {
    #[test]
    fn whatever_is_typed_is_read_or_refused(line in proptest::collection::vec("-{0,2}[a-zA-Z=0-9* ]{0,6}|\\PC{0,8}", 0..6)) {
        let typed = || std::iter::once("saline".into()).chain(line.iter().map(OsString::from));
        for refused in [
            SalineArguments::read(typed(), no_input).err(),
            RunArguments::read(typed()).err(),
            KeyArguments::read(typed()).err(),
            CallArguments::read(typed()).err(),
        ].into_iter().flatten() {
            prop_assert!(matches!(refused.code, 0 | 42 | 64));
        }
    }
}
