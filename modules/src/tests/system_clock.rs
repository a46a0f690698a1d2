//! Sets the clock with the program `date`, in the place of which is one that sets none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::own_namespace::is_inside_at;
use super::*;

/// Notes the time that is to be set, as the real program understands it, in `/mnt/set`.
const DATE: &str = "#!/bin/sh
case $1 in
--set=*) exec /mnt/date -d \"${1#--set=}\" +%s > /mnt/set ;;
*) exec /mnt/date \"$@\" ;;
esac
";

fn run(program: &str, words: &[&str]) -> String {
    let end = Command::new(program).args(words).output().unwrap();
    assert!(end.status.success(), "{words:?}: {end:?}");
    String::from_utf8(end.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_clock_is_set_as_the_program_understands_it() {
    if !is_inside_at(
        "system_clock",
        "the_clock_is_set_as_the_program_understands_it",
    ) {
        return;
    }
    // /mnt is empty and belongs to this process.
    fs::copy("/usr/bin/date", "/mnt/date").unwrap();
    fs::write("/mnt/instead", DATE).unwrap();
    fs::set_permissions("/mnt/instead", fs::Permissions::from_mode(0o755)).unwrap();
    run("mount", &["--bind", "/mnt/instead", "/usr/bin/date"]);
    // Nothing sets the clock in the hardware either.
    if std::path::Path::new("/usr/sbin/hwclock").exists() {
        run("mount", &["--bind", "/usr/bin/true", "/usr/sbin/hwclock"]);
    }
    let bench = Bench::new();
    let set = |fun: &str, positional: &[Value], named: &[(&str, Value)]| {
        let _ = fs::remove_file("/mnt/set");
        let outcome = bench.call(fun, positional, named);
        let seconds = fs::read_to_string("/mnt/set").ok();
        let at = seconds.map(|seconds| {
            let at = format!("@{}", seconds.trim());
            run("/mnt/date", &["-u", "-d", &at, "+%Y-%m-%d %H:%M:%S"])
        });
        (outcome, at)
    };
    let utc = ("utc_offset", Value::from("+0000"));

    let all: Vec<Value> = [2031, 2, 28, 17, 31, 7].map(Value::Int).into();
    let (outcome, at) = set(
        "system.set_system_date_time",
        &all,
        std::slice::from_ref(&utc),
    );
    assert_eq!(outcome.value, true.into(), "{outcome:?}");
    assert_eq!(at.as_deref(), Some("2031-02-28 17:31:07"));
    let ahead = ("utc_offset", Value::from("+0530"));
    let (_, at) = set("system.set_system_date_time", &all, &[ahead]);
    assert_eq!(at.as_deref(), Some("2031-02-28 12:01:07"));
    // In the time zone of the machine.
    let (_, at) = set("system.set_system_date_time", &all, &[]);
    let local = run("/mnt/date", &["-d", "2031-02-28 17:31:07", "+%s"]);
    assert_eq!(
        fs::read_to_string("/mnt/set").unwrap().trim(),
        local,
        "{at:?}"
    );

    let (_, at) = set(
        "system.set_system_date",
        &["02-29-2032".into()],
        std::slice::from_ref(&utc),
    );
    assert!(at.unwrap().starts_with("2032-02-29 "));
    let (_, at) = set(
        "system.set_system_time",
        &["05:31 PM".into()],
        std::slice::from_ref(&utc),
    );
    assert!(at.unwrap().ends_with(" 17:31:00"));

    let test = ("test", Value::from(true));
    let (told, at) = set(
        "system.set_system_time",
        &["17:31".into()],
        &[utc.clone(), test],
    );
    let new = told.value.get("new").and_then(Value::as_str).unwrap();
    assert!(new.ends_with(" 17:31:00"), "{told:?}");
    assert_eq!(at, None, "nothing was set");
    let thirtieth: Vec<Value> = [2031, 2, 30].map(Value::Int).into();
    for (fun, arguments) in [
        ("system.set_system_date_time", thirtieth),
        (
            "system.set_system_date_time",
            vec![Value::Null, Value::Int(13)],
        ),
        (
            "system.set_system_date_time",
            vec![Value::Null, Value::Null, Value::Int(300)],
        ),
        ("system.set_system_date", vec!["31-12-2031".into()]),
        ("system.set_system_time", vec!["25:00".into()]),
    ] {
        let (outcome, at) = set(fun, &arguments, &[]);
        assert_eq!(
            (outcome.retcode, at),
            (1, None),
            "{arguments:?}: {outcome:?}"
        );
    }
    run("umount", &["/usr/bin/date"]);
}
