//! Grains that are kept beside the configuration, and those that executables print.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::*;

fn entry<'a>(value: &'a Value, key: &str) -> &'a Value {
    value
        .get(key)
        .unwrap_or_else(|| panic!("no {key} in {value:?}"))
}

fn kept(bench: &Bench) -> String {
    fs::read_to_string(bench.folder.path().join("grains")).unwrap_or_default()
}

fn grain(bench: &Bench, name: &str) -> Value {
    bench.texts("grains.get", &[name]).value
}

#[test]
fn a_grain_is_set_and_kept() {
    let bench = Bench::new();
    let told = bench.call(
        "grains.setval",
        &["role".into(), "web".into()],
        &[("test", true.into())],
    );
    assert_eq!(told.value, Value::map([("role", Value::from("web"))]));
    assert_eq!(
        (kept(&bench), grain(&bench, "role")),
        (String::new(), "".into())
    );
    assert_eq!(bench.texts("grains.setval", &["role", "web"]), told);
    assert_eq!(grain(&bench, "role"), "web".into());
    assert!(kept(&bench).ends_with("\nrole: web\n"), "{}", kept(&bench));

    let both = Value::map([
        ("rack", Value::Int(17)),
        ("ans: wer\n", Value::texts(["#x", "- y"])),
    ]);
    assert_eq!(
        bench
            .call("grains.setvals", std::slice::from_ref(&both), &[])
            .value,
        both
    );
    let named = [("delimiter", Value::from("|"))];
    let odd = bench.call("grains.get", &["ans: wer\n".into()], &named);
    assert_eq!(odd.value, Value::texts(["#x", "- y"]));
    // What was written is what is read.
    bench.host.grains.refresh();
    assert_eq!(grain(&bench, "rack"), Value::Int(17));

    let deleted = bench.texts("grains.delkey", &["rack"]).value;
    let change = entry(entry(&deleted, "changes"), "rack").clone();
    assert_eq!(entry(&change, "old"), &Value::Int(17));
    assert_eq!(grain(&bench, "rack"), "".into());
    bench.texts("grains.delval", &["role"]);
    assert_eq!(grain(&bench, "role"), Value::Null);
    assert!(kept(&bench).contains("role: null"), "{}", kept(&bench));
    let gone = bench.call(
        "grains.setval",
        &["role".into(), Value::Null],
        &[("destructive", true.into())],
    );
    assert_eq!((gone.retcode, grain(&bench, "role")), (0, "".into()));
}

#[test]
fn lists_and_nested_grains_are_edited() {
    let bench = Bench::new();
    let call = |fun: &str, positional: &[&str]| bench.texts(fun, positional);
    assert_eq!(
        call("grains.append", &["roles", "web"]).value,
        Value::map([("roles", Value::texts(["web"]))])
    );
    call("grains.append", &["roles", "db"]);
    let again = call("grains.append", &["roles", "db"]);
    assert_eq!(text(&again), "roles has this value already");
    let removed = call("grains.remove", &["roles", "web"]);
    assert_eq!(removed.value, Value::map([("roles", Value::texts(["db"]))]));
    assert_eq!(
        text(&call("grains.remove", &["roles", "web"])),
        "roles has no such value"
    );
    call("grains.setval", &["one", "x"]);
    assert!(text(&call("grains.append", &["one", "y"])).contains("is not a list"));
    let converted = bench.call(
        "grains.append",
        &["one".into(), "y".into()],
        &[("convert", true.into())],
    );
    assert_eq!(entry(&converted.value, "one"), &Value::texts(["x", "y"]));

    let set = call("grains.set", &["place:rack:row", "17"]);
    assert_eq!(entry(&set.value, "result"), &Value::Bool(true), "{set:?}");
    assert_eq!(grain(&bench, "place:rack:row"), "17".into());
    call("grains.append", &["place:rack:doors", "a"]);
    assert_eq!(grain(&bench, "place:rack:row"), "17".into());
    assert_eq!(grain(&bench, "place:rack:doors:0"), "a".into());
    let refused = call("grains.delkey", &["place"]);
    assert!(text(&refused).contains("force=True"), "{refused:?}");
    let forced = bench.call(
        "grains.delkey",
        &["place".into()],
        &[("force", true.into())],
    );
    assert_eq!((forced.retcode, grain(&bench, "place")), (0, "".into()));
    let deep = "a:".repeat(1_000_000) + "a";
    for bad in ["", ":", "a:", ":a", &deep] {
        assert!(!call("grains.set", &[bad, "x"]).success());
    }
    let below = call("grains.set", &["os:x", "y"]);
    assert!(text(&below).contains("os is not a mapping"), "{below:?}");
}

#[test]
fn the_configuration_counts_over_files_and_files_over_the_machine() {
    let bench = Bench::with(|config| config.grains = vec![("role".into(), "configured".into())]);
    let folder = bench.folder.path();
    fs::create_dir(folder.join("grains.d")).unwrap();
    fs::write(
        folder.join("grains.d/10-a.yaml"),
        "role: a\nos: Plan 9\nsite: a\n",
    )
    .unwrap();
    fs::write(folder.join("grains.d/20-b.yaml"), "site: b\n").unwrap();
    fs::write(folder.join("grains.d/ignored.txt"), "site: c\n").unwrap();
    bench.host.grains.refresh();
    assert_eq!(grain(&bench, "role"), "configured".into());
    assert_eq!(
        (grain(&bench, "os"), grain(&bench, "site")),
        ("Plan 9".into(), "b".into())
    );
    bench.texts("grains.setval", &["site", "kept"]);
    assert_eq!(grain(&bench, "site"), "kept".into());
    let refused = bench.texts("grains.setval", &["role", "x"]);
    assert!(
        text(&refused).contains("the configuration of this minion sets the grain role"),
        "{refused:?}"
    );
    for malformed in ["- a list\n", "a: [\n", "\u{0}"] {
        fs::write(folder.join("grains"), malformed).unwrap();
        let refused = bench.texts("grains.setval", &["site", "x"]);
        assert!(text(&refused).contains("mend the file"), "{refused:?}");
        assert_eq!(
            fs::read_to_string(folder.join("grains")).unwrap(),
            malformed
        );
        bench.host.grains.refresh();
        assert_eq!(grain(&bench, "site"), "b".into());
    }
}

#[test]
fn the_kept_file_is_replaced_in_one_step_and_bounded() {
    let bench = Bench::new();
    let folder = bench.folder.path();
    let real = folder.join("real");
    fs::write(&real, "# mine\nrole: web\n").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&real, folder.join("grains")).unwrap();
    bench.texts("grains.setval", &["rack", "17"]);
    assert!(folder.join("grains").is_symlink());
    let mode = fs::metadata(&real).unwrap().permissions().mode() & 0o777;
    assert_eq!((grain(&bench, "role"), mode), ("web".into(), 0o600));
    let large = "x".repeat(300 * 1024);
    let refused = bench.texts("grains.setval", &["large", &large]);
    assert!(
        text(&refused).contains("would have more than"),
        "{}",
        &text(&refused)[..200]
    );
    assert_eq!(grain(&bench, "large"), "".into());
    fs::remove_file(folder.join("grains")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("grains"), 0o600.into()).unwrap();
    let pipe = bench.texts("grains.setval", &["rack", "18"]);
    assert!(text(&pipe).contains("is not a regular file"), "{pipe:?}");
    // Edits of several threads are all kept.
    fs::remove_file(folder.join("grains")).unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let bench = &bench;
            scope.spawn(move || {
                let job = bench.job(&format!("2026112110000000000{number}"));
                let value = [Value::from("all"), Value::Int(number)];
                assert!(bench.call_for(&job, "grains.append", &value, &[]).success());
            });
        }
    });
    let Value::List(all) = grain(&bench, "all") else {
        panic!("a list")
    };
    assert_eq!(all.len(), 8);
}

#[test]
fn no_other_user_can_keep_the_grains_from_being_changed() {
    let bench = Bench::new();
    bench.texts("grains.setval", &["role", "web"]);
    let folder = bench.folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    // Whoever may open a file or a folder can hold its lock.
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let open_to_others = paths.chain([folder.to_owned()]).filter(|path| {
        let mode = path.metadata().unwrap().permissions().mode();
        mode & 0o044 != 0
    });
    let locked = open_to_others.map(|path| {
        let file = fs::File::open(&path).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        (path, file)
    });
    let locked: Vec<_> = locked.collect();
    assert!(locked.iter().any(|(path, _)| path == folder));
    std::thread::scope(|scope| {
        let (done, changed) = std::sync::mpsc::sync_channel(1);
        let bench = &bench;
        scope.spawn(move || {
            bench.texts("grains.setval", &["role", "db"]);
            done.send(()).unwrap();
        });
        let changed = changed.recv_timeout(std::time::Duration::from_secs(60));
        let paths: Vec<_> = locked.into_iter().map(|(path, _)| path).collect();
        assert!(changed.is_ok(), "it waits for a lock on one of {paths:?}");
    });
    assert_eq!(grain(&bench, "role"), "db".into());
}

#[test]
fn grains_are_read_in_salts_ways() {
    let bench = Bench::with(|config| {
        config.grains = vec![
            ("os_family".into(), "Debian".into()),
            ("roles".into(), Value::texts(["db", "web"])),
            ("empty".into(), Value::List(Vec::new())),
        ];
    });
    let call = |fun: &str, positional: &[Value]| bench.call(fun, positional, &[]).value;
    for (name, is) in [
        ("os_family", true),
        ("empty", false),
        ("nothing", false),
        ("roles:0", true),
    ] {
        assert_eq!(
            call("grains.has_value", &[name.into()]),
            Value::Bool(is),
            "{name}"
        );
    }
    assert_eq!(
        call("grains.equals", &["num_cpus".into(), "0".into()]),
        Value::Bool(false)
    );
    assert_eq!(call("grains.fetch", &["roles:1".into()]), "web".into());
    let lookup = Value::map([
        ("RedHat", "httpd".into()),
        ("Deb*", "apache2".into()),
        ("default", Value::Null),
    ]);
    assert_eq!(call("grains.filter_by", &[lookup]), "apache2".into());
    let lookup = Value::map([
        ("web", Value::map([("a", Value::Int(2))])),
        (
            "base",
            Value::map([("a", Value::Int(1)), ("b", Value::Int(1))]),
        ),
    ]);
    let named = [("grain", "roles".into()), ("base", "base".into())];
    let chosen = bench.call("grains.filter_by", &[lookup], &named).value;
    assert_eq!(
        chosen,
        Value::map([("a", Value::Int(2)), ("b", Value::Int(1))])
    );
    let hidden = bench
        .call("grains.items", &[], &[("sanitize", true.into())])
        .value;
    assert_eq!(
        (entry(&hidden, "id"), entry(&hidden, "fqdn")),
        (&"MINION".into(), &"MINION.DOMAINNAME".into())
    );
}

fn install(folder: &Path, name: &str, script: &str, mode: u32) {
    let written = folder.join(format!(".{name}"));
    fs::write(&written, script).unwrap();
    fs::set_permissions(&written, fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(written, folder.join(name)).unwrap();
}

#[test]
fn executables_print_grains() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::with(|config| config.grains_dirs = vec![folder.path().to_owned()]);
    assert_eq!(grain(&bench, "rack"), "".into());
    install(
        folder.path(),
        "10-rack",
        "#!/bin/sh\necho '{\"rack\": 17, \"site\": \"a\"}'",
        0o755,
    );
    install(
        folder.path(),
        "20-site.sh",
        "#!/bin/sh\necho '{\"site\": \"b\"}'",
        0o755,
    );
    install(folder.path(), "list", "#!/bin/sh\necho '[1]'", 0o755);
    install(
        folder.path(),
        "fails",
        "#!/bin/sh\necho '{\"fails\": 1}'; exit 1",
        0o755,
    );
    install(
        folder.path(),
        "large",
        "#!/bin/sh\nprintf '{\"large\": \"'; head -c 70000 /dev/zero | tr '\\0' x; printf '\"}'",
        0o755,
    );
    install(
        folder.path(),
        "open",
        "#!/bin/sh\necho '{\"open\": 1}'",
        0o777,
    );
    install(
        folder.path(),
        "copy~",
        "#!/bin/sh\necho '{\"copy\": 1}'",
        0o755,
    );
    install(
        folder.path(),
        "plain",
        "#!/bin/sh\necho '{\"plain\": 1}'",
        0o644,
    );
    assert_eq!(
        bench.texts("saltutil.refresh_grains", &[]).value,
        Value::Bool(true)
    );
    assert_eq!(
        (grain(&bench, "rack"), grain(&bench, "site")),
        (Value::Int(17), "b".into())
    );
    for none in ["fails", "large", "open", "copy", "plain"] {
        assert_eq!(grain(&bench, none), "".into(), "{none}");
    }
    // They count over the machine, and below what is kept.
    install(
        folder.path(),
        "30-os",
        "#!/bin/sh\necho '{\"os\": \"Plan 9\"}'",
        0o755,
    );
    bench.texts("grains.setval", &["site", "kept"]);
    bench.host.collect_printed_grains();
    assert_eq!(
        (grain(&bench, "os"), grain(&bench, "site")),
        ("Plan 9".into(), "kept".into())
    );
    fs::remove_file(folder.path().join("30-os")).unwrap();
    bench.host.collect_printed_grains();
    assert_ne!(grain(&bench, "os"), "Plan 9".into());
}

#[test]
fn grains_of_the_machine_are_those_of_its_programs() {
    let bench = Bench::new();
    let said = |line: &str| text(&bench.texts("cmd.run", &[line])).to_owned();
    let uuid = said("cat /sys/class/dmi/id/product_uuid 2>/dev/null | tr A-Z a-z");
    assert_eq!(grain(&bench, "uuid"), uuid.as_str().into());
    let gateway =
        said("awk '$2 == \"00000000\" && $3 != \"00000000\" {print $1; exit}' /proc/net/route");
    assert_eq!(
        grain(&bench, "ip4_gw") == Value::Bool(false),
        gateway.is_empty()
    );
    let parameters = grain(&bench, "kernelparams");
    let Value::List(parameters) = &parameters else {
        panic!("{parameters:?}")
    };
    assert_eq!(parameters.len().to_string(), said("wc -w < /proc/cmdline"));
    for name in ["disks", "ssds", "fqdn_ip4", "fqdn_ip6", "osrelease_info"] {
        assert!(matches!(grain(&bench, name), Value::List(_)), "{name}");
    }
    for name in ["dns", "locale_info", "selinux"] {
        assert!(matches!(grain(&bench, name), Value::Map(_)), "{name}");
    }
    if std::path::Path::new("/run/systemd/system").exists() {
        let version = said("systemctl --version | head -n 1 | cut -d ' ' -f 2");
        assert_eq!(grain(&bench, "systemd:version"), version.as_str().into());
        let features = said("systemctl --version | tail -n 1");
        assert_eq!(grain(&bench, "systemd:features"), features.as_str().into());
    } else {
        eprintln!("skipped: systemd does not run here");
    }
}
