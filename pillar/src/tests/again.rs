//! Files that are reached more than once.

use super::*;

/// Compiles files that are written as one text each, in `base`.
#[track_caller]
fn says(files: &[(&str, &str)], expected: &str) {
    let paths: Vec<String> = files
        .iter()
        .map(|(name, _)| format!("base/{name}.sls"))
        .collect();
    let texts = files.iter().map(|(_, text)| *text);
    let files: Vec<(&str, &str)> = paths.iter().map(String::as_str).zip(texts).collect();
    same(&files, expected);
}

const USERS: (&str, &str) = ("users", "users: {alice: 1}");

#[test]
fn a_file_that_the_top_file_names_counts_also_where_another_includes_it() {
    let web = ("web", "include: [{users: {key: admin}}]");
    for top in ["base: {'*': [web, users]}", "base: {'*': [users, web]}"] {
        says(
            &[("top", top), web, USERS],
            match top.contains("web, users") {
                true => "{admin: {users: {alice: 1}}, users: {alice: 1}}",
                false => "{users: {alice: 1}, admin: {users: {alice: 1}}}",
            },
        );
    }
    // It comes where the top file has it, with what it includes.
    says(
        &[
            ("top", "base: {'*': [a, b]}"),
            ("a", "include: [b]\nx: 3\n"),
            ("b", "include: [{c: {key: k}}]\nx: 2\n"),
            ("c", "c: 1"),
        ],
        "{k: {c: 1}, x: 2}",
    );
    // And without the variables that the one that includes it gives.
    says(
        &[
            ("top", "base: {'*': [a, b]}"),
            ("a", "include: [{b: {defaults: {v: given}}}]\n"),
            ("b", "{{ v|default('none') }}: 1\n"),
        ],
        "{given: 1, none: 1}",
    );
}

#[test]
fn a_file_that_is_included_again_gives_what_it_says_itself() {
    says(
        &[
            ("top", "base: {'*': [web]}"),
            (
                "web",
                "include: [{users: {key: one}}, {users: {key: 'two:x'}}]",
            ),
            USERS,
        ],
        "{one: {users: {alice: 1}}, two: {x: {users: {alice: 1}}}}",
    );
    let common = ("common", "x: 1");
    let web = ("web", "include: [common]\nx: 2\n");
    says(
        &[("top", "base: {'*': [web, common]}"), web, common],
        "x: 1",
    );
    let later = ("later", "include: [common]\n");
    says(
        &[("top", "base: {'*': [web, later]}"), web, later, common],
        "x: 1",
    );
    // The files that it includes have counted already.
    says(
        &[
            ("top", "base: {'*': [web]}"),
            ("web", "include: [{a: {key: k}}, {a: {key: l}}]\n"),
            ("a", "include: [b]\na: 1\n"),
            ("b", "b: 1\n"),
        ],
        "{k: {b: 1, a: 1}, l: {a: 1}}",
    );
    says(
        &[
            ("top", "base: {'*': [a]}"),
            ("a", "include: [{b: {key: k}}]\nx: 3\n"),
            ("b", "\n"),
        ],
        "{x: 3}",
    );
}

#[test]
fn a_circle_under_keys_ends() {
    says(
        &[
            ("top", "base: {'*': [a, b]}"),
            ("a", "include: [{b: {key: k}}, {a: {key: me}}]\na: 1\n"),
            ("b", "include: [{a: {key: l}}]\nb: 1\n"),
        ],
        "{k: {l: {a: 1}, b: 1}, me: {a: 1}, a: 1, l: {a: 1}, b: 1}",
    );
}

#[test]
fn a_file_that_fails_is_told_once() {
    let pillar = compiled(&[
        ("base/top.sls", "base: {'*': [a, b, gone]}"),
        ("base/a.sls", "include: [b, gone]"),
        ("base/b.sls", "k: {{ nothing }}\n"),
    ]);
    assert_eq!(
        pillar.errors,
        [
            "/srv/pillar/b.sls:1:7: `nothing` is undefined, included by a.sls of base",
            "/srv/pillar/a.sls:1:14: base has no file gone.sls and no gone/init.sls"
        ]
    );
}

/// Thirty pairs of files that all include both of the next pair: 2^30 ways lead to the last one.
#[test]
fn files_that_many_include_are_rendered_once() {
    let mut files = vec![("base/top.sls".to_owned(), "base: {'*': [a0]}".to_owned())];
    for number in 0..30 {
        for name in ["a", "b"] {
            let next = number + 1;
            let text = format!("include: [a{next}, b{next}]\n{name}{number}: 1\n");
            files.push((format!("base/{name}{number}.sls"), text));
        }
    }
    for name in ["a30", "b30"] {
        files.push((format!("base/{name}.sls"), format!("{name}: 1\n")));
    }
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let pillar = compiled(&files);
    assert_eq!(pillar.errors, [""; 0]);
    assert_eq!(pillar.entries.len(), 61);
}

#[test]
fn what_files_say_again_is_bounded() {
    let names: Vec<String> = (0..200)
        .map(|number| format!("{{big: {{key: k{number}}}}}"))
        .collect();
    let include = format!("include: [{}]\n", names.join(", "));
    let big = format!("k: {}\n", "x".repeat(500_000));
    let pillar = compiled(&[
        ("base/top.sls", "base: {'*': [a]}"),
        ("base/a.sls", &include),
        ("base/big.sls", &big),
    ]);
    assert_eq!(
        pillar.errors,
        [
            "files that the pillar has already add more than 67108864 bytes to it: include them in fewer places"
        ]
    );
}
