//! Tests that change the machine: each runs in a process of its own, in a mount namespace where `/etc` is a copy.

use std::process::Command;

use super::*;

/// Set in the process that has a namespace of its own.
const INSIDE: &str = "SALINE_TEST_IN_OWN_NAMESPACE";

/// Runs the test `name` in a namespace of its own. Returns whether this process is the one that is in it; the other one
/// returns when the first has succeeded. Says so where the machine allows no such namespace.
fn is_inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "--"])
            .args(words);
        command
    };
    if !unshare(&["true"])
        .output()
        .is_ok_and(|end| end.status.success())
    {
        eprintln!("skipped: {name} needs a mount namespace, which this machine does not allow");
        return false;
    }
    let copy = tempfile::tempdir().unwrap();
    let script = "cp -a /etc/. \"$1\" && mount --bind \"$1\" /etc && mount -t tmpfs tmpfs /home && \
                  mount -t tmpfs tmpfs /mnt && exec \"$2\" --exact \"$3\" --nocapture";
    let own = std::env::current_exe().unwrap();
    let end = unshare(&["sh", "-c", script, "sh"])
        .arg(copy.path())
        .arg(own)
        .arg(format!("tests::own_namespace::{name}"))
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&end.stdout).into_owned() + &String::from_utf8_lossy(&end.stderr);
    assert!(end.status.success() && said.contains("1 passed"), "{said}");
    false
}

fn entry<'a>(value: &'a Value, key: &str) -> &'a Value {
    value
        .get(key)
        .unwrap_or_else(|| panic!("no {key} in {value:?}"))
}

fn nothing() -> Value {
    Value::Map(Vec::new())
}

#[test]
fn users_come_change_and_go() {
    if !is_inside("users_come_change_and_go") {
        return;
    }
    let bench = Bench::new();
    let with_test = |fun: &str, positional: &[Value]| {
        bench.call(fun, positional, &[("test", true.into())]).value
    };
    let call = |fun: &str, positional: &[&str]| bench.texts(fun, positional).value;

    let added = bench.call("group.add", &["saltworks".into(), Value::Int(4242)], &[]);
    assert_eq!(
        entry(entry(&added.value, "new"), "gid"),
        &Value::Int(4242),
        "{added:?}"
    );
    assert_eq!(call("group.add", &["saltworks"]), nothing());

    let named = [
        ("uid", Value::Int(4243)),
        ("groups", "saltworks".into()),
        ("shell", "/bin/sh".into()),
        ("fullname", "Ann Example".into()),
    ];
    let told = bench.call(
        "user.add",
        &["ann".into()],
        &[&named[..], &[("test", true.into())]].concat(),
    );
    assert_eq!(entry(&told.value, "new").as_str(), Some("ann"), "{told:?}");
    assert_eq!(call("user.info", &["ann"]), nothing());
    let added = bench.call("user.add", &["ann".into()], &named);
    let new = entry(&added.value, "new");
    for (key, value) in [
        ("uid", Value::Int(4243)),
        ("home", "/home/ann".into()),
        ("fullname", "Ann Example".into()),
    ] {
        assert_eq!(entry(new, key), &value, "{key}");
    }
    assert_eq!(new, &call("user.info", &["ann"]));
    assert!(std::path::Path::new("/home/ann").is_dir());
    let Value::List(groups) = entry(new, "groups") else {
        panic!("{new:?}")
    };
    assert!(groups.contains(&"saltworks".into()));
    let Value::List(names) = call("user.list_users", &[]) else {
        panic!("a list")
    };
    assert!(names.contains(&"ann".into()));
    let Value::List(all) = call("user.getent", &[]) else {
        panic!("a list")
    };
    assert!(all.contains(new), "{all:?}");

    for (fun, argument, old, new) in [
        (
            "user.chuid",
            Value::Int(4300),
            Value::Int(4243),
            Value::Int(4300),
        ),
        (
            "user.chshell",
            "/bin/false".into(),
            "/bin/sh".into(),
            "/bin/false".into(),
        ),
        (
            "user.chhome",
            "/home/anna".into(),
            "/home/ann".into(),
            "/home/anna".into(),
        ),
        (
            "user.chfullname",
            "Anna".into(),
            "Ann Example".into(),
            "Anna".into(),
        ),
        (
            "user.chgid",
            "saltworks".into(),
            Value::Null,
            Value::Int(4242),
        ),
    ] {
        let told = with_test(fun, &["ann".into(), argument.clone()]);
        let done = bench
            .call(fun, &["ann".into(), argument.clone()], &[])
            .value;
        assert_eq!((told, entry(&done, "new")), (done.clone(), &new), "{fun}");
        assert!(
            old == Value::Null || entry(&done, "old") == &old,
            "{fun}: {done:?}"
        );
        assert_eq!(
            bench.call(fun, &["ann".into(), argument], &[]).value,
            nothing(),
            "{fun}"
        );
    }
    let groups = call("user.chgroups", &["ann", "adm"]);
    assert_eq!(entry(&groups, "new"), &Value::texts(["adm", "saltworks"]));
    assert_eq!(
        call("user.list_groups", &["ann"]),
        Value::texts(["adm", "saltworks"])
    );

    assert_eq!(
        entry(&call("group.adduser", &["saltworks", "ann"]), "new"),
        &Value::texts(["ann"])
    );
    assert_eq!(call("group.adduser", &["saltworks", "ann"]), nothing());
    assert_eq!(
        entry(&call("group.deluser", &["saltworks", "ann"]), "new"),
        &Value::List(Vec::new())
    );
    assert_eq!(
        entry(&call("group.members", &["saltworks", "ann,root"]), "new"),
        &Value::texts(["ann", "root"])
    );

    let gone = bench.call("user.delete", &["ann".into()], &[("remove", true.into())]);
    assert_eq!(entry(&gone.value, "new"), &Value::Null, "{gone:?}");
    assert_eq!(call("user.info", &["ann"]), nothing());
    assert_eq!(call("user.delete", &["ann"]), nothing());
    assert_eq!(
        entry(&call("group.delete", &["saltworks"]), "new"),
        &Value::Null
    );

    for (fun, name) in [
        ("user.add", "-r"),
        ("user.add", "a:b"),
        ("group.add", "--root=/x"),
        ("user.delete", "-f"),
    ] {
        let refused = bench.texts(fun, &[name]);
        assert!(text(&refused).contains("is not the name of"), "{refused:?}");
    }
    let colon = bench.texts("user.chshell", &["root", "/bin/sh:x"]);
    assert!(text(&colon).contains("colon"), "{colon:?}");
}

#[test]
fn filesystems_are_mounted_and_unmounted() {
    if !is_inside("filesystems_are_mounted_and_unmounted") {
        return;
    }
    let bench = Bench::new();
    let named = [
        ("fstype", "tmpfs".into()),
        ("opts", "size=1m".into()),
        ("mkmnt", true.into()),
    ];
    let arguments = ["/mnt/some where".into(), "salt".into()];
    let told = bench
        .call(
            "mount.mount",
            &arguments,
            &[&named[..], &[("test", true.into())]].concat(),
        )
        .value;
    assert_eq!(
        bench.texts("mount.is_mounted", &["/mnt/some where"]).value,
        Value::Bool(false)
    );
    let mounted = bench.call("mount.mount", &arguments, &named);
    assert_eq!(mounted.value, told);
    assert_eq!(
        bench.texts("mount.is_mounted", &["/mnt/some where/"]).value,
        Value::Bool(true)
    );
    assert_eq!(
        bench.call("mount.mount", &arguments, &named).value,
        nothing()
    );
    let active = bench.texts("mount.active", &[]).value;
    assert_eq!(
        entry(entry(&active, "/mnt/some where"), "fstype").as_str(),
        Some("tmpfs")
    );
    let remounted = bench
        .call(
            "mount.remount",
            &["/mnt/some where".into()],
            &[("opts", "ro,size=1m".into())],
        )
        .value;
    let Value::List(new) = entry(&remounted, "new") else {
        panic!("{remounted:?}")
    };
    assert!(new.contains(&"ro".into()));
    let gone = bench.texts("mount.umount", &["/mnt/some where"]).value;
    assert_eq!(entry(&gone, "old").as_str(), Some("salt"));
    assert_eq!(
        bench.texts("mount.umount", &["/mnt/some where"]).value,
        nothing()
    );
    let option = bench.texts("mount.umount", &["-a"]);
    assert!(
        text(&option).contains("is not an absolute path"),
        "{option:?}"
    );
}

#[test]
fn passwords_are_set_and_never_shown() {
    if !is_inside("passwords_are_set_and_never_shown") {
        return;
    }
    let bench = Bench::new();
    let call = |fun: &str, positional: &[&str]| bench.texts(fun, positional).value;
    bench.texts("user.add", &["ann"]);
    assert_eq!(
        entry(&call("shadow.info", &["ann"]), "passwd").as_str(),
        Some("locked")
    );
    let hash = bench.texts("shadow.gen_password", &["correct horse"]);
    let hash = text(&hash);
    assert!(hash.starts_with("$6$"), "{hash}");
    let told = bench.call(
        "shadow.set_password",
        &["ann".into(), hash.into()],
        &[("test", true.into())],
    );
    assert_eq!(
        entry(&call("shadow.info", &["ann"]), "passwd").as_str(),
        Some("locked")
    );
    let done = call("shadow.set_password", &["ann", hash]);
    assert_eq!(
        (&told.value, entry(&done, "new").as_str()),
        (&done, Some("set"))
    );
    assert_eq!(call("shadow.set_password", &["ann", hash]), nothing());
    let shown = bench
        .call(
            "shadow.info",
            &["ann".into()],
            &[("show_hash", true.into())],
        )
        .value;
    assert_eq!(entry(&shown, "passwd").as_str(), Some(hash));
    let plain = bench.texts("shadow.set_password", &["ann", "hunter2"]);
    assert!(
        text(&plain).contains("must be a hash") && !text(&plain).contains("hunter2"),
        "{plain:?}"
    );
    let second_line = bench.texts("shadow.set_password", &["ann", "$6$a$b\nroot:$6$a$b"]);
    assert!(
        text(&second_line).contains("must be a hash"),
        "{second_line:?}"
    );

    assert_eq!(
        entry(&call("shadow.lock_password", &["ann"]), "new").as_str(),
        Some("locked")
    );
    assert_eq!(call("shadow.lock_password", &["ann"]), nothing());
    assert_eq!(
        entry(&call("shadow.unlock_password", &["ann"]), "new").as_str(),
        Some("set")
    );
    for (fun, key, days) in [
        ("shadow.set_mindays", "min", 2),
        ("shadow.set_maxdays", "max", 90),
        ("shadow.set_warndays", "warn", 9),
        ("shadow.set_inactdays", "inact", 14),
        ("shadow.set_expire", "expire", 25_000),
        ("shadow.set_date", "lstchg", 19_000),
    ] {
        // A date may be a text, the others are numbers.
        let argument = match fun {
            "shadow.set_expire" | "shadow.set_date" => Value::from(days.to_string()),
            _ => Value::Int(days),
        };
        let done = bench.call(fun, &["ann".into(), argument], &[]).value;
        assert_eq!(entry(&done, "new"), &Value::Int(days), "{fun}: {done:?}");
        assert_eq!(
            entry(&call("shadow.info", &["ann"]), key),
            &Value::Int(days),
            "{fun}"
        );
    }
    assert_eq!(
        entry(&call("shadow.del_password", &["ann"]), "new").as_str(),
        Some("empty")
    );
    assert_eq!(
        entry(&call("shadow.info", &["ann"]), "passwd").as_str(),
        Some("empty")
    );
}

#[test]
fn names_and_the_time_zone_are_set() {
    if !is_inside("names_and_the_time_zone_are_set") {
        return;
    }
    let bench = Bench::new();
    let call = |fun: &str, positional: &[&str]| bench.texts(fun, positional).value;
    let before = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let told = bench.call(
        "hosts.add_host",
        &["192.0.2.9".into(), "db.example.org".into()],
        &[("test", true.into())],
    );
    assert_eq!(
        std::fs::read_to_string("/etc/hosts").unwrap_or_default(),
        before
    );
    let done = call("hosts.add_host", &["192.0.2.9", "db.example.org"]);
    assert_eq!(
        (&told.value, entry(&done, "new")),
        (&done, &Value::texts(["db.example.org"]))
    );
    assert_eq!(
        call("hosts.add_host", &["192.0.2.9", "db.example.org"]),
        nothing()
    );
    assert_eq!(
        call("hosts.get_ip", &["db.example.org"]).as_str(),
        Some("192.0.2.9")
    );
    assert_eq!(
        call("cmd.run", &["getent hosts db.example.org"]).as_str(),
        Some("192.0.2.9       db.example.org")
    );
    call("hosts.set_host", &["192.0.2.9", "a b"]);
    assert_eq!(
        call("hosts.get_alias", &["192.0.2.9"]),
        Value::texts(["a", "b"])
    );
    assert_eq!(
        call("hosts.has_pair", &["192.0.2.9", "a"]),
        Value::Bool(true)
    );
    call("hosts.rm_host", &["192.0.2.9", "a"]);
    call("hosts.rm_host", &["192.0.2.9", "b"]);
    assert_eq!(
        call("hosts.get_alias", &["192.0.2.9"]),
        Value::List(Vec::new())
    );
    assert!(
        std::fs::read_to_string("/etc/hosts")
            .unwrap()
            .starts_with(&before)
    );
    for arguments in [["192.0.2.300", "a"], ["192.0.2.9", "a#b"]] {
        let refused = bench.texts("hosts.add_host", &arguments);
        assert!(text(&refused).contains("is not"), "{refused:?}");
    }

    if !std::path::Path::new("/usr/share/zoneinfo/Asia/Kolkata").is_file() {
        eprintln!("skipped: this machine has no time zones");
        return;
    }
    let done = call("timezone.set_zone", &["Asia/Kolkata"]);
    assert_eq!(entry(&done, "new").as_str(), Some("Asia/Kolkata"));
    assert_eq!(
        call("timezone.get_zone", &[]).as_str(),
        Some("Asia/Kolkata")
    );
    assert_eq!(call("timezone.get_offset", &[]).as_str(), Some("+0530"));
    assert_eq!(call("timezone.get_zonecode", &[]).as_str(), Some("IST"));
    assert_eq!(call("timezone.set_zone", &["Asia/Kolkata"]), nothing());
    for zone in [
        "../../../etc/passwd",
        "/etc/localtime",
        "",
        "Asia",
        "Moon/Base",
        "zone.tab",
    ] {
        let refused = bench.texts("timezone.set_zone", &[zone]);
        assert!(
            text(&refused).contains("there is no time zone"),
            "{refused:?}"
        );
    }
}

#[test]
fn parameters_of_the_kernel_are_kept() {
    if !is_inside("parameters_of_the_kernel_are_kept") {
        return;
    }
    let bench = Bench::new();
    let call = |fun: &str, positional: &[&str]| bench.texts(fun, positional).value;
    let name = "kernel.printk_ratelimit_burst";
    let old = call("sysctl.get", &[name]);
    let all = call("sysctl.show", &[]);
    assert_eq!(entry(&all, name), &old);
    // The value that it has, since the kernel is the machine's own.
    let value = old.as_str().unwrap();
    assert_eq!(call("sysctl.assign", &[name, value]), nothing());
    let done = call("sysctl.persist", &[name, value]);
    assert_eq!(
        (entry(&done, "old"), entry(&done, "new")),
        (&Value::Null, &old)
    );
    assert_eq!(call("sysctl.persist", &[name, value]), nothing());
    let file = call("sysctl.default_config", &[]);
    let kept = std::fs::read_to_string(file.as_str().unwrap()).unwrap();
    assert!(kept.ends_with(&format!("{name} = {value}\n")), "{kept}");
    let shown = bench
        .call("sysctl.show", &[], &[("config_file", file)])
        .value;
    assert_eq!(entry(&shown, name), &old);
    let unknown = bench.texts("sysctl.get", &["kernel.nosuch"]);
    assert!(
        text(&unknown).contains("cannot read kernel.nosuch"),
        "{unknown:?}"
    );
}
