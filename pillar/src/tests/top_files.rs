//! Top files: of several environments, with their options, globs and includes.

use super::*;

#[test]
fn an_environment_has_a_top_file_of_its_own() {
    same(
        &[
            ("base/top.sls", "base: {'*': [a]}\ndev: {'*': [never]}"),
            ("base/a.sls", "a: {{ saltenv }}\n"),
            ("dev/top.sls", "dev: {'*': [a]}\nbase: {'*': [never]}"),
            ("dev/a.sls", "d: {{ saltenv }}\n"),
        ],
        "{a: base, d: dev}",
    );
}

#[test]
fn a_top_file_of_no_environment_is_a_mistake() {
    for (top, expected) in [
        ("", None),
        (
            "- base\n",
            Some("1:1: a top file takes a mapping of environments to targets"),
        ),
        (
            "base:\n  '*': [a]\npord:\n  '*': [a]\n",
            Some("3:1: `pillar_roots` has no environment \"pord\""),
        ),
    ] {
        let pillar = compiled(&[("base/top.sls", top), ("base/a.sls", "a: 1\n")]);
        let expected: Vec<String> = expected
            .map(|why| format!("/srv/pillar/top.sls:{why}"))
            .into_iter()
            .collect();
        assert_eq!(pillar.errors, expected, "{top}");
    }
}

#[test]
fn the_top_files_of_all_environments_count() {
    let files = [
        (
            "base/top.sls",
            "base: {'*': [a]}\ndev: {'web*': [of_base], '*': [never]}",
        ),
        ("base/a.sls", "a: 1\n"),
        ("base/b.sls", "b: 1\n"),
        (
            "dev/top.sls",
            "dev: {'*': [of_dev]}\nbase: {'*': [never], 'w*': [b]}\nprod: {'*': [c]}",
        ),
        ("dev/of_base.sls", "of_base: 1\n"),
        ("dev/of_dev.sls", "of_dev: 1\n"),
        ("prod/c.sls", "c: 1\n"),
    ];
    same(&files, "{a: 1, b: 1, of_base: 1, of_dev: 1, c: 1}");
    let of_env = |pillarenv: &str| {
        let tree = tree(&files);
        with_subject(MergingStrategy::Smart, false, |subject, options| {
            let options = PillarOptions {
                pillarenv: Some(pillarenv),
                ..*options
            };
            compile(subject, &options, &tree)
        })
    };
    let entries = |names: &[&str]| -> Vec<(String, Value)> {
        let names = names.iter();
        names
            .map(|name| ((*name).to_owned(), Value::Int(1)))
            .collect()
    };
    // One environment alone is what its own top file says of it.
    assert_eq!(of_env("dev").entries, entries(&["of_dev"]));
    // It has no top file, and that of the base names nothing of it.
    assert_eq!(of_env("prod"), Pillar::default());
}

#[test]
fn without_any_top_file_it_is_asked_whether_that_is_in_order() {
    let pillar = compiled(&[("base/a.sls", "a: 1"), ("dev/a.sls", "a: 1")]);
    assert_eq!(pillar.errors, ["no top file of base, dev"]);
    let pillar = compiled(&[("base/a.sls", "a: 1"), ("dev/top.sls", "")]);
    assert_eq!(pillar, Pillar::default());
}

#[test]
fn targets_have_an_order() {
    same(
        &[
            (
                "base/top.sls",
                "base:\n  '*': [{order: 10}, a]\n  'w*': [b]\n  'we*': [{order: '-1'}, c, {match: glob}]\n",
            ),
            ("base/a.sls", "k: a"),
            ("base/b.sls", "k: b\nl: b"),
            ("base/c.sls", "k: c\nl: c\nm: c"),
        ],
        "{k: a, l: b, m: c}",
    );
}

#[test]
fn files_may_be_missing_where_the_top_file_says_so() {
    let files = [
        (
            "base/top.sls",
            "base:\n  '*': [{ignore_missing: True}, a, gone, 'gone.*', web]\n  'db*': [{ignore_missing: True}, gone]\n",
        ),
        ("base/a.sls", "a: 1"),
        ("base/web.sls", "include: [lost]"),
    ];
    let pillar = compiled(&files);
    assert_eq!(pillar.entries, [("a".to_owned(), Value::Int(1))]);
    let lost = "/srv/pillar/web.sls:1:11: base has no file lost.sls and no lost/init.sls";
    assert_eq!(pillar.errors, [lost], "what is included has to be there");
    let checked = with_subject(MergingStrategy::Smart, false, |subject, options| {
        check_all(Check::IsThere, subject, options, &tree(&files))
    });
    assert_eq!(checked, [""; 0]);
}

#[test]
fn globs_stand_for_all_files_with_such_names() {
    same(
        &[
            ("base/top.sls", "base: {'*': [app.b, 'app.*', 'web']}"),
            ("base/app/init.sls", "never: 1"),
            ("base/app/a.sls", "k: a"),
            ("base/app/b.sls", "k: b"),
            ("base/app/c/init.sls", "k: c"),
            ("base/app/c/d.sls", "k: d"),
            ("base/web/init.sls", "include: ['.t?s', '[x-z]']"),
            ("base/web/tls.sls", "tls: 1"),
            ("base/x.sls", "x: 1"),
        ],
        "{k: d, tls: 1, x: 1}",
    );
    // Each counts where it is reached, as in Salt; a name counts once.
    for (named, expected) in [
        ("[a, b, a]", "{k: b}"),
        ("[a, b, 'a*']", "{k: a}"),
        ("['a*', b, a]", "{k: a}"),
        ("['a*', b, 'a*']", "{k: b}"),
        ("['a*', b, '?']", "{k: b}"),
    ] {
        let top = format!("base: {{'*': {named}}}");
        let files = [
            ("base/top.sls", top.as_str()),
            ("base/a.sls", "k: a"),
            ("base/b.sls", "k: b"),
        ];
        same(&files, expected);
    }
    let pillar = compiled(&[("base/top.sls", "base:\n  '*':\n    - app.*\n")]);
    let none = "/srv/pillar/top.sls:3:7: base has no file with a name like \"app.*\"";
    assert_eq!(pillar.errors, [none]);
}

#[test]
fn a_top_file_includes_others() {
    same(
        &[
            (
                "base/top.sls",
                "include: [tops.web]\nbase: {'*': [a], 'w*': [never]}",
            ),
            (
                "base/tops/web.sls",
                "include: [top, tops.web, tops.db]\nbase: {'w*': [b]}",
            ),
            ("base/tops/db.sls", "dev: {'*': [c]}"),
            ("base/a.sls", "a: 1"),
            ("base/b.sls", "b: 1"),
            ("dev/c.sls", "c: 1"),
        ],
        "{a: 1, b: 1, c: 1}",
    );
    for (top, expected) in [
        ("include: tops\n", "1:1: `include` takes a list of files"),
        (
            "include:\n  - 5\n",
            "2:5: the `include` of a top file takes names of top files",
        ),
        (
            "include:\n  - gone\n",
            "2:5: base has no file gone.sls and no gone/init.sls",
        ),
    ] {
        let pillar = compiled(&[("base/top.sls", top)]);
        assert_eq!(pillar.errors, [format!("/srv/pillar/top.sls:{expected}")]);
    }
}

#[test]
fn options_of_a_target_are_told_by_their_names() {
    for (option, expected) in [
        (
            "ordr: 1",
            "`ordr` is unknown: beside names of files there are `match`, `order` and `ignore_missing`",
        ),
        ("order: first", "`order` takes a whole number"),
        ("ignore_missing: 1", "`ignore_missing` takes True or False"),
        ("match: 1", "`match` takes the name of a kind of target"),
    ] {
        let top = format!("base:\n  '*':\n    - {option}\n    - a\n");
        let pillar = compiled(&[("base/top.sls", &top), ("base/a.sls", "a: 1")]);
        let expected = format!("/srv/pillar/top.sls:3:7: the target \"*\": {expected}");
        assert_eq!(pillar.errors, [expected]);
    }
}

#[test]
fn files_may_be_named_with_slashes() {
    let files = [
        (
            "base/top.sls",
            "include: [tops/more]\nbase: {'*': [d/x, d.x, d/e/*]}",
        ),
        ("base/tops/more.sls", "base: {'web*': [w/a]}"),
        ("base/d/x.sls", "x: {{ sls }}\n"),
        ("base/d/e/f.sls", "f: {{ sls }}\n"),
        ("base/w/a.sls", "include: [d/g, .b/c]\n"),
        ("base/w/b/c.sls", "c: {{ sls }}\n"),
        ("base/d/g/init.sls", "g: {{ sls }}\n"),
    ];
    same(&files, "{x: d.x, f: d.e.f, g: d.g, c: w.b.c}");
}

#[test]
fn no_name_with_slashes_leads_out_of_the_roots() {
    for name in [
        "/d/x", "d/../d/x", "../x", "./x", "d//x", "d/", "d/./x", "d/..x", "d../x", "..", r"d\x",
    ] {
        for (top, a) in [
            (format!("base: {{'*': ['{name}']}}"), String::new()),
            (
                "base: {'*': [a]}".to_owned(),
                format!("include: ['{name}']\n"),
            ),
        ] {
            let files = [
                ("base/top.sls", top.as_str()),
                ("base/a.sls", &a),
                ("base/d/x.sls", "x: 1\n"),
                ("base/x.sls", "x: 1\n"),
            ];
            let pillar = compiled(&files);
            assert_eq!(pillar.entries, [], "{name}");
            assert_eq!(pillar.errors.len(), 1, "{name}: {:?}", pillar.errors);
            // The one of an include is told from the roots on.
            let told = format!("{name:?} cannot be the name of a file");
            assert!(!a.is_empty() || pillar.errors[0].contains(&told), "{told}");
        }
    }
}
