//! Tests that change the machine: each runs in a process of its own, in a mount namespace where `/etc` is a copy. They share what
//! makes that namespace, which is why they stand in one file.

use std::process::Command;

use super::*;

/// Set in the process that has a namespace of its own.
const INSIDE: &str = "SALINE_TEST_IN_OWN_NAMESPACE";

/// Runs the test `name` in a namespace of its own. Returns whether this process is the one that is in it; the other one
/// returns when the first has succeeded. Says so where the machine allows no such namespace.
fn is_inside(name: &str) -> bool {
    is_inside_at("own_namespace", name)
}

/// Does what [`is_inside`] does for a test in another file.
pub(super) fn is_inside_at(file: &str, name: &str) -> bool {
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
        .arg(format!("tests::{file}::{name}"))
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
    // A call that fails without `test` fails with it in the same words.
    for (line, why) in [
        ("group.add gx gid 0", "gid: 0 is that of the group \"root\""),
        ("group.chgid adm gid 0", "gid: 0 is that of"),
        ("group.adduser adm username nosuch", "there is no user"),
        ("group.members adm members_list root,nosuch", "no user"),
        ("user.add u1 groups adm,nosuch", "no group \"nosuch\""),
        ("user.add u1 gid nosuch", "no group \"nosuch\""),
        ("user.add u1 uid 0", "uid: 0 is that of the user \"root\""),
        ("user.add u1 uid 4294967295", "up to 4294967294"),
        ("user.add u1 home relative", "is not an absolute path"),
        ("user.chuid nobody uid 0", "uid: 0 is that of"),
        (
            "user.chhome nobody home relative",
            "is not an absolute path",
        ),
        ("user.chshell nobody shell sh", "is not an absolute path"),
        ("user.chgroups nobody groups nosuch", "no group \"nosuch\""),
        (
            "user.rename nobody new_name root",
            "there is a user \"root\"",
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let value = words[3].parse::<i64>();
        let value = value.map_or_else(|_| words[3].into(), Value::Int);
        let named = [(words[2], value), ("test", true.into())];
        let told = bench.call(words[0], &[words[1].into()], &named);
        let done = bench.call(words[0], &[words[1].into()], &named[..1]);
        assert!(text(&told).contains(why) && !told.success(), "{told:?}");
        assert_eq!(told.value, done.value, "{line}");
    }
    let shared = [("uid", Value::Int(0)), ("unique", false.into())];
    let shared = [&shared[..], &[("test", true.into())]].concat();
    assert!(bench.call("user.add", &["u1".into()], &shared).success());
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

/// A key, and its fingerprint.
const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIDIhz2GK/XCUj4i6Q5yQJNL1MKMY0RxzPV2QrBqfHrDq";
const FINGERPRINT: &str = "XcVaf1K7+8/BaRbn0ax8/wH8blb27P4aE1gQD/ZvGzU";

#[test]
fn users_log_in_with_keys() {
    if !is_inside("users_log_in_with_keys") {
        return;
    }
    use std::os::unix::fs::{MetadataExt, symlink};
    let bench = Bench::new();
    bench.texts("user.add", &["ann"]);
    let uid = std::fs::metadata("/home/ann").unwrap().uid();
    assert_ne!(uid, 0);
    let file = std::path::Path::new("/home/ann/.ssh/authorized_keys");
    let ed25519 = ("enc", Value::from("ed25519"));
    let set = |named: &[(&str, Value)]| {
        bench.call("ssh.set_auth_key", &["ann".into(), KEY.into()], named)
    };
    let told = set(&[ed25519.clone(), ("test", true.into())]);
    assert_eq!((text(&told), file.exists()), ("new", false));
    assert_eq!(text(&set(std::slice::from_ref(&ed25519))), "new");
    for (path, mode) in [(file, 0o600), (file.parent().unwrap(), 0o700)] {
        let found = std::fs::metadata(path).unwrap();
        assert_eq!(
            (found.uid(), found.mode() & 0o7777),
            (uid, mode),
            "{path:?}"
        );
    }
    assert_eq!(text(&set(std::slice::from_ref(&ed25519))), "no change");
    let before = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, format!("# mine\n\n{before}not a key")).unwrap();
    let options = (
        "options",
        Value::texts(["no-pty", "from=\"10.0.0.0/8, a\""]),
    );
    let named = [ed25519.clone(), ("comment", "ann@home".into()), options];
    assert_eq!(text(&set(&named)), "replace");
    let line = format!("no-pty,from=\"10.0.0.0/8, a\" ssh-ed25519 {KEY} ann@home");
    assert_eq!(
        std::fs::read_to_string(file).unwrap(),
        format!("# mine\n\n{line}\nnot a key")
    );
    assert_eq!(text(&set(&named)), "no change");
    let keys = bench.texts("ssh.auth_keys", &["ann"]).value;
    assert_eq!(
        entry(entry(&keys, KEY), "fingerprint").as_str(),
        Some(FINGERPRINT)
    );
    let all = bench.call("ssh.auth_keys", &[], &[]).value;
    assert_eq!(entry(&all, "ann"), &keys);
    let check = bench.texts("ssh.check_key", &["ann", KEY, "ssh-ed25519", "x"]);
    assert_eq!(text(&check), "update");

    // No argument puts a second line in, or another file.
    for (name, value) in [
        ("comment", Value::from("x\nssh-rsa AAAA")),
        ("options", Value::texts(["a\nb"])),
        ("options", Value::texts(["a b"])),
        ("enc", "ssh-rsa".into()),
        ("enc", "x\ny".into()),
        ("config", "../../root/.ssh/authorized_keys".into()),
        ("config", "/etc/../home/ann/x".into()),
        ("config", "a\nb/../c".into()),
    ] {
        let refused = match name {
            "enc" => set(&[(name, value.clone())]),
            _ => set(&[ed25519.clone(), (name, value.clone())]),
        };
        assert!(
            text(&refused).contains(name) || text(&refused).contains("key: "),
            "{name}={value:?}: {refused:?}"
        );
    }
    let lines = bench.call(
        "ssh.set_auth_key",
        &[
            "ann".into(),
            format!("ssh-ed25519 {KEY}\nssh-ed25519 {KEY}").into(),
        ],
        &[],
    );
    assert!(!lines.success(), "{lines:?}");
    assert_eq!(
        text(&bench.texts("ssh.rm_auth_key", &["ann", KEY])),
        "Key removed"
    );
    assert_eq!(
        text(&bench.texts("ssh.rm_auth_key", &["ann", KEY])),
        "Key not present"
    );
    assert_eq!(
        std::fs::read_to_string(file).unwrap(),
        "# mine\n\nnot a key"
    );

    // What the user puts in the place of the file or its folder leads root nowhere.
    let secret = std::path::Path::new("/etc/shadow");
    let untouched = std::fs::read(secret).unwrap();
    let links = |link: &std::path::Path, target: &str, why: &str| {
        symlink(target, link).unwrap();
        for fun in ["ssh.set_auth_key", "ssh.rm_auth_key", "ssh.auth_keys"] {
            let positional = match fun {
                "ssh.auth_keys" => vec!["ann".into()],
                _ => vec!["ann".into(), KEY.into()],
            };
            let named = if fun == "ssh.set_auth_key" {
                vec![ed25519.clone()]
            } else {
                vec![]
            };
            let refused = bench.call(fun, &positional, &named);
            assert!(text(&refused).contains(why), "{fun}: {refused:?}");
        }
        std::fs::remove_file(link).unwrap();
    };
    std::fs::remove_file(file).unwrap();
    links(file, "/etc/shadow", "is a symbolic link");
    std::fs::remove_dir(file.parent().unwrap()).unwrap();
    std::fs::create_dir_all("/mnt/root/.ssh").unwrap();
    links(file.parent().unwrap(), "/mnt/root/.ssh", "a symbolic link");
    assert_eq!(std::fs::read_dir("/mnt/root/.ssh").unwrap().count(), 0);
    assert_eq!(std::fs::read(secret).unwrap(), untouched);
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::os::unix::fs::chown(file.parent().unwrap(), Some(uid), None).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, file, 0o600.into()).unwrap();
    std::os::unix::fs::chown(file, Some(uid), None).unwrap();
    assert!(text(&set(std::slice::from_ref(&ed25519))).contains("is not a regular file"));
    std::fs::remove_file(file).unwrap();
    // A file of another user, which the user might have linked.
    std::fs::write(file, "x").unwrap();
    std::os::unix::fs::chown(file, Some(uid + 1), None).unwrap();
    assert!(text(&set(&[ed25519])).contains("belongs to user"));
    assert!(!text(&bench.texts("ssh.set_auth_key", &["nosuch", KEY])).contains(KEY));
}

#[test]
fn users_know_machines() {
    if !is_inside("users_know_machines") {
        return;
    }
    if crate::system_program::missing_program(&["ssh-keygen"]).is_some() {
        eprintln!("skipped: users_know_machines needs openssh-client");
        return;
    }
    let bench = Bench::new();
    bench.texts("user.add", &["ann"]);
    let key = [("key", Value::from(KEY)), ("enc", "ed25519".into())];
    let ann = [Value::from("ann"), "git.example.org".into()];
    let set = |named: &[(&str, Value)]| bench.call("ssh.set_known_host", &ann, named).value;
    let told = set(&[&key[..], &[("test", true.into())]].concat());
    assert_eq!(entry(&told, "status").as_str(), Some("updated"), "{told:?}");
    assert!(!std::path::Path::new("/home/ann/.ssh").exists());
    assert_eq!(entry(&set(&key), "status").as_str(), Some("updated"));
    assert_eq!(entry(&set(&key), "status").as_str(), Some("exists"));
    let known = bench.call("ssh.get_known_host_entries", &ann, &[]).value;
    let Value::List(known) = known else {
        panic!("{known:?}")
    };
    assert_eq!(entry(&known[0], "fingerprint").as_str(), Some(FINGERPRINT));
    let named = [("fingerprint", Value::from(format!("SHA256:{FINGERPRINT}")))];
    assert_eq!(
        text(&bench.call("ssh.check_known_host", &ann, &named)),
        "exists"
    );
    let named = [("fingerprint", Value::from("SHA256:other"))];
    assert_eq!(
        text(&bench.call("ssh.check_known_host", &ann, &named)),
        "update"
    );
    assert!(!bench.call("ssh.check_known_host", &ann, &[]).success());
    let port = [&key[..], &[("port", Value::Int(2222))]].concat();
    assert_eq!(entry(&set(&port), "status").as_str(), Some("updated"));
    let text_of_file = std::fs::read_to_string("/home/ann/.ssh/known_hosts").unwrap();
    assert_eq!(
        text_of_file,
        format!("git.example.org ssh-ed25519 {KEY}\n[git.example.org]:2222 ssh-ed25519 {KEY}\n")
    );
    // Also a name that the user's ssh has hashed.
    let hashed = bench.call(
        "cmd.run",
        &["ssh-keygen -H -f /home/ann/.ssh/known_hosts".into()],
        &[("runas", "ann".into())],
    );
    assert!(hashed.success(), "{hashed:?}");
    let removed = bench.call("ssh.rm_known_host", &ann, &[]).value;
    assert_eq!(
        entry(&removed, "status").as_str(),
        Some("removed"),
        "{removed:?}"
    );
    let removed = bench.call("ssh.rm_known_host", &ann, &[]).value;
    assert_eq!(entry(&removed, "status").as_str(), Some("absent"));
    let all = bench
        .call(
            "ssh.set_known_host",
            &[Value::Null, "10.0.0.1".into()],
            &key,
        )
        .value;
    assert_eq!(entry(&all, "status").as_str(), Some("updated"), "{all:?}");
    let file = std::fs::read_to_string("/etc/ssh/ssh_known_hosts").unwrap();
    assert_eq!(file, format!("10.0.0.1 ssh-ed25519 {KEY}\n"));
    for bad in ["-oProxyCommand=x", "", "a b", "a\nb", "a,b", "*"] {
        let refused = bench.call("ssh.rm_known_host", &["ann".into(), bad.into()], &[]);
        assert!(text(&refused).contains("hostname"), "{bad:?}: {refused:?}");
    }
}
