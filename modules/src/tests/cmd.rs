use super::*;

/// With a command line and named arguments.
fn cmd(bench: &Bench, fun: &str, line: &str, named: &[(&str, Value)]) -> Outcome {
    bench.call(fun, &[Value::from(line)], named)
}

#[test]
fn both_streams_come_back_merged_and_stripped() {
    let bench = Bench::new();
    let outcome = cmd(&bench, "cmd.run", "echo hi; echo err >&2; exit 3", &[]);
    assert_eq!(outcome, Outcome::new("hi\nerr", 3));
    assert!(!outcome.success());
    let kept = cmd(
        &bench,
        "cmd.run",
        "echo hi",
        &[("rstrip", Value::Bool(false))],
    );
    assert_eq!(kept, Outcome::from("hi\n"));
}

#[test]
fn run_all_has_them_apart() {
    let bench = Bench::new();
    let outcome = cmd(&bench, "cmd.run_all", "echo hi; echo err >&2; exit 3", &[]);
    assert_eq!(outcome.retcode, 3);
    assert_eq!(outcome.value.get("stdout"), Some(&Value::from("hi")));
    assert_eq!(outcome.value.get("stderr"), Some(&Value::from("err")));
    assert_eq!(outcome.value.get("retcode"), Some(&Value::Int(3)));
    assert!(outcome.value.get("pid").and_then(Value::as_i64).unwrap() > 1);
    let line = "echo hi; echo err >&2";
    assert_eq!(
        cmd(&bench, "cmd.run_stdout", line, &[]),
        Outcome::from("hi")
    );
    assert_eq!(
        cmd(&bench, "cmd.run_stderr", line, &[]),
        Outcome::from("err")
    );
    assert_eq!(
        cmd(&bench, "cmd.retcode", "exit 7", &[]),
        Outcome::new(Value::Int(7), 7)
    );
}

#[test]
fn a_signal_is_128_and_its_number() {
    let bench = Bench::new();
    assert_eq!(
        cmd(&bench, "cmd.retcode", "kill -9 $$", &[]).value,
        Value::Int(137)
    );
}

#[test]
fn without_a_shell_nothing_is_expanded() {
    let bench = Bench::new();
    let no_shell = [("python_shell", Value::Bool(false))];
    let outcome = cmd(&bench, "cmd.run", "echo '$HOME  *' a\\ b", &no_shell);
    assert_eq!(outcome, Outcome::from("$HOME  * a b"));
    let list = Value::List(vec!["echo".into(), "$HOME".into(), Value::Int(5)]);
    assert_eq!(
        bench.call("cmd.run", &[list], &[]),
        Outcome::from("$HOME 5")
    );
    let missing = cmd(&bench, "cmd.run", "nosuchprogram", &no_shell);
    assert!(text(&missing).starts_with("ERROR: cannot run \"nosuchprogram\": "));
    assert_eq!(cmd(&bench, "cmd.run", "nosuchprogram", &[]).retcode, 127);
    let open = cmd(&bench, "cmd.run", "echo 'a", &no_shell);
    assert_eq!(text(&open), "ERROR: No closing quotation: echo 'a");
    let empty = cmd(&bench, "cmd.run", "", &no_shell);
    assert_eq!(text(&empty), "ERROR: there is no command to run");
}

#[test]
fn folder_environment_and_input_are_the_ones_given() {
    let bench = Bench::new();
    assert_eq!(
        cmd(&bench, "cmd.run", "pwd", &[("cwd", "/".into())]),
        Outcome::from("/")
    );
    let wrong = cmd(&bench, "cmd.run", "pwd", &[("cwd", "/no/such".into())]);
    assert_eq!(
        text(&wrong),
        "ERROR: Specified cwd '/no/such' either not absolute or does not exist"
    );
    let broken = cmd(&bench, "cmd.run", "cat", &[("cwd", "stdin=a\nb".into())]);
    let said = text(&broken);
    assert!(
        said.contains("line break") && said.ends_with(r#"stdin='"a\nb"'"#),
        "{said}"
    );
    let print = "echo \"$A-$B\"";
    let mapping = Value::map([("A", Value::from("x y")), ("B", Value::Int(5))]);
    assert_eq!(
        cmd(&bench, "cmd.run", print, &[("env", mapping)]),
        Outcome::from("x y-5")
    );
    let list = Value::List(vec!["A=1=2".into(), Value::map([("B", Value::from("3"))])]);
    assert_eq!(
        cmd(&bench, "cmd.run", print, &[("env", list)]),
        Outcome::from("1=2-3")
    );
    let removed = [("env", Value::map([("PATH", Value::Null)]))];
    assert_eq!(
        cmd(&bench, "cmd.run", "/usr/bin/env | grep ^PATH", &removed).retcode,
        1
    );
    let clean = [("clean_env", Value::Bool(true)), ("cwd", "/".into())];
    // The shell adds one itself.
    assert_eq!(
        cmd(&bench, "cmd.run", "/usr/bin/env", &clean),
        Outcome::from("LC_ALL=C.UTF-8\nPWD=/")
    );
    let usual = cmd(&bench, "cmd.run", "/usr/bin/env", &[]);
    assert!(text(&usual).contains("PATH="));
    assert!(!text(&usual).contains("CARGO"));
    for bad in [
        Value::from("A"),
        Value::Int(1),
        Value::map([("A=B", Value::from("x"))]),
    ] {
        let outcome = cmd(&bench, "cmd.run", "true", &[("env", bad)]);
        let expected = "Passed invalid arguments to cmd.run: run() expects ";
        assert!(text(&outcome).starts_with(expected), "{outcome:?}");
        assert!(text(&outcome).contains(" as 'env', not "), "{outcome:?}");
    }
    let input = "x".repeat(1 << 20);
    let counted = cmd(
        &bench,
        "cmd.run",
        "wc -c",
        &[("stdin", input.clone().into())],
    );
    assert_eq!(counted, Outcome::from("1048576"));
    let unread = cmd(
        &bench,
        "cmd.run",
        "exec <&-; echo done",
        &[("stdin", input.into())],
    );
    assert_eq!(unread, Outcome::from("done"));
}

#[test]
fn a_timeout_ends_the_whole_group_and_says_so() {
    let bench = Bench::new();
    let mark = bench.folder.path().join("alive");
    let line = format!("echo before; (sleep 600; touch {}) | cat", mark.display());
    let outcome = cmd(&bench, "cmd.run", &line, &[("timeout", Value::Float(0.2))]);
    assert_eq!(
        text(&outcome),
        format!("before\n'{line}' : Timed out after 1 second")
    );
    assert_eq!((outcome.retcode, outcome.success()), (1, false));
    let stubborn = "trap '' TERM; echo $$; while true; do sleep 1; done";
    let outcome = cmd(
        &bench,
        "cmd.run",
        stubborn,
        &[("timeout", Value::Float(0.2))],
    );
    let pid = text(&outcome).lines().next().unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_stopping_minion_kills_the_command() {
    let bench = Bench::new();
    bench.host.stop.raise();
    assert_eq!(cmd(&bench, "cmd.run", "sleep 600", &[]).retcode, 130);
}

#[test]
fn much_output_on_both_streams_hangs_nothing() {
    let bench = Bench::new();
    let line = "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero";
    let outcome = cmd(&bench, "cmd.run_all", line, &[]);
    for stream in ["stdout", "stderr"] {
        let printed = outcome.value.get(stream).and_then(Value::as_str).unwrap();
        assert_eq!(printed.len(), 3_000_000);
    }
}

#[test]
fn what_stays_in_the_background_is_not_waited_for() {
    let bench = Bench::new();
    let outcome = cmd(&bench, "cmd.run", "sleep 5 & echo started $!", &[]);
    let pid = text(&outcome).strip_prefix("started ").unwrap();
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    cmd(&bench, "cmd.run", &format!("kill {pid}"), &[]);
}

#[test]
fn output_that_is_not_utf8_survives() {
    let bench = Bench::new();
    let outcome = cmd(&bench, "cmd.run", "printf 'a\\377\\000b\\n'", &[]);
    assert_eq!(outcome.value, Value::Bytes(b"a\xff\0b".to_vec()));
}

#[test]
fn output_above_the_limit_is_left_in_a_file_that_the_error_names() {
    let bench = Bench::with_limit(1000 + 1024);
    let exact = cmd(
        &bench,
        "cmd.run",
        "head -c 1000 /dev/zero | tr '\\0' x",
        &[],
    );
    assert_eq!(text(&exact).len(), 1000);
    let outcome = cmd(
        &bench,
        "cmd.run",
        "head -c 5000 /dev/zero | tr '\\0' x",
        &[],
    );
    let said = text(&outcome);
    assert!(
        said.contains("the output of 5000 bytes is above the limit of 1000 bytes"),
        "{said}"
    );
    assert!(said.contains("; all of it is stored in "), "{said}");
    let path = stored_in(said);
    assert!(path.starts_with(bench.folder.path().to_str().unwrap()));
    assert_eq!(std::fs::read(path).unwrap(), vec![b'x'; 5000]);
    assert_eq!(outcome.retcode, 1, "its output is missing");
    let ended = "head -c 5000 /dev/zero; kill -TERM $$";
    let ended = cmd(&bench, "cmd.run", ended, &[]);
    assert_eq!(ended.retcode, 143);
    let said = text(&ended);
    assert!(said.ends_with("; the command's retcode was 143"), "{said}");
    let mut config = MinionConfig::default();
    config.output_file_size = 16_000;
    bench.host.reload(&config);
    let endless = cmd(&bench, "cmd.run", "head -c 500000 /dev/zero", &[]);
    let said = text(&endless);
    assert!(
        said.contains("of 500000 bytes") && said.contains("its first 16000 bytes are stored in"),
        "{said}"
    );
    assert_eq!(std::fs::metadata(stored_in(said)).unwrap().len(), 16_000);
}

/// Returns the file that an error names.
fn stored_in(said: &str) -> &str {
    let (_, rest) = said.split_once("stored in ").unwrap();
    rest.split_once(" on the minion").unwrap().0
}

#[test]
fn a_command_runs_as_another_user_in_its_home() {
    let bench = Bench::new();
    let unknown = [("runas", "nosuchuser".into())];
    let outcome = cmd(&bench, "cmd.run", "id", &unknown);
    assert_eq!(
        text(&outcome),
        "ERROR: there is no user \"nosuchuser\" on this machine"
    );
    assert!(!outcome.success());
    if !rustix::process::geteuid().is_root() {
        let refused = cmd(&bench, "cmd.run", "id", &[("runas", "root".into())]);
        assert!(text(&refused).contains("this needs root"));
        return;
    }
    let nobody = || ("runas", Value::from("nobody"));
    for fun in ["cmd.run", "cmd.run_stdout"] {
        let outcome = cmd(&bench, fun, "id -un; echo $USER; pwd", &[nobody()]);
        // Its home does not exist.
        assert_eq!(outcome, Outcome::from("nobody\nnobody\n/"));
    }
    let private = bench.folder.path().join("private");
    std::fs::create_dir(&private).unwrap();
    std::fs::set_permissions(
        &private,
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    let private = private.to_str().unwrap();
    let refused = cmd(
        &bench,
        "cmd.run",
        "pwd",
        &[nobody(), ("cwd", private.into())],
    );
    assert_eq!(
        text(&refused),
        format!("ERROR: cannot enter the folder {private}: Permission denied (os error 13)")
    );
    let set = Value::map([("USER", Value::from("other"))]);
    let outcome = cmd(&bench, "cmd.run", "echo $USER", &[nobody(), ("env", set)]);
    assert_eq!(outcome, Outcome::from("other"), "what is given holds");
}

#[test]
fn the_umask_is_an_octal_number() {
    let bench = Bench::new();
    // As the command line has it: Salt reads 027 as the number 27.
    for given in [Value::Int(27), "27".into(), "027".into()] {
        let outcome = cmd(&bench, "cmd.run", "umask", &[("umask", given)]);
        assert_eq!(outcome, Outcome::from("0027"));
    }
    for bad in [Value::Int(0), "8".into(), "1000".into(), "u=rwx".into()] {
        let outcome = cmd(&bench, "cmd.run", "umask", &[("umask", bad)]);
        assert!(text(&outcome).contains("umask"), "{outcome:?}");
        assert!(!outcome.success());
    }
}

#[test]
fn a_command_in_the_background_is_left_alone() {
    let bench = Bench::new();
    let (begun, go_on) = (
        bench.folder.path().join("begun"),
        bench.folder.path().join("go on"),
    );
    rustix::fs::mkfifoat(rustix::fs::CWD, &begun, 0o600.into()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &go_on, 0o600.into()).unwrap();
    let line = format!(
        "read word; echo output; echo $word $$ > '{}'; read word < '{}'",
        begun.display(),
        go_on.display()
    );
    let named = [("bg", Value::Bool(true)), ("stdin", "hello\n".into())];
    let outcome = cmd(&bench, "cmd.run_all", &line, &named);
    assert_eq!(outcome.value.get("stdout"), Some(&Value::from("")));
    assert_eq!(outcome.value.get("retcode"), Some(&Value::Int(0)));
    let pid = outcome.value.get("pid").and_then(Value::as_i64).unwrap();
    // The function has returned, and the command waits to be read.
    assert_eq!(
        std::fs::read_to_string(begun).unwrap(),
        format!("hello {pid}\n")
    );
    std::fs::write(go_on, "\n").unwrap();
    assert_eq!(
        cmd(&bench, "cmd.run", "echo x", &named[..1]),
        Outcome::from("")
    );
    let timeout = [("bg", Value::Bool(true)), ("timeout", Value::Int(1))];
    assert!(text(&cmd(&bench, "cmd.run", "true", &timeout)).contains("no timeout"));
}

#[test]
fn a_command_begins_in_the_home_of_the_minions_user() {
    let bench = Bench::new();
    let home = std::env::var("HOME").unwrap();
    assert_eq!(cmd(&bench, "cmd.run", "pwd -P", &[]), Outcome::from(home));
}

#[test]
fn a_bare_word_that_yaml_reads_as_a_truth_value_is_a_command() {
    let bench = Bench::new();
    assert_eq!(
        bench.call("cmd.retcode", &[Value::Bool(false)], &[]).value,
        Value::Int(1)
    );
}

#[test]
fn a_command_has_the_locale_of_salt_unless_it_is_told_another() {
    let bench = Bench::new();
    let said = |named: &[(&str, Value)]| {
        let line = "echo $LC_ALL,$LANGUAGE,$LANG,$LC_TIME";
        text(&cmd(&bench, "cmd.run", line, named)).to_owned()
    };
    assert!(said(&[]).starts_with("C.UTF-8,,"), "{}", said(&[]));
    let german = ("env", Value::map([("LANG", Value::from("de_DE.UTF-8"))]));
    assert!(said(&[german]).starts_with(",,de_DE.UTF-8,"));
    let own = said(&[("reset_system_locale", false.into())]);
    let minion = std::env::var("LC_ALL").unwrap_or_default();
    assert!(own.starts_with(&format!("{minion},")), "{own}");
    let clean = [("clean_env", true.into())];
    assert_eq!(
        cmd(&bench, "cmd.run", "env | grep -c LC_", &clean),
        Outcome::from("1")
    );
}

#[test]
fn an_operator_says_what_a_success_is() {
    let bench = Bench::new();
    let line = "echo out; echo err >&2; exit 3";
    for (name, value) in [
        (
            "success_retcodes",
            Value::List(vec![Value::Int(2), Value::Int(3)]),
        ),
        ("success_retcodes", "2, 3".into()),
        ("success_retcodes", Value::Int(3)),
        ("success_stdout", "out".into()),
        ("success_stderr", Value::texts(["none", "err"])),
    ] {
        let outcome = cmd(&bench, "cmd.run_all", line, &[(name, value.clone())]);
        assert_eq!(outcome.retcode, 0, "{name}={value:?}");
        assert_eq!(outcome.value.get("retcode"), Some(&Value::Int(0)));
    }
    for (name, value) in [
        ("success_retcodes", Value::Int(4)),
        ("success_stdout", "err".into()),
    ] {
        assert_eq!(
            cmd(&bench, "cmd.run_all", line, &[(name, value)]).retcode,
            3
        );
    }
    let wrong = cmd(&bench, "cmd.run", line, &[("success_retcodes", "x".into())]);
    assert!(text(&wrong).contains("success_retcodes"), "{wrong:?}");
    let hidden = cmd(&bench, "cmd.run_all", line, &[("hide_output", true.into())]);
    assert_eq!(hidden.value.get("stdout"), Some(&Value::from("")));
    assert_eq!(hidden.value.get("stderr"), Some(&Value::from("")));
    assert_eq!(hidden.retcode, 3);
    let path = [("prepend_path", "/first:/second".into())];
    let outcome = cmd(&bench, "cmd.run", "echo $PATH", &path);
    assert!(
        text(&outcome).starts_with("/first:/second:/"),
        "{outcome:?}"
    );
}

#[test]
fn programs_are_found_as_a_command_finds_them() {
    let bench = Bench::new();
    let sh = bench.texts("cmd.which", &["sh"]);
    assert_eq!(text(&sh), text(&bench.texts("cmd.run", &["command -v sh"])));
    for none in ["nosuchprogram", "", "../bin/sh", "sh\nx"] {
        assert_eq!(
            bench.texts("cmd.which", &[none]).value,
            Value::Null,
            "{none:?}"
        );
        assert_eq!(
            bench.texts("cmd.has_exec", &[none]).value,
            Value::Bool(false)
        );
    }
    assert_eq!(
        bench.texts("cmd.has_exec", &["/bin/sh"]).value,
        Value::Bool(true)
    );
    let any = bench.call(
        "cmd.which_bin",
        &[Value::texts(["nosuchprogram", "sh"])],
        &[],
    );
    assert_eq!(any, sh);
}

#[test]
fn a_script_runs_from_a_copy_that_is_removed() {
    let bench = Bench::new();
    let path = bench.folder.path().join("a script");
    std::fs::write(
        &path,
        "#!/bin/sh -e\nread line; echo \"$0|$1|$2|$line\"; false; echo no",
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let named = [
        ("args", "one 'two $HOME'".into()),
        ("stdin", "input\n".into()),
    ];
    let outcome = bench.call("cmd.script", &[path.into()], &named);
    assert_eq!(outcome.retcode, 1, "{outcome:?}");
    let said = outcome.value.get("stdout").and_then(Value::as_str).unwrap();
    let (copy, rest) = said.split_once('|').unwrap();
    assert_eq!(rest, "one|two $HOME|input");
    assert!(!std::path::Path::new(copy).exists(), "{copy}");
    assert!(!std::path::Path::new(copy).parent().unwrap().exists());

    let given = bench.texts("cmd.script_retcode", &["#!/bin/sh\nexit 7"]);
    assert_eq!(given, Outcome::new(Value::Int(7), 7));
    let code = bench.texts("cmd.exec_code", &["sh", "echo $1", "", "x y"]);
    assert!(!code.success(), "an empty folder is refused: {code:?}");
    let named = [("args", Value::texts(["x y"]))];
    let code = bench.call("cmd.exec_code", &["sh".into(), "echo $1".into()], &named);
    assert_eq!(code, Outcome::from("x y"));
    for (source, why) in [
        ("salt://x.sh", "come through the running minion"),
        ("x.sh", "nor an absolute path"),
        ("/no/such/script", "cannot read /no/such/script"),
        ("/dev/zero", "is not a regular file"),
        ("#!\necho", "names no interpreter"),
    ] {
        let refused = bench.texts("cmd.script", &[source]);
        assert!(text(&refused).contains(why), "{refused:?}");
    }
    let slow = [("timeout", Value::Float(0.3))];
    let ended = bench.call(
        "cmd.script",
        &["#!/bin/sh\necho $0; sleep 600".into()],
        &slow,
    );
    let said = ended.value.get("stdout").and_then(Value::as_str).unwrap();
    // The line about the timeout names the command, also when the script printed nothing in that time.
    let line = said.lines().last().unwrap();
    let command = line.split('\'').nth(1).unwrap();
    let copy = command.rsplit(' ').next().unwrap();
    assert!(
        copy.ends_with("/script") && !std::path::Path::new(copy).exists(),
        "{said}"
    );
}

#[test]
fn a_script_of_another_user_is_not_the_users_to_change() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a_script_of_another_user_is_not_the_users_to_change needs root");
        return;
    }
    let bench = Bench::new();
    let script = "#!/bin/sh\nid -un; id -gn; stat -c '%U %a' $0; rm -f $0 2>/dev/null; ls $0 | wc -l; touch $(dirname $0)/x 2>/dev/null || echo no";
    let named = [("runas", "nobody".into()), ("group", "daemon".into())];
    let outcome = bench.call("cmd.script", &[script.into()], &named);
    let said = outcome.value.get("stdout").and_then(Value::as_str).unwrap();
    assert_eq!(said, "nobody\ndaemon\nnobody 500\n1\nno", "{outcome:?}");
    let unknown = cmd(&bench, "cmd.run", "id", &[("group", "nosuchgroup".into())]);
    assert!(
        text(&unknown).contains("there is no group \"nosuchgroup\""),
        "{unknown:?}"
    );
    let own = cmd(
        &bench,
        "cmd.run",
        "id -un; id -gn",
        &[("group", "daemon".into())],
    );
    assert_eq!(own, Outcome::from("root\ndaemon"));
}
