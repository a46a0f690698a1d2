//! What an operator is told of mistakes, and what ends templates that do not end.

use super::*;

fn tree_error(files: &[(&str, &str)]) -> String {
    let rendered = render_tree(files, Document::Pillar, Value::Map(Vec::new()));
    rendered.unwrap_err().to_string()
}

#[test]
fn a_mistake_is_told_with_its_file_line_and_column() {
    for (template, expected) in [
        ("a: 1\nb: {{ nothing }}\n", "2:7: `nothing` is undefined"),
        (
            "a: 1\nb: {{ x. }}\n",
            "2:10: syntax error: unexpected end of variable block, expected identifier",
        ),
        (
            "a: 1\n\n{% if x %}\n",
            "3:9: syntax error: unexpected end of input, expected end of block",
        ),
        ("{% set x = 1 %}\na: [1\n", "2:4: unclosed bracket '['"),
        ("{% set x = 1 %}\na: b: c\n", "2:"),
        (
            "{% set x = 1 %}\na: 1\n{# b #}a: 2\n",
            "3:8: \"a\" occurs twice, first in line 2",
        ),
        (
            "{{ 1 }}: 1\nb: {{ 'x'|nofilter }}\n",
            "2:11: unknown filter: filter nofilter is unknown",
        ),
        (
            "b: {{ salt['cmd.run']('id') }}\n",
            "1:11: cmd.run is not there in templates, which call config.get, grains.filter_by, grains.get, pillar.get",
        ),
        (
            "#!py\ndef run(): pass\n",
            "1:1: the renderer \"py\" is absent",
        ),
        ("#!yaml|gpg\na: 1\n", "1:1: the renderer \"gpg\" is absent"),
        (
            "#!jinja|mako\na: 1\n",
            "1:1: the renderer \"mako\" is absent",
        ),
        ("a: {{ 'é' }}\n\tb: 1\n", "1:7: "),
    ] {
        let expected = format!("/srv/pillar/a.sls:{expected}");
        let error = tree_error(&[("a.sls", template)]);
        assert!(
            error.starts_with(&expected),
            "{error}\nand expected was\n{expected}"
        );
    }
}

#[test]
fn the_columns_of_a_line_that_was_put_in_other_words_are_those_of_the_file() {
    let template = "{% load_yaml as y %}{a: 1}{% endload %}{% if y == z %}{% endif %}\n";
    let error = tree_error(&[("a.sls", template)]);
    assert!(error.contains("/a.sls:1:"), "{error}");
    let template = "{% load_yaml as y %}{a: 1}{% endload %}{{ z.b }}\n";
    let error = tree_error(&[("a.sls", template)]);
    assert!(error.starts_with("/srv/pillar/a.sls:1:43: "), "{error}");
}

#[test]
fn an_error_in_a_file_that_is_included_names_the_files_that_include_it() {
    let error = tree_error(&[
        ("a.sls", "x: 1\n{% include 'b.sls' %}\n"),
        ("b.sls", "\n\n{% include './c.sls' %}\n"),
        ("c.sls", "k: {{ nothing }}\n"),
    ]);
    assert_eq!(
        error,
        "/srv/pillar/c.sls:1:7: `nothing` is undefined, included from /srv/pillar/b.sls:3:4, included from /srv/pillar/a.sls:2:4"
    );
    let error = tree_error(&[
        ("a.sls", "{% import_yaml 'b.yaml' as b %}\n"),
        ("b.yaml", "a: b: c\n"),
    ]);
    assert!(error.starts_with("/srv/pillar/a.sls:1:"), "{error}");
    assert!(
        error.contains("in the YAML that is loaded here: line 1"),
        "{error}"
    );
    let error = tree_error(&[
        ("a.sls", "x: 1\n{% from\n  'b.sls' import\n m %}\n"),
        ("b.sls", "\n{% import 'c.sls' as c %}"),
        ("c.sls", "{{ no }}\n"),
    ]);
    assert_eq!(
        error,
        "/srv/pillar/c.sls:1:4: `no` is undefined, included from /srv/pillar/b.sls:2:4, included from /srv/pillar/a.sls:2:4"
    );
    let error = tree_error(&[
        (
            "a.sls",
            "x: 1\n{% from\n  'b.sls' import\n m %}\n  {{ nothing }}",
        ),
        ("b.sls", "{% set m = 1 %}"),
    ]);
    assert_eq!(error, "/srv/pillar/a.sls:5:6: `nothing` is undefined");
    let error = tree_error(&[("a.sls", "\n{% include 'none.sls' %}\n")]);
    assert!(error.starts_with("/srv/pillar/a.sls:2:4: "), "{error}");
}

#[test]
fn a_variable_that_a_macro_lacks_is_told_with_its_name() {
    let import = "{% import 'b.sls' as b %}\nx: {{ b.m(1) }}\n";
    let from = "{% from 'b.sls' import m with context %}\nx: {{ m(1) }}\n";
    for (a, macros, expected) in [
        (
            import,
            "{% macro m(x) %}\n{{ no }}{% endmacro %}",
            "b.sls:2:4: `no` is undefined",
        ),
        (
            from,
            "{% macro m(x) %}\n{{ x }}{{ no }}{% endmacro %}",
            "b.sls:2:11: `no` is undefined",
        ),
        // An argument that nobody gave, beside one that is there and a text.
        (
            from,
            "{% macro m(x, y) %}\n{{ x ~ 'y.no' ~ y }}{% endmacro %}",
            "b.sls:2:4: `y` is undefined",
        ),
        // What is written like a variable, and is none.
        (
            import,
            "{% macro m(x, y) %}{% if no is defined %}{% endif %}\n{{ {'no': 1}.no ~ y }}{% endmacro %}",
            "b.sls:2:4: `y` is undefined",
        ),
        (
            import,
            "{% macro m(x) %}\n{% if x and no.x %}1{% endif %}{{ other }}{% endmacro %}",
            "b.sls:2:13: `no` is undefined",
        ),
        (
            import,
            "{% macro m(x) %}\n{% for y in no %}{% endfor %}{% endmacro %}",
            "b.sls:2:13: `no` is undefined",
        ),
        (
            import,
            "{% macro m(x) %}\n{{ no|upper }}{% endmacro %}",
            "b.sls:2:7: `no` is undefined",
        ),
        (
            import,
            "{% macro n() %}\n{{ no }}{% endmacro %}{% macro m(x) %}{{ n() }}{% endmacro %}",
            "b.sls:2:4: `no` is undefined",
        ),
        (
            import,
            "{% macro m(x) %}\n{{ caller() }}{% endmacro %}",
            "b.sls:2:4: value of type undefined is not callable (`caller` is undefined)",
        ),
        (
            "{% macro m() %}\n{{ no }}{% endmacro %}\nx: {{ m() }}\n",
            "",
            "a.sls:2:4: `no` is undefined",
        ),
    ] {
        let error = tree_error(&[("a.sls", a), ("b.sls", macros)]);
        let expected = format!("/srv/pillar/{expected}");
        let told = error
            .split_once(", included from")
            .map_or(&*error, |(told, _)| told);
        assert_eq!(told, expected, "{macros}");
    }
}

#[test]
fn a_template_that_does_not_end_is_ended() {
    for template in [
        "{% for i in range(100000000) %}{% for j in range(100000000) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'x' * 1000000000 }}",
        "{{ ('x' * 1000000) * 1000000 }}",
        "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        "{{ range(1000000000)|list }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000d}'.format(1) }}",
        "{{ 'x'.replace('', 'y' * 1000000).replace('y', 'z' * 1000000) }}",
        "{{ ['x' * 100000] * 100000 }}",
        "{% set l = [1] %}{% for i in range(64) %}{% do l.extend(l) %}{% endfor %}",
        "{% set l = [] %}{% do l.append(l) %}",
        "{% set l = [] %}{% set m = {'l': l} %}{% do l.append(m) %}",
        "{% set l = 'x' * 100000 %}{% for i in range(100000) %}{{ l }}{% endfor %}",
        "{% for i in range(1000000) %}{% set x %}{{ 'x y' * 1000 }}{% endset %}{% endfor %}",
        "{{ (('(' * 5000) ~ ('1') ~ (')' * 5000))|tojson|tojson|length }}{{ nothing }}",
        "{% include 'a.sls' %}",
        "{% import 'a.sls' as a %}",
        "{% extends 'a.sls' %}",
        "{% import_yaml 'a.sls' as a %}",
        "{{ 2 ** 1000000000 }}",
    ] {
        let error = tree_error(&[("a.sls", template)]);
        assert!(error.len() < 400, "{template}: {} bytes", error.len());
    }
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
    tree_error(&[("a.sls", &deep)]);
    let deep = format!(
        "{}{}",
        "{% if true %}".repeat(20_000),
        "{% endif %}".repeat(20_000)
    );
    let _ = render_tree(
        &[("a.sls", &deep)],
        Document::Pillar,
        Value::Map(Vec::new()),
    );
}

#[test]
fn data_that_grows_by_aliases_is_refused() {
    let mut template = "{% set x = 'a b' * 100000 %}a: &a [{{ x }}]\n".to_owned();
    for (name, of) in [("b", "a"), ("c", "b"), ("d", "c"), ("e", "d")] {
        template += &format!(
            "{name}: &{name} [{}]\n",
            vec![format!("*{of}"); 8].join(", ")
        );
    }
    assert!(tree_error(&[("a.sls", &template)]).contains("bytes of data, aliases followed"));
}

#[test]
fn two_files_that_include_each_other_are_ended() {
    let error = tree_error(&[
        ("a.sls", "{% include 'b.sls' %}"),
        ("b.sls", "{% include 'a.sls' %}"),
    ]);
    assert!(
        error.contains("recursion") || error.contains("steps"),
        "{error}"
    );
}

#[test]
fn the_place_of_a_part_of_a_rendered_file_is_where_the_template_writes_it() {
    let files = [
        (
            "a.sls",
            "{% set names = ['x', 'a: b'] %}\nlist:\n{% for name in names %}\n  - p\n  - {{ name }}\n{% endfor %}\n{% include 'b.sls' %}\n",
        ),
        ("b.sls", "\nkey: [1,  {in: 2}]"),
    ];
    let plain = [("a.sls", "a:\n  - b\n  -  c: d\n")];
    let key = |name: &str| Step::key(name);
    for (files, part, expected) in [
        (&files[..], vec![], Some("a.sls:2:1")),
        (&files[..], vec![key("list")], Some("a.sls:2:1")),
        (
            &files[..],
            vec![key("list"), Step::Index(0)],
            Some("a.sls:4:5"),
        ),
        (
            &files[..],
            vec![key("list"), Step::Index(3)],
            Some("a.sls:5:8"),
        ),
        (
            &files[..],
            vec![key("key"), Step::Index(1), key("in")],
            Some("b.sls:2:12"),
        ),
        (&files[..], vec![key("none")], None),
        (&files[..], vec![key("list"), Step::Index(4)], None),
        (
            &plain[..],
            vec![key("a"), Step::Index(1), key("c")],
            Some("a.sls:3:6"),
        ),
    ] {
        let place = place_of(files, &part).map(|place| place.to_string());
        let expected = expected.map(|place| format!("/srv/pillar/{place}"));
        assert_eq!(place, expected, "{part:?}");
    }
}
