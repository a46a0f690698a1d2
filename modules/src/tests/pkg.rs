//! What `pkg` tells of the packages of this machine, beside what dpkg itself prints.

use std::fs;
use std::process::Command;

use super::own_namespace::is_inside_at;
use super::*;

fn printed(words: &[&str]) -> String {
    let end = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(end.status.success(), "{words:?}: {end:?}");
    String::from_utf8(end.stdout).unwrap()
}

fn has_dpkg() -> bool {
    let has = std::path::Path::new("/usr/bin/dpkg-query").exists();
    if !has {
        eprintln!("skipped: this machine has no dpkg");
    }
    has
}

#[test]
fn packages_have_the_fields_that_dpkg_has() {
    if !has_dpkg() {
        return;
    }
    let bench = Bench::new();
    let one = bench.texts("pkg.info_installed", &["dpkg"]).value;
    let dpkg = one.get("dpkg").unwrap();
    let format = "${Version}|${Architecture}|${Maintainer}|${Section}|${db-fsys:Last-Modified}";
    let shown = printed(&["dpkg-query", "-W", "-f", format, "dpkg"]);
    let names = [
        "version",
        "arch",
        "packager",
        "group",
        "install_date_time_t",
    ];
    let told = names.map(|name| match dpkg.get(name) {
        Some(Value::Int(number)) => number.to_string(),
        Some(other) => other.as_str().unwrap().to_owned(),
        None => String::new(),
    });
    assert_eq!(told.join("|"), shown);

    let all = bench.texts("pkg.info_installed", &[]).value;
    let Value::Map(all) = all else {
        panic!("{all:?}")
    };
    let listed = bench.texts("pkg.list_pkgs", &[]).value;
    let Value::Map(listed) = listed else {
        panic!("{listed:?}")
    };
    let names = |entries: &[(String, Value)]| {
        let names = entries.iter().map(|(name, _)| name.clone());
        names.collect::<Vec<String>>()
    };
    assert_eq!(names(&all), names(&listed));

    let attr = [("attr", Value::from("version,name"))];
    let few = bench
        .call("pkg.info_installed", &["dpkg".into()], &attr)
        .value;
    let Some(Value::Map(few)) = few.get("dpkg") else {
        panic!("{few:?}")
    };
    assert_eq!(names(few), ["name", "version"]);
    let missing = ["saline-none".into(), "dpkg".into()];
    assert_eq!(bench.call("pkg.info_installed", &missing, &[]).retcode, 1);
    let named = [("failhard", false.into())];
    let some = bench.call("pkg.info_installed", &missing, &named).value;
    assert!(some.get("dpkg").is_some() && some.get("saline-none").is_none());
}

#[test]
fn selections_are_those_of_dpkg() {
    if !has_dpkg() {
        return;
    }
    let bench = Bench::new();
    let all = bench.texts("pkg.get_selections", &[]).value;
    let Value::Map(states) = &all else {
        panic!("{all:?}")
    };
    let mut lines = Vec::new();
    for (state, names) in states {
        let Value::List(names) = names else {
            panic!("{names:?}")
        };
        let of_state = names.iter().map(|name| name.as_str().unwrap());
        lines.extend(of_state.map(|name| format!("{name} {state}")));
    }
    let shown = printed(&["dpkg", "--get-selections"]);
    let words = shown.lines().map(|line| line.split_whitespace());
    let mut shown: Vec<String> = words
        .map(|words| words.collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort();
    shown.sort();
    assert_eq!(lines, shown);
    let named = [("state", "install".into())];
    let some = bench.call("pkg.get_selections", &["dpkg -x".into()], &named);
    assert_eq!(
        some.value,
        Value::map([("install", Value::texts(["dpkg"]))]),
        "{some:?}"
    );
}

#[test]
fn repositories_are_those_that_apt_reads() {
    if !has_dpkg() || !is_inside_at("pkg", "repositories_are_those_that_apt_reads") {
        return;
    }
    fs::remove_dir_all("/etc/apt/sources.list.d").unwrap();
    fs::create_dir("/etc/apt/sources.list.d").unwrap();
    let lines = "deb [arch=amd64,i386] http://one.example/debian stable main contrib # usual\n#deb http://off.example/ x main\n";
    fs::write("/etc/apt/sources.list", lines).unwrap();
    let block = "Types: deb deb-src\nURIs: http://two.example/debian\nSuites: stable stable-updates\nComponents: main\n";
    fs::write("/etc/apt/sources.list.d/two.sources", block).unwrap();
    let bench = Bench::new();
    let told = bench.texts("pkg.list_repos", &[]).value;
    let Value::Map(repositories) = &told else {
        panic!("{told:?}")
    };
    let mut indexes = Vec::new();
    for (uri, entries) in repositories {
        let Value::List(entries) = entries else {
            panic!("{entries:?}")
        };
        for entry in entries {
            let get = |name: &str| entry.get(name).and_then(Value::as_str).unwrap();
            assert_eq!(get("uri"), uri);
            if entry.get("disabled") == Some(&Value::Bool(true)) {
                continue;
            }
            let Some(Value::List(components)) = entry.get("comps") else {
                panic!("{entry:?}")
            };
            for component in components {
                let (dist, component) = (get("dist"), component.as_str().unwrap());
                indexes.push(format!("{uri} {dist} {component} {}", get("type")));
            }
        }
    }
    indexes.sort();
    // What apt itself would fetch.
    let mut shown: Vec<String> = printed(&["apt-get", "update", "--print-uris"])
        .lines()
        .filter_map(|line| {
            let (uri, path) = line.trim_start_matches('\'').split_once("/dists/")?;
            let mut parts = path.split('/');
            let (dist, component, of) = (parts.next()?, parts.next()?, parts.next()?);
            let kind = match of {
                "source" => "deb-src",
                of if of.starts_with("binary-") => "deb",
                _ => return None,
            };
            Some(format!("{uri} {dist} {component} {kind}"))
        })
        .collect();
    shown.sort();
    shown.dedup();
    assert_eq!(indexes, shown);
}
