use proptest::prelude::*;
use saline_data::Value;
use saline_functions::FromValue;

use super::asked::{Files, PackageName, Packages, Release, Version};
use super::changes::between;
use super::dpkg::Listing;
use super::output::{candidates, owner, repositories, simulated, telling_lines};

const DPKG: &str = "dpkg\tamd64\t1.21\tinstall\tinstalled\n";

fn listing(lines: &str) -> Listing {
    Listing::parse(&format!("{DPKG}{lines}")).unwrap()
}

#[test]
fn names_that_apt_would_not_take_for_names_are_refused() {
    for good in [
        "nginx",
        "g++",
        "libstdc++6",
        "0ad",
        "python3.11",
        "libc6:i386",
        "foo:any",
    ] {
        assert!(PackageName::parse(good).is_some(), "{good}");
    }
    for bad in [
        "",
        "-y",
        "--force-yes",
        "a",
        "foo-",
        "Foo",
        "foo=1",
        "foo/stable",
        "./foo",
        "foo bar",
        "foo\n",
        "foo*",
        "foo:",
        "foo:-o",
        "foo:a:b",
        "^foo",
        "?installed",
        "~n",
        "é1",
    ] {
        assert!(PackageName::parse(bad).is_none(), "{bad}");
    }
    let refused = |value: Value| Packages::from_value(value).is_err();
    assert!(refused(Value::from("foo,-y")));
    assert!(refused(Value::texts(["foo", "-oDPkg::Pre-Invoke::=sh"])));
    assert!(refused(Value::List(vec![Value::map([(
        "foo",
        Value::from("1 -y")
    )])])));
    assert!(Version::from_value(Value::from("-1")).is_err());
    // 1.10 of a command line, which is 1.1 as a number.
    assert!(Version::from_value(Value::Float(1.1)).is_err());
    assert!(Release::from_value(Value::from("-o")).is_err());
    for bad in ["foo.deb", "-o.deb", "/tmp/foo"] {
        assert!(Files::from_value(Value::texts([bad])).is_err(), "{bad}");
    }
}

#[test]
fn packages_are_read_from_each_form_of_an_operator() {
    let targets = |value| {
        Packages::from_value(value)
            .unwrap()
            .targets()
            .collect::<Vec<_>>()
    };
    assert_eq!(targets(Value::from("foo, bar")), ["foo", "bar"]);
    let versions = Value::map([("bar", Value::from("1.50")), ("baz", Value::Null)]);
    assert_eq!(
        targets(Value::List(vec![Value::from("foo"), versions])),
        ["foo", "bar=1.50", "baz"]
    );
}

#[test]
fn packages_of_another_architecture_have_it_in_their_names() {
    let known = listing(
        "libc6\tamd64\t2\tinstall\tinstalled\n\
         libc6\ti386\t2\thold\tinstalled\n\
         gone\tall\t3\tdeinstall\tconfig-files\n\
         half\tall\t4\tinstall\thalf-configured\n\
         never\tall\t\tunknown\tnot-installed\n",
    );
    let installed: Vec<_> = known.packages(true).collect();
    assert_eq!(
        installed,
        [
            ("dpkg", "1.21"),
            ("half", "4"),
            ("libc6", "2"),
            ("libc6:i386", "2")
        ]
    );
    assert_eq!(known.packages(false).collect::<Vec<_>>(), [("gone", "3")]);
    assert_eq!(known.held().collect::<Vec<_>>(), ["libc6:i386"]);
    assert_eq!(known.version(&"libc6:amd64"), Some("2"));
    assert!(!known.is_installed(&"gone") && known.is_known(&"gone"));
    assert!(!known.is_known(&"never"));
    assert!(Listing::parse("dpkg-query: warning\n").is_err());
}

#[test]
fn a_simulation_tells_what_would_change() {
    let before =
        listing("old\tall\t1\tinstall\tinstalled\ngone\tall\t3\tdeinstall\tconfig-files\n");
    let text = "NOTE: This is only a simulation!\n\
        Inst new (2:2.0-1 Debian:12.1/stable, Debian-Security [amd64])\n\
        Inst old [1] (1.1 localhost [all]) []\n\
        Inst gone (3 localhost [all])\n\
        Remv dpkg [1.21] [new:amd64 ]\n\
        Conf new (2:2.0-1 Debian:12.1/stable [amd64])\n";
    insta::assert_snapshot!(shown(&Value::from(simulated(text, &before))), @r#"
    {
      "dpkg": {
        "new": "",
        "old": "1.21"
      },
      "gone": {
        "new": "3",
        "old": ""
      },
      "new": {
        "new": "2:2.0-1",
        "old": ""
      },
      "old": {
        "new": "1.1",
        "old": "1"
      }
    }
    "#);
    let upgrades = simulated(text, &before).upgrades();
    assert_eq!(upgrades, Value::map([("old", Value::from("1.1"))]));
    // The configuration files of a package that was removed before.
    let purged = simulated("Purg gone\n", &before);
    assert_eq!(
        purged,
        between(&before, &listing("old\tall\t1\tinstall\tinstalled\n"), true)
    );
}

/// Returns a value as JSON.
fn shown(value: &Value) -> String {
    String::from_utf8(saline_data::json::pretty(value, Some(2))).unwrap()
}

#[test]
fn what_apt_prints_for_people_is_read() {
    let fetched = repositories(
        "Hit:1 http://deb.debian.org/debian bookworm InRelease\n\
         Get:2 http://deb.debian.org/debian-security bookworm-security InRelease [48.0 kB]\n\
         Ign:3 file:/repo ./ InRelease\n\
         Err:3 file:/repo ./ Release\n  File not found\n\
         Reading package lists...\nE: The repository has no Release file.\n",
    );
    insta::assert_snapshot!(shown(&Value::Map(fetched)), @r#"
    {
      "file:/repo ./ InRelease": null,
      "file:/repo ./ Release": false,
      "http://deb.debian.org/debian bookworm InRelease": null,
      "http://deb.debian.org/debian-security bookworm-security InRelease": true
    }
    "#);
    assert_eq!(
        owner(
            "diversion by dash from: /bin/sh\ndash, bash: /bin/sh\n",
            "/bin/sh"
        ),
        Some("dash, bash")
    );
    assert_eq!(owner("foo: /bin/sh2\n", "/bin/sh"), None);
    let many: String = (0..50).map(|n| format!("line {n}\n\n")).collect();
    let last = telling_lines(&many);
    assert_eq!((last.len(), last[0]), (20, "line 30"));
    let with_error = format!("dpkg: error processing package a (--configure):\n{many}");
    let told = telling_lines(&with_error);
    assert_eq!(
        (told.len(), told[0]),
        (21, "dpkg: error processing package a (--configure):")
    );
    let failed = "Reading package lists...\nBuilding dependency tree...\nReading state information...\n\
                  0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n\
                  W: The list is old.\nE: Unable to locate package nosuch\n";
    let told = ["W: The list is old.", "E: Unable to locate package nosuch"];
    assert_eq!(telling_lines(failed), told);
    // A command that says nothing else is not silent.
    let only_progress = "Reading package lists...\n";
    assert_eq!(telling_lines(only_progress), ["Reading package lists..."]);
    let record =
        "Package: a\nVersion: 1\nDescription: x\n Version: 9\nArchitecture: all\n\nPackage: b\n\n";
    let read = candidates(record);
    assert_eq!(read, [("a".to_owned(), "all".to_owned(), "1".to_owned())]);
}

proptest! {
    #[test]
    fn nothing_that_programs_print_makes_the_readers_panic(text in "([A-Z][a-z]{2}[a-z:0-9 ]{0,3}|[ \t\\[\\]():,/a-z0-9.\n-]){0,80}") {
        let before = listing("");
        let _ = Listing::parse(&text);
        let _ = simulated(&text, &before);
        let _ = repositories(&text);
        let _ = candidates(&text);
        let _ = owner(&text, "/a");
        let _ = telling_lines(&text);
    }

    #[test]
    fn no_accepted_name_can_be_an_option_or_a_removal(text in ".{0,12}") {
        if let Some(name) = PackageName::parse(&text) {
            prop_assert!(!name.as_str().starts_with('-') && !name.as_str().ends_with('-'));
            prop_assert!(!name.as_str().contains([' ', '/', '=', '*', '\n', '\0']));
        }
    }

    #[test]
    fn a_listing_has_each_package_that_was_printed(packages in proptest::collection::btree_map("[a-z]{2,6}x", "[0-9.]{1,5}", 0..20)) {
        let lines: String = packages.iter().map(|(name, version)| format!("{name}\tall\t{version}\tinstall\tinstalled\n")).collect();
        let read = listing(&lines);
        for (name, version) in &packages {
            prop_assert_eq!(read.version(name), Some(version.as_str()));
        }
        prop_assert_eq!(read.packages(true).count(), packages.len() + 1);
    }
}
