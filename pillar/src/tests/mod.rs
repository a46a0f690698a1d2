//! Pillars of trees in memory.

use std::collections::HashMap;
use std::sync::Arc;

use saline_data::{Packed, Value, yaml};
use saline_render::{File, Files, Place, RenderError, Renderer, Request, Step};
use saline_targeting::{Assignment, Assignments, Attribute, Nodegroups, PackedGrains};

use super::*;

mod again;
mod top_files;

struct Tree(HashMap<String, HashMap<String, String>>);

struct Environment(HashMap<String, String>);

impl Files for Environment {
    fn read(&self, name: &str) -> Result<Option<File>, String> {
        let text = self.0.get(name);
        Ok(text.map(|text| File {
            path: format!("/srv/pillar/{name}"),
            text: text.clone(),
        }))
    }
}

impl Tree {
    fn files(&self, environment: &str) -> Arc<dyn Files> {
        Arc::new(Environment(self.0[environment].clone()))
    }
}

impl Environments for Tree {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn has(&self, environment: &str, name: &str) -> Result<bool, String> {
        let files = self.0.get(environment);
        Ok(files.is_some_and(|files| files.contains_key(name)))
    }

    fn has_top(&self, environment: &str) -> Result<bool, String> {
        self.has(environment, "top.sls")
    }

    fn without_top(&self, environments: &[&str]) -> Option<String> {
        Some(format!("no top file of {}", environments.join(", ")))
    }

    fn sls_names(&self, environment: &str) -> Result<Vec<String>, String> {
        let files = self.0.get(environment).into_iter().flatten();
        let names = files.filter_map(|(name, _)| name.strip_suffix(".sls"));
        let names = names.map(|name| name.strip_suffix("/init").unwrap_or(name));
        let mut names: Vec<String> = names.map(|name| name.replace('/', ".")).collect();
        names.retain(|name| name != "top");
        names.sort();
        Ok(names)
    }

    fn path_of(&self, environment: &str, name: &str) -> Option<String> {
        let there = self.has(environment, name) == Ok(true);
        there.then(|| format!("/srv/pillar/{name}"))
    }

    fn text_of(&self, environment: &str, name: &str) -> Option<String> {
        self.0.get(environment)?.get(name).cloned()
    }

    fn render(&self, environment: &str, request: &Request) -> Result<Value, RenderError> {
        Renderer::new().render(&self.files(environment), request)
    }

    fn place_of(&self, environment: &str, request: &Request, part: &[Step]) -> Option<Place> {
        Renderer::new().place_of(&self.files(environment), request, part)
    }
}

/// Returns a tree of files that are called `environment/name`.
fn tree(files: &[(&str, &str)]) -> Tree {
    let mut tree = HashMap::<String, HashMap<String, String>>::new();
    for (path, text) in files {
        let (environment, name) = path.split_once('/').unwrap();
        let files = tree.entry(environment.to_owned()).or_default();
        files.insert(name.to_owned(), (*text).to_owned());
    }
    Tree(tree)
}

fn compiled_with(strategy: MergingStrategy, merge_lists: bool, tree: &Tree) -> Pillar {
    with_subject(strategy, merge_lists, |subject, options| {
        compile(subject, options, tree)
    })
}

/// Runs `work` about the minion web1.
fn with_subject<T>(
    strategy: MergingStrategy,
    merge_lists: bool,
    work: impl FnOnce(Subject<'_>, &PillarOptions<'_>) -> T,
) -> T {
    let grains = yaml::parse("{os: Debian, roles: [web]}").unwrap();
    let grains = PackedGrains::read(&Packed::pack(&grains)).unwrap();
    let attribute = Attribute {
        value: Value::from("berlin"),
        place: "a:1:1".to_owned(),
    };
    let assignments = Assignments::new(vec![Assignment {
        glob: "web*".to_owned(),
        place: "a:1:1".to_owned(),
        roles: ["web".to_owned()].into(),
        attributes: [("site".to_owned(), attribute)].into(),
    }])
    .unwrap();
    let subject = Subject {
        id: "web1",
        grains: Some(&grains),
        assigned: &assignments.of("web1").unwrap(),
    };
    let options = PillarOptions {
        strategy,
        merge_lists,
        base: "base",
        nodegroups: &Nodegroups::default(),
        assignments: &assignments,
        trusted_grains: &["os".to_owned()].into(),
        saltenv: None,
        pillarenv: None,
    };
    work(subject, &options)
}

fn compiled(files: &[(&str, &str)]) -> Pillar {
    compiled_with(MergingStrategy::Smart, false, &tree(files))
}

#[track_caller]
fn same(files: &[(&str, &str)], expected: &str) {
    let pillar = compiled(files);
    assert_eq!(pillar.errors, [""; 0]);
    assert_eq!(Value::Map(pillar.entries), yaml::parse(expected).unwrap());
}

#[test]
fn a_minion_gets_the_files_of_the_targets_that_include_it() {
    let top = "base:\n  '*':\n    - common\n  'web* and G@os:Debian':\n    - web\n  'db*':\n    - db\n  'os:Debian':\n    - match: grain\n    - debian\n  'A@site:berlin':\n    - berlin\n  web1,web2:\n    - match: list\n    - common\n    - listed\n";
    same(
        &[
            ("base/top.sls", top),
            ("base/common.sls", "a: {b: 1, c: [1]}"),
            ("base/web/init.sls", "a: {b: 2, d: {{ grains.id }}}"),
            ("base/db.sls", "secret: 1"),
            ("base/debian.sls", "os: {{ grains.os }}"),
            ("base/berlin.sls", "site: {{ assigned.site }}"),
            ("base/listed.sls", "a: {c: [2]}\nlisted: true"),
        ],
        "{a: {b: 2, c: [2], d: web1}, os: Debian, site: berlin, listed: true}",
    );
}

#[test]
fn files_include_others_under_keys_and_with_defaults() {
    same(
        &[
            ("base/top.sls", "base: {'*': [web, more]}"),
            (
                "base/web/init.sls",
                "include:\n  - common\n  - .ports:\n      key: net:ports\n      defaults:\n        first: 80\n  - web.deep.x\na: 3\n",
            ),
            ("base/common.sls", "include: [more]\na: 1\nb: 1\n"),
            ("base/more.sls", "m: 1\n"),
            ("base/web/ports.sls", "http: {{ first }}\n"),
            ("base/web/deep/x.sls", "include: [..ports, .y]\n"),
            ("base/web/deep/y.sls", "y: 1\n"),
        ],
        "{m: 1, a: 3, b: 1, net: {ports: {http: 80}}, http: 80, y: 1}",
    );
}

#[test]
fn templates_know_their_places_by_salts_variables() {
    let template = "{{ sls }}: [{{ slspath }}, {{ slsdotpath }}, {{ slscolonpath }}, {{ sls_path }}, {{ tplpath }}, {{ tplfile }}, {{ tpldir }}, {{ tpldot }}]\n";
    same(
        &[
            ("base/top.sls", "base: {'*': [a, t.c29, t, t.u.v]}"),
            ("base/a.sls", template),
            ("base/t/c29.sls", template),
            ("base/t/init.sls", template),
            ("base/t/u/v.sls", template),
        ],
        "a: ['', '', '', '', /srv/pillar/a.sls, a.sls, ., '']\n\
         t.c29: [t, t, t, t, /srv/pillar/t/c29.sls, t/c29.sls, t, t]\n\
         t: [t, t, t, t, /srv/pillar/t/init.sls, t/init.sls, t, t]\n\
         t.u.v: [t/u, t.u, 't:u', t_u, /srv/pillar/t/u/v.sls, t/u/v.sls, t/u, t.u]\n",
    );
}

#[test]
fn includes_in_a_circle_end() {
    same(
        &[
            ("base/top.sls", "base: {'*': [a]}"),
            ("base/a.sls", "include: [b]\na: 1\n"),
            ("base/b.sls", "include: [a, b]\nb: 1\n"),
        ],
        "{a: 1, b: 1}",
    );
}

#[test]
fn strategies_merge_as_they_say() {
    let files = tree(&[
        ("base/top.sls", "base: {'*': [a, b]}\ndev: {'*': [c]}"),
        ("base/a.sls", "k: {x: 1, l: [1]}\n"),
        ("base/b.sls", "k: {y: 2, l: [2, 1]}\n"),
        ("dev/c.sls", "dev: 1\n"),
    ]);
    for (strategy, merge_lists, expected) in [
        (
            MergingStrategy::Smart,
            false,
            "{k: {x: 1, l: [2, 1], y: 2}, dev: 1}",
        ),
        (
            MergingStrategy::Recurse,
            true,
            "{k: {x: 1, l: [1, 2], y: 2}, dev: 1}",
        ),
        (
            MergingStrategy::Overwrite,
            false,
            "{k: {y: 2, l: [2, 1]}, dev: 1}",
        ),
        (MergingStrategy::None, false, "{k: {x: 1, l: [2, 1], y: 2}}"),
        (MergingStrategy::None, true, "{k: {x: 1, l: [2, 1], y: 2}}"),
    ] {
        let pillar = compiled_with(strategy, merge_lists, &files);
        assert_eq!(pillar.errors, [""; 0]);
        let expected = yaml::parse(expected).unwrap();
        assert_eq!(Value::Map(pillar.entries), expected, "{strategy:?}");
    }
}

#[test]
fn mistakes_are_told_with_their_places() {
    let pillar = compiled(&[
        (
            "base/top.sls",
            "base:\n  '*': [a, none, ../b, list, web]\n  'x and': [a]\n  '*y': 1\n  z:\n    - match: q\n  'G@roles:web': [a]\n  'not G@roles:db': [a]\n  'web* or I@role:web': [a]\n",
        ),
        ("base/a.sls", "k: {{ nothing }}\n"),
        ("base/list.sls", "include: a\nl: 1\n"),
        ("base/web/init.sls", "include: [.tls]\n"),
        ("base/web/tls.sls", "include: [gone, 5, ../x]\n"),
    ]);
    let told = pillar.errors.join("\n");
    for line in [
        "/srv/pillar/top.sls:3:3: the target \"x and\": ",
        "/srv/pillar/top.sls:4:3: the target \"*y\": takes a list of files",
        "/srv/pillar/top.sls:6:7: the target \"z\": `match: q` names no kind of target",
        "/srv/pillar/top.sls:7:3: the target \"G@roles:web\": it looks at grains that are not in `trusted_grains`",
        "/srv/pillar/top.sls:8:3: the target \"not G@roles:db\": it looks at grains that are not in `trusted_grains`",
        "/srv/pillar/top.sls:9:3: the target \"web* or I@role:web\": it looks at pillars (I@, J@), on which no pillar can depend",
        "/srv/pillar/a.sls:1:7: `nothing` is undefined\n",
        "/srv/pillar/top.sls:2:12: base has no file none.sls and no none/init.sls\n",
        "/srv/pillar/top.sls:2:18: \"../b\" cannot be the name of a file",
        "/srv/pillar/list.sls:1:1: `include` takes a list of files\n",
        "/srv/pillar/web/tls.sls:1:11: base has no file gone.sls and no gone/init.sls, included by web/init.sls of base\n",
        "/srv/pillar/web/tls.sls:1:17: `include` takes names of files, and mappings of a name to `key` and `defaults`, included by web/init.sls of base\n",
        "/srv/pillar/web/tls.sls:1:20: \"/x\" cannot be the name of a file: `web.ports` is web/ports.sls, included by web/init.sls of base",
    ] {
        assert!(told.contains(line), "{line}\nis not in\n{told}");
    }
    assert_eq!(pillar.entries, [("l".to_owned(), Value::Int(1))]);
}

#[test]
fn files_are_checked_for_all_targets_and_each_by_itself() {
    let tree = tree(&[
        (
            "base/top.sls",
            "base:\n  '*': [one, two]\n  db1: [db, gone]\n",
        ),
        (
            "base/one.sls",
            "include:\n  - two:\n      defaults: {x: 1}\n",
        ),
        ("base/two.sls", "two: {{ x }}\n"),
        ("base/db.sls", "include: [missing]\n"),
        ("base/left/over.sls", "a: {{ b }}\n"),
        ("base/left/whole.sls", "include: [.part]\n"),
        ("base/left/part.sls", "c: 1\n"),
    ]);
    let left_over = "/srv/pillar/left/over.sls:1:7: `b` is undefined";
    let check = |check| {
        with_subject(MergingStrategy::Smart, false, |subject, options| {
            check_all(check, subject, options, &tree)
        })
    };
    let gone = "/srv/pillar/top.sls:3:13: base has no file gone.sls and no gone/init.sls";
    assert_eq!(check(Check::IsThere), [gone, left_over]);
    assert_eq!(
        check(Check::Renders),
        [
            "/srv/pillar/two.sls:1:9: `x` is undefined",
            "/srv/pillar/db.sls:1:11: base has no file missing.sls and no missing/init.sls",
            gone,
            left_over,
        ]
    );
}

#[test]
fn what_is_reached_from_a_top_file_is_not_checked_by_itself() {
    let tree = tree(&[
        ("base/top.sls", "include: [tops.more]\nbase: {db1: [a]}\n"),
        (
            "base/tops/more.sls",
            "include: [none]\n{{ 'base' }}: {'*': [b]}\n",
        ),
        ("base/a.sls", "include:\n  - x:\n      defaults: {y: 1}\n"),
        ("base/x.sls", "x: {{ y }}\n"),
        ("base/b.sls", ""),
        ("dev/c.sls", "include: ['.d']\n"),
    ]);
    let checked = with_subject(MergingStrategy::Smart, false, |subject, options| {
        check_all(Check::IsThere, subject, options, &tree)
    });
    assert_eq!(
        checked,
        [
            "/srv/pillar/tops/more.sls:1:11: base has no file none.sls and no none/init.sls",
            "/srv/pillar/c.sls:1:11: dev has no file d.sls and no d/init.sls"
        ]
    );
}

#[test]
fn what_a_file_lacks_that_an_include_gives_is_not_told() {
    let port = "port: {{ port }}\n";
    let tree = tree(&[
        ("base/top.sls", "base: {db1: [a]}\n"),
        (
            "base/a.sls",
            "{% if false %}\ninclude:\n  - b.block:\n      key: x\n      defaults:\n{# a: b #}\n        port: {{ 1 }}\n  - other\n{% endif %}\n",
        ),
        ("base/other.sls", ""),
        ("base/b/block.sls", port),
        (
            "base/b/both.sls",
            "host: {{ host.name }}\nport: {{ port }}\n",
        ),
        ("base/b/expression/http.sls", port),
        ("base/b/flow/init.sls", port),
        (
            "base/b/init.sls",
            "{% if false %}include: [.flow: {defaults: {port: 1}}]{% endif %}\n",
        ),
        ("base/b/none.sls", port),
        (
            "base/c.sls",
            "{% for x in [] %}\ninclude:\n  - b/expression.{{ x }}: {defaults: {port: 1}}\n  - b.both:\n      defaults: {host: {}}\n{% endfor %}\nx: 'b.none has no defaults'\n",
        ),
        ("base/d.sls", "include: [b.block]\n"),
    ]);
    let checked = with_subject(MergingStrategy::Smart, false, |subject, options| {
        check_all(Check::IsThere, subject, options, &tree)
    });
    assert_eq!(
        checked,
        [
            "/srv/pillar/b/none.sls:1:10: `port` is undefined",
            "/srv/pillar/b/block.sls:1:10: `port` is undefined, included by d.sls of base",
        ]
    );
}

#[test]
fn a_file_that_is_no_mapping_is_told_with_its_place() {
    let pillar = compiled(&[
        ("base/top.sls", "base: {'*': [a]}"),
        ("base/a.sls", "include: [b]\n"),
        ("base/b.sls", "\n- {{ minion_id }}\n"),
    ]);
    assert_eq!(
        pillar.errors,
        ["/srv/pillar/b.sls:2:1: a file of a pillar is a mapping, included by a.sls of base"]
    );
}

#[test]
fn a_grain_that_is_not_among_the_trusted_ones_is_not_there() {
    let hint = ": in a pillar a grain counts once the master's `trusted_grains` lists it";
    for (template, expected, is_hinted) in [
        ("k: {{ grains.hostname }}", "1:7: `grains.hostname`", true),
        (
            "k: {{ grains['hostname'] }}",
            "1:7: `grains['hostname']`",
            true,
        ),
        (
            "{% for x in grains.ips %}{% endfor %}",
            "1:13: `grains.ips`",
            true,
        ),
        // It is believed, and has no such part.
        ("k: {{ grains.os.name }}", "1:7: `grains.os.name`", false),
        ("k: {{ hostname }}", "1:7: `hostname`", false),
    ] {
        let pillar = compiled(&[
            ("base/top.sls", "base: {'*': [a]}"),
            ("base/a.sls", template),
        ]);
        let hint = if is_hinted { hint } else { "" };
        let error = format!("/srv/pillar/a.sls:{expected} is undefined{hint}");
        assert_eq!(pillar.errors, [error]);
        assert_eq!(pillar.entries, []);
    }
}
