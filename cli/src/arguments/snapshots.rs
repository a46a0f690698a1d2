//! What is said of what was typed.

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;
use proptest::prelude::*;
use saline_protocol::message::{KeyAction, KeyState};
use saline_protocol::target::TargetKind;

use super::{KeyArguments, KeyListing, KeyVerb, Refused, RunArguments, SalineArguments, Selection};
use crate::output::Format;

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

fn saline(line: &str) -> SalineArguments {
    SalineArguments::read(words(line)).expect("arguments that can be read")
}

fn refused(line: &str) -> Refused {
    SalineArguments::read(words(line)).expect_err("arguments that are refused")
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
    assert_eq!(read.timeout(), Some(Duration::from_secs(3)));
    assert!(read.verbose && read.static_ && !read.async_);
    assert_eq!(read.output.format(), Format::Json);
    assert_eq!(read.common.config_dir.to_str(), Some("/x"));
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
    let read = saline("saline * test.ping --out json --output raw -t 1 -t 0 --verb");
    assert_eq!(read.output.format(), Format::Raw);
    assert_eq!(read.timeout(), None);
    assert!(read.verbose);
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
    ");
    insta::assert_snapshot!(
        [
            "saline * cmd.run ls -x",
            "saline * test.ping -b 3",
            "saline * test.ping --failhard",
            "saline * test.ping -b 0%",
            "saline * test.ping -G",
            "saline * test.ping -t",
            "saline * test.ping -t five",
            "saline * test.ping --out yaml",
            "saline * test.ping -l loud",
            "saline * test.ping --static=yes",
            "saline * -E -L test.ping",
            "saline * -C -G -N test.ping",
            "saline os:x -G test.ping --delimiter ::",
            "saline * test.ping --delimiter /",
            "saline * test.ping --subset 0",
            "saline * --preview-target --subset 2",
            "saline * test.ping --s",
        ]
        .map(|line| error(line).lines().last().unwrap_or_default().to_owned())
        .join("\n"),
        @r#"
    saline: error: no such option: -x
    saline: error: no such option: -b (Salt has it, Saline does not)
    saline: error: no such option: --failhard (Salt has it, Saline does not)
    saline: error: option --batch-size: '0%' is no size of a batch; write 10 or 10%
    saline: error: no such option: -G (Salt has it, Saline does not)
    saline: error: --timeout option requires 1 argument
    saline: error: option --timeout: invalid integer value: 'five'
    saline: error: option --out: invalid choice: 'yaml' (choose from 'nested', 'json', 'raw', 'quiet')
    saline: error: option --log-level: unknown log level "loud"; known are: quiet, critical, error, warning, info, profile, debug, trace, garbage, all
    saline: error: --static option does not take a value
    saline: error: The options -E/--pcre, -L/--list are mutually exclusive. Please only choose one of them
    saline: error: The options -G/--grain, -N/--nodegroup, -C/--compound are mutually exclusive. Please only choose one of them
    saline: error: option --delimiter: '::' is not one character
    saline: error: option --delimiter goes with -G or -P; in a compound expression write it behind the letter: G|@key|value
    saline: error: option --subset: '0' is no number of minions, 1 or more
    saline: error: option --preview-target shows all that match; --subset chooses anew for each job
    saline: error: no such option: --s
    "#
    );
}

#[test]
fn a_target_and_a_function_must_stand_there() {
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
    insta::assert_snapshot!(refused("saline -h").out, @r#"
    Usage: saline [options] '<target>' <function> [arguments]

    Saline allows for commands to be executed across a swath of remote systems in parallel, so they can be both controlled and queried with ease

    Options:
      -c, --config-dir <CONFIG_DIR>  Pass in an alternative configuration directory [default: /etc/saline]
      -l, --log-level <LOG_LEVEL>    What is logged on the standard error output: quiet, error, warning, info, debug, trace
      -t, --timeout <TIMEOUT>        How long to wait for minions without a sign of life (in seconds); a running one is waited for. Default: the configuration's, 5
          --ttl <TIME>               Give minions this time to begin (90, 90s, 15m, 1h, 2d; at most the master's keep_jobs_seconds), also those that are away now: they get the job when they connect. Default: the configuration's job_ttl, and only connected minions
          --private                  Send the job to each of its minions sealed for it alone. Without this, every accepted minion can read the arguments of a job for more than 64 minions
      -s, --static                   Return the data from minions as a group after they all return
          --async                    Run the saline command but don't wait for a reply
      -v, --verbose                  Turn on command verbosity, display jid
          --show-jid                 Display jid without the additional output of --verbose
      -E, --pcre                     Instead of using shell globs to evaluate the target servers, use regular expressions
      -L, --list                     Instead of using shell globs to evaluate the target servers, take a comma or whitespace delimited list of servers
      -G, --grain                    Instead of using shell globs to evaluate the target use a grain value to identify targets, the syntax for the target is the grain key followed by a globexpression: "os:Arch*"
      -P, --grain-pcre               The same, with a regular expression over the value of the grain: "os:(Debian|Ubuntu)"
      -S, --ipcidr                   Use an address or a network of minions: "10.0.0.0/8", "2001:db8::7"
      -N, --nodegroup                Use a nodegroup of the master's configuration
      -C, --compound                 Combine targets with and, or, not and parentheses: "G@os:Debian and ( web* or E@db[0-9] )"
          --delimiter <CHARACTER>    Stands between the keys of nested grains and their value, instead of a colon
          --subset <NUMBER>          Execute the routine on a random subset of the targeted minions: so many of those that match and are connected
          --preview-target           Show the minions expected to match a target. Does not issue any command
          --out <OUTPUT>             Print the output using the specified outputter [possible values: nested, json, raw, quiet]
          --no-color                 Disable all colored output
          --force-color              Force colored output
      -h, --help                     Print help (see more with '--help')
      -V, --version                  Print version
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
    };
    let all = Selection {
        glob: "*".into(),
        states: KeyState::ALL.to_vec(),
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
                states: vec![KeyState::Pending]
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

    saline-key: error: "m2" belongs to no option: one key or glob an option, in quotes
    "#);
    insta::assert_snapshot!(error("saline-key -A -D"), @"
    Usage: saline-key [options]

    saline-key: error: one thing at a time: list, accept, reject, delete, print or finger
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

#[test]
fn the_definitions_are_sound() {
    use clap::CommandFactory;
    for command in [
        SalineArguments::command(),
        RunArguments::command(),
        KeyArguments::command(),
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
            SalineArguments::read(typed()).err(),
            RunArguments::read(typed()).err(),
            KeyArguments::read(typed()).err(),
        ].into_iter().flatten() {
            prop_assert!(matches!(refused.code, 0 | 42 | 64));
        }
    }
}
