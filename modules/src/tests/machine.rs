//! The modules about the machine, against the kernel, sockets on loopback, and files in a temporary folder.

use std::io::Read;
use std::net::{TcpListener, TcpStream};

use super::*;

fn entry<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, key| {
        let found = value.get(key);
        found.unwrap_or_else(|| panic!("no {key} in {value:?}"))
    })
}

fn number(value: &Value) -> i64 {
    value
        .as_i64()
        .or_else(|| value.as_str()?.parse().ok())
        .unwrap_or_else(|| panic!("not a number: {value:?}"))
}

#[test]
fn disk_tells_what_df_tells() {
    let bench = Bench::new();
    let job = bench.job("20261121100000000000");
    let df = bench.call_for(&job, "cmd.run", &["df -P / | tail -n 1".into()], &[]);
    let fields: Vec<&str> = text(&df).split_whitespace().collect();
    let all = bench.texts("disk.usage", &[]).value;
    let root = entry(&all, &["/"]);
    assert_eq!(entry(root, &["1K-blocks"]).as_str(), Some(fields[1]));
    assert_eq!(entry(root, &["filesystem"]).as_str(), Some(fields[0]));
    let one = bench.texts("disk.usage", &["/etc/passwd"]).value;
    assert!(matches!(&one, Value::Map(entries) if entries.len() == 1));
    let share = bench.texts("disk.percent", &["/"]);
    assert!(text(&share).ends_with('%'), "{share:?}");
    let inodes = bench.texts("disk.inodeusage", &["/"]).value;
    let Value::Map(inodes) = &inodes else {
        panic!("{inodes:?}")
    };
    for (_, counted) in inodes {
        let sum = number(entry(counted, &["used"])) + number(entry(counted, &["free"]));
        assert_eq!(sum, number(entry(counted, &["inodes"])));
    }
    let missing = bench.texts("disk.usage", &["/no/such/folder"]);
    assert!(text(&missing).contains("/no/such/folder"), "{missing:?}");
}

#[test]
fn the_time_is_that_of_the_clock_and_of_another_zone() {
    let bench = Bench::new();
    let job = bench.job("20261121100000000000");
    // The second, and perhaps the hour, may be over in between.
    let same = |fun: &str, named: &[(&str, Value)], date: &str| {
        let mut tries = (0..10).map(|_| {
            let before = bench.call_for(&job, "cmd.run", &[date.into()], &[]);
            let told = bench.call(fun, &[], named);
            text(&before) == text(&told)
        });
        assert!(tries.any(|is_same| is_same), "{fun}");
    };
    same("system.get_system_time", &[], "date '+%I:%M:%S %p'");
    same("system.get_system_date", &[], "date '+%a %m/%d/%Y'");
    let east = [("utc_offset", Value::from("+0530"))];
    let date = "TZ=IST-5:30 date '+%Y-%m-%d %H:%M:%S'";
    same("system.get_system_date_time", &east, date);
    let wrong = bench.call("system.get_system_time", &[], &[("utc_offset", "5".into())]);
    assert_ne!(wrong.retcode, 0);
    assert_eq!(
        bench.texts("system.get_computer_name", &[]),
        bench.texts("network.get_hostname", &[])
    );
}

#[test]
fn the_files_of_a_package_are_those_that_dpkg_has() {
    if !std::path::Path::new("/usr/bin/dpkg-query").exists() {
        println!("skipped: there is no dpkg on this machine");
        return;
    }
    let bench = Bench::new();
    let told = bench
        .texts("pkg.file_list", &["dpkg", "no-such-package"])
        .value;
    let Value::List(files) = entry(&told, &["files"]) else {
        panic!("{told:?}")
    };
    assert!(files.contains(&"/usr/bin/dpkg-query".into()), "{told:?}");
    assert!(!files.contains(&"/.".into()));
    assert_eq!(
        entry(&told, &["errors"]),
        &Value::texts(["package no-such-package is not installed"])
    );
}

#[test]
fn status_tells_what_the_kernel_tells() {
    let bench = Bench::new();
    let all = bench.texts("status.all_status", &[]).value;
    assert!(number(entry(&all, &["uptime", "seconds"])) > 0);
    assert!(number(entry(&all, &["meminfo", "MemTotal", "value"])) > 0);
    assert_eq!(
        entry(&all, &["meminfo", "MemTotal", "unit"]).as_str(),
        Some("kB")
    );
    assert!(matches!(
        entry(&all, &["loadavg", "1-min"]),
        Value::Float(_)
    ));
    assert!(number(entry(&all, &["nproc"])) > 0);
    assert!(number(entry(&all, &["cpustats", "cpu", "idle"])) > 0);
    assert!(matches!(entry(&all, &["cpuinfo"]), Value::Map(entries) if !entries.is_empty()));
    assert!(number(entry(&all, &["diskusage", "/", "total"])) > 0);
    let procs = bench.texts("status.procs", &[]).value;
    let own = std::process::id().to_string();
    assert!(text(&entry(&procs, &[&own, "cmd"]).clone().into()).contains("saline_modules"));
    let year = bench.texts("status.time", &["%Y"]);
    assert_eq!(text(&year).len(), 4);
    assert!(text(&bench.texts("status.version", &[])).starts_with("Linux version"));
    let mut child = std::process::Command::new("sh")
        .args(["-c", "echo; read end", "the-process-to-find"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It has its command line once it prints.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let found = bench.texts("status.pid", &["the-process-to-find"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(text(&found), child.id().to_string());
}

#[test]
fn connections_are_tried_and_told() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let arguments = [Value::from("localhost"), Value::from(u64::from(port))];
    let named = [("family", Value::from("ipv4")), ("timeout", Value::Int(5))];
    let connected = bench.call("network.connect", &arguments, &named);
    assert_eq!(
        (entry(&connected.value, &["result"]), connected.retcode),
        (&Value::Bool(true), 0)
    );
    let (mut accepted, _) = listener.accept().unwrap();
    assert_eq!(accepted.read(&mut [0]).unwrap(), 0);

    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let own = client.local_addr().unwrap().port();
    let active = bench.texts("network.active_tcp", &[]).value;
    let Value::Map(active) = active else {
        panic!("{active:?}")
    };
    assert!(active.iter().any(|(_, one)| {
        number(entry(one, &["local_port"])) == i64::from(own)
            && number(entry(one, &["remote_port"])) == i64::from(port)
            && entry(one, &["remote_addr"]).as_str() == Some("127.0.0.1")
    }));

    // Nobody listens at the port of the client, and nobody else gets it while the client has it.
    let closed = [Value::from("localhost"), Value::from(u64::from(own))];
    let refused = bench.call("network.connect", &closed, &named);
    drop(client);
    assert_eq!(
        (entry(&refused.value, &["result"]), refused.retcode),
        (&Value::Bool(false), 1)
    );
    for (name, value) in [("proto", "sctp"), ("family", "ipx")] {
        let wrong = bench.call("network.connect", &arguments, &[(name, value.into())]);
        assert!(text(&wrong).contains(value), "{wrong:?}");
    }
    let option = bench.texts("network.ping", &["-f"]);
    assert!(text(&option).contains("is not a host"), "{option:?}");
}

#[test]
fn interfaces_have_their_addresses() {
    let bench = Bench::new();
    let all = bench.texts("network.interfaces", &[]).value;
    let Value::List(v4) = entry(&all, &["lo", "inet"]) else {
        panic!("{all:?}")
    };
    assert_eq!(entry(&v4[0], &["address"]).as_str(), Some("127.0.0.1"));
    assert_eq!(entry(&v4[0], &["netmask"]).as_str(), Some("255.0.0.0"));
    assert_eq!(entry(&all, &["lo", "up"]), &Value::Bool(true));
    let loopback = bench.call(
        "network.ip_addrs",
        &[],
        &[
            ("cidr", "127.0.0.0/8".into()),
            ("include_loopback", true.into()),
        ],
    );
    assert_eq!(loopback.value, Value::texts(["127.0.0.1"]));
    let without = bench.call("network.ip_addrs", &["lo".into()], &[]);
    assert_eq!(without.value, Value::List(Vec::new()));
    assert!(
        text(&bench.call("network.ip_addrs", &[], &[("cidr", "10/8".into())])).contains("cidr")
    );
    assert!(!text(&bench.texts("network.get_hostname", &[])).is_empty());
    assert_eq!(
        text(&bench.texts("network.hw_addr", &["lo"])),
        "00:00:00:00:00:00"
    );
    assert!(text(&bench.texts("network.hw_addr", &["nosuch"])).contains("nosuch"));
}

#[test]
fn fstab_is_edited_where_an_entry_stands() {
    let bench = Bench::new();
    let path = bench.folder.path().join("fstab");
    let before = "# first\nUUID=1 / ext4 errors=remount-ro 0 1\n\n/dev/old /srv xfs defaults 0 2 # kept?\nlast";
    std::fs::write(&path, before).unwrap();
    let config = ("config", Value::from(path.display().to_string()));
    let entry_of = |test: bool| {
        let positional = ["/srv", "/dev/new", "ext4"].map(Value::from);
        let named = [
            config.clone(),
            ("opts", Value::texts(["ro", "noatime"])),
            ("pass_num", Value::Int(2)),
            ("test", test.into()),
        ];
        bench.call("mount.set_fstab", &positional, &named).value
    };
    let told = entry_of(true);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    assert_eq!(entry_of(false), told);
    assert_eq!(entry(&told, &["old", "device"]).as_str(), Some("/dev/old"));
    let after = before.replace(
        "/dev/old /srv xfs defaults 0 2 # kept?",
        "/dev/new\t/srv\text4\tro,noatime\t0\t2",
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
    assert_eq!(entry_of(false), Value::Map(Vec::new()));
    let shown = bench
        .call("mount.fstab", &[], std::slice::from_ref(&config))
        .value;
    assert_eq!(
        entry(&shown, &["/srv", "opts"]),
        &Value::texts(["ro", "noatime"])
    );
    let removed = bench
        .call(
            "mount.rm_fstab",
            &["/srv".into()],
            std::slice::from_ref(&config),
        )
        .value;
    assert_eq!(
        entry(&removed, &["old", "device"]).as_str(),
        Some("/dev/new")
    );
    let after = after.replace("/dev/new\t/srv\text4\tro,noatime\t0\t2\n", "");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
}

#[test]
fn a_hash_is_the_one_of_crypt() {
    let bench = Bench::new();
    // As `openssl passwd` hashes it.
    for (algorithm, hash) in [
        (
            "sha512",
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        ),
        (
            "sha256",
            "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
        ),
    ] {
        let named = [
            ("crypt_salt", "saltstring".into()),
            ("algorithm", algorithm.into()),
        ];
        assert_eq!(
            text(&bench.call("shadow.gen_password", &["Hello world!".into()], &named)),
            hash
        );
    }
    let salt = bench.call(
        "shadow.gen_password",
        &["x".into()],
        &[("crypt_salt", "a$b".into())],
    );
    assert!(text(&salt).contains("crypt_salt"), "{salt:?}");
}

#[test]
fn networks_contain_addresses() {
    let bench = Bench::new();
    let call = |fun: &str, positional: &[&str]| bench.texts(fun, positional).value;
    for (fun, positional, expected) in [
        (
            "network.ip_in_subnet",
            &["192.0.2.7", "192.0.2.0/24"][..],
            Value::Bool(true),
        ),
        (
            "network.ip_in_subnet",
            &["192.0.3.7", "192.0.2.0/24"],
            Value::Bool(false),
        ),
        (
            "network.ip_in_subnet",
            &["2001:db8::1", "2001:db8::/32"],
            Value::Bool(true),
        ),
        ("network.in_subnet", &["127.0.0.0/8"], Value::Bool(true)),
        (
            "network.in_subnet",
            &["198.51.100.0/24"],
            Value::Bool(false),
        ),
        ("network.calc_net", &["192.0.2.7/24"], "192.0.2.0/24".into()),
        (
            "network.calc_net",
            &["192.0.2.7", "255.255.255.128"],
            "192.0.2.0/25".into(),
        ),
        (
            "network.reverse_ip",
            &["192.0.2.7"],
            "7.2.0.192.in-addr.arpa".into(),
        ),
        ("network.is_loopback", &["::1"], Value::Bool(true)),
        ("network.is_private", &["10.0.0.3"], Value::Bool(true)),
        ("network.is_private", &["192.0.2.7"], Value::Bool(false)),
    ] {
        assert_eq!(call(fun, positional), expected, "{fun} {positional:?}");
    }
    let reverse = call("network.reverse_ip", &["2001:db8::1"]);
    assert!(
        reverse.as_str().unwrap().starts_with("1.0.0."),
        "{reverse:?}"
    );
    assert!(
        reverse
            .as_str()
            .unwrap()
            .ends_with(".8.b.d.0.1.0.0.2.ip6.arpa")
    );
    let parts = call("network.convert_cidr", &["192.0.2.7/24"]);
    assert_eq!(entry(&parts, &["broadcast"]), &"192.0.2.255".into());
    for fun in [
        "network.in_subnet",
        "network.calc_net",
        "network.is_loopback",
        "network.reverse_ip",
    ] {
        let refused = bench.texts(fun, &["10/8"]);
        assert!(text(&refused).contains("10/8"), "{refused:?}");
    }
    assert!(
        !bench
            .texts("network.calc_net", &["192.0.2.7", "255.0.255.0"])
            .success()
    );
    assert!(matches!(call("network.subnets", &[]), Value::List(_)));
    assert!(matches!(
        call("network.default_route", &["inet"]),
        Value::List(_)
    ));
}

#[test]
fn counters_are_those_of_the_kernel() {
    let bench = Bench::new();
    let lo = bench.texts("status.netdev", &[]).value;
    let before = number(entry(&lo, &["lo", "rx_bytes"]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let after = bench.texts("status.netdev", &[]).value;
    assert!(number(entry(&after, &["lo", "rx_bytes"])) > before);
    assert!(
        number(entry(
            &bench.texts("status.vmstats", &[]).value,
            &["pgfault"]
        )) > 0
    );
    let Value::Map(disks) = bench.texts("status.diskstats", &[]).value else {
        panic!("a mapping")
    };
    for (name, disk) in disks {
        assert!(number(entry(&disk, &["reads_issued"])) >= 0, "{name}");
    }
    match crate::system_program::missing_program(&["w"]) {
        None => assert!(matches!(bench.texts("status.w", &[]).value, Value::List(_))),
        Some(_) => eprintln!("skipped: this machine has no w"),
    }
}
