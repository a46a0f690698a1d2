//! The constructs that the pillars of real formulas use, each as Salt renders it.

use super::*;

const GRAINS: &str = "{grains: {os: Debian, os_family: Debian, osmajorrelease: 12, id: web1.example.org, ip4: [10.0.0.1, 10.0.0.2],
  nested: {a: {b: c}}}, pillar: {users: {ann: {uid: 1001, shell: /bin/zsh}}, list: [x, y]}, opts: {id: web1.example.org},
  saltenv: base}";

#[test]
fn conditions_on_grains() {
    same(
        GRAINS,
        "web:\n  {% if grains['os'] == 'Debian' and grains.osmajorrelease >= 12 %}\n  package: apache2\n  {%- elif grains['os'] == 'RedHat' %}\n  package: httpd\n  {% else %}\n  package: none\n  {% endif %}\n",
        "web: {package: apache2}",
    );
    same(
        GRAINS,
        "{% if grains['id'].startswith('web') and 'Deb' in grains.os %}a: 1{% endif %}\n",
        "a: 1",
    );
    same(
        GRAINS,
        "a: {{ 'new' if grains.osmajorrelease|int > 11 else 'old' }}\n",
        "a: new",
    );
}

#[test]
fn loops_make_keys_and_lists() {
    same(
        GRAINS,
        "users:\n{% for name, user in pillar.users.items() %}\n  {{ name }}:\n    uid: {{ user.uid }}\n    shell: {{ user['shell'] }}\n    home: /home/{{ name }}\n    first: {{ loop.first }}\n{% endfor %}\n",
        "users: {ann: {uid: 1001, shell: /bin/zsh, home: /home/ann, first: true}}",
    );
    same(
        GRAINS,
        "hosts:\n{%- for ip in grains.ip4 %}\n  - {{ ip }}:{{ 8080 + loop.index }}\n{%- endfor %}\n",
        "hosts: ['10.0.0.1:8081', '10.0.0.2:8082']",
    );
    same(
        "{}",
        "{% for i in range(3) if i != 1 %}n{{ i }}: {{ i * 2 }}\n{% else %}none: 1\n{% endfor %}",
        "{n0: 0, n2: 4}",
    );
    same(
        "{}",
        "{% for k, v in {'b': 1, 'a': 2}|dictsort %}{{ k }}: {{ v }}\n{% endfor %}",
        "{a: 2, b: 1}",
    );
}

#[test]
fn functions_of_salt() {
    for call in [
        "salt['grains.get']('nested:a:b')",
        "salt.grains.get('nested:a:b', 'default')",
        "salt['grains.get']('nested.a.b', delimiter='.')",
        "grains.nested.a.b",
        "grains['nested']['a'].get('b')",
    ] {
        same(GRAINS, &format!("k: {{{{ {call} }}}}\n"), "k: c");
    }
    same(
        GRAINS,
        "k: {{ salt['pillar.get']('none:x', 'd') }}\n",
        "k: d",
    );
    same(GRAINS, "k: {{ salt['pillar.get']('none') }}\n", "k: ''");
    same(GRAINS, "k: {{ salt['pillar.get']('list:1') }}\n", "k: y");
    same(
        GRAINS,
        "k: {{ salt['config.get']('id') }}\n",
        "k: web1.example.org",
    );
    same(
        GRAINS,
        "k: {{ salt['pillar.get']('users:ann', {'uid': 1, 'gid': 2}, merge=True)|json }}\n",
        "k: {gid: 2, shell: /bin/zsh, uid: 1001}",
    );
    same(
        GRAINS,
        "{% set map = salt['grains.filter_by']({'Debian': {'pkg': 'apache2'}, 'RedHat': {'pkg': 'httpd'}}, merge={'port': 80}) %}k: {{ map|tojson }}\n",
        "k: {pkg: apache2, port: 80}",
    );
    same(
        GRAINS,
        "k: {{ salt['grains.filter_by']({'default': {'a': 1, 'b': 2}, 'Debian': {'b': 3}}, base='default')|yaml }}\n",
        "k: {a: 1, b: 3}",
    );
}

#[test]
fn lists_and_mappings_that_are_changed() {
    same(
        "{}",
        "{% set l = ['a'] %}{% do l.append('b') %}{% for x in ['c', 'd'] %}{% do l.append(x) %}{% endfor %}k: {{ l|tojson }}\n",
        "k: [a, b, c, d]",
    );
    same(
        "{}",
        "{% set d = {'a': {}} %}{% do d.update({'b': 1}) %}{% do d.a.update(c=2) %}{% do d.setdefault('e', []).append(3) %}k: {{ d|json }}\n",
        "k: {a: {c: 2}, b: 1, e: [3]}",
    );
    same(
        GRAINS,
        "{% set users = pillar.get('users', {}) %}{% set _ = users.update({'bob': {}}) %}k: {{ users.keys()|list|tojson }}\n",
        "k: [ann, bob]",
    );
    same(
        "{}",
        "{% set l = 'a,b'.split(',') %}{% do l.extend(['c']) %}{% do l.remove('a') %}{% do l.insert(0, 'z') %}{% do l.pop() %}k: {{ l|join(' ') }}\n",
        "k: z b",
    );
    same(
        "{}",
        "{% set ns = namespace(n=0) %}{% for x in [1, 2] %}{% set ns.n = ns.n + x %}{% endfor %}k: {{ ns.n }}\n",
        "k: 3",
    );
}

#[test]
fn macros_imports_and_includes() {
    let files = [
        (
            "web/init.sls",
            "{% from 'macros.jinja' import site with context %}\n{% import 'macros.jinja' as m %}\n{% import_yaml './defaults.yaml' as defaults %}\n{% import_json 'more.json' as more %}\n{% import_text 'motd' as motd %}\nsites:\n  {{ site('a', 80)|indent(2) }}\n  {{ m.site('b', 81) | indent(2) }}\nport: {{ defaults.port }}\nmore: {{ more.x[0] }}\nmotd: {{ motd }}\n{% include 'rest.sls' %}\n",
        ),
        (
            "macros.jinja",
            "{% macro site(name, port=1) -%}\n{{ name }}:\n  port: {{ port }}\n  id: {{ grains.id }}\n{%- endmacro %}\n",
        ),
        ("web/defaults.yaml", "port: {{ 40 + 2 }}\n"),
        ("more.json", "{\"x\": [1]}\n"),
        ("motd", "hello: all\n"),
        ("rest.sls", "rest: {{ grains.os }}\n"),
    ];
    let variables = yaml::parse(GRAINS).unwrap();
    let rendered = render_tree(&files, Document::Pillar, variables).unwrap();
    let expected = "{sites: {a: {port: 80, id: web1.example.org}, b: {port: 81, id: web1.example.org}}, port: 42, more: 1,
        motd: 'hello: all', rest: Debian}";
    assert_eq!(rendered, yaml::parse(expected).unwrap());
}

#[test]
fn loaded_blocks() {
    same(
        GRAINS,
        "{% load_yaml as map %}\nDebian:\n  pkg: apache2\n  conf: \"{{ grains.id }}: x\"\n{% endload %}{% load_json as j %}{\"a\": [1]}{% endload %}\nk: {{ map[grains.os].conf }}\nl: {{ j.a|json }}\n",
        "{k: 'web1.example.org: x', l: [1]}",
    );
}

#[test]
fn certificates_and_other_texts_of_several_lines() {
    let variables = "{cert: \"-----BEGIN-----\\na: b\\n\\n  c\\n-----END-----\"}";
    let expected = "{k: {cert: \"-----BEGIN-----\\na: b\\n\\n  c\\n-----END-----\\n\"}}";
    same(
        variables,
        "k:\n  cert: |\n    {{ cert|indent(4) }}\n",
        expected,
    );
    same(
        variables,
        "k:\n  cert: |\n    {{ cert | indent(width=4) }}\n",
        expected,
    );
    same(
        variables,
        "k:\n  cert: |\n{{ cert|indent(4, true) }}\n",
        expected,
    );
    // Salt needs the filter here, and this does not.
    same(variables, "k:\n  cert: |\n    {{ cert }}\n", expected);
    // Lines that are folded.
    same(
        variables,
        "k: {{ cert|indent(4) }}\n",
        "k: \"-----BEGIN----- a: b\\n  c -----END-----\"",
    );
    same(
        "{}",
        "k: |\n  a {{ 1 }}\n    b\nl: >-\n  c\n  d\n",
        "{k: \"a 1\\n  b\\n\", l: c d}",
    );
}

#[test]
fn text_that_a_template_put_together_is_compared_and_filtered_as_what_it_says() {
    same(
        "{x: 'a b'}",
        "{% set y %}{{ x }}!{% endset %}{% if y == 'a b!' %}k: {{ y|upper }}\n{% endif %}l: {{ y|length }}\nm: {{ 'b!' in y }}\nn: {{ y.split(' ')|tojson }}\no: {{ y is eq 'a b!' }}\np: {{ y ~ '/z' }}\n",
        "{k: A B!, l: 4, m: true, n: [a, b!], o: true, p: a b!/z}",
    );
    same(
        "{x: 'a b'}",
        "{% macro m(v) %}<{{ v }}>{% endmacro %}k: {{ m(x)|replace('a', 'c') }}\nl: {{ {'<a b>': 1}[m(x)] }}\n{% set q = m(x) ~ m(x) %}m: {{ q|length }}\n",
        "{k: <c b>, l: 1, m: 10}",
    );
}

#[test]
fn values_are_printed_as_python_prints_them() {
    same(
        "{t: true, n: null, f: 1.0, i: -3, big: 18446744073709551615, e: 1.0e+20}",
        "t: {{ t }}\nn: {{ n }}\nf: {{ f }}\ni: {{ i }}\nbig: {{ big }}\ne: {{ e }}\nq: '{{ t }} {{ n }}'\nd: {{ 7 / 2 }}\nm: {{ 7 // 2 }}\n",
        "{t: true, n: None, f: 1.0, i: -3, big: 18446744073709551615, e: 1e+20, q: True None, d: 3.5, m: 3}",
    );
}

#[test]
fn anchors_flow_style_raw_parts_and_comments() {
    same(
        "{}",
        "{# a: 1 #}\ndefaults: &d\n  a: {{ 1 }}\n  b: [x, {y: z}]\nweb:\n  <<: *d\n  a: 2\ntemplate: '{% raw %}{{ x }}{% endraw %}'\n# {{ 1 }}\n",
        "{defaults: {a: 1, b: [x, {y: z}]}, web: {b: [x, {y: z}], a: 2}, template: '{{ x }}'}",
    );
    same("{}", "#!jinja|yaml\na: {{ 1 }}\n", "a: 1");
    same("{}", "#!yaml\na: '{{ 1 }}'\n", "a: '{{ 1 }}'");
    same("{}", "", "");
    same("{}", "{% if false %}a: 1{% endif %}", "");
    same("{}", "---\na: {{ 1 }}\n...\n", "a: 1");
}

#[test]
fn defaults_and_undefined_names() {
    same(
        GRAINS,
        "a: {{ pillar.none|default('x') }}\nb: {{ none_such is defined }}\nc: {{ pillar.get('none', 'y') }}\nd: {{ ''|default('z', true) }}\ne: {{ 'v' if none_such is defined }}\n",
        "{a: x, b: false, c: y, d: z, e: null}",
    );
}

#[test]
fn switches_by_mappings() {
    same(
        GRAINS,
        "pkg: {{ {'Debian': 'apache2', 'RedHat': 'httpd'}.get(grains['os']) }}\nother: {{ {'Debian': 1}[grains.os] }}\nor: {{ grains.get('none') or 'x' }}\n",
        "{pkg: apache2, other: 1, or: x}",
    );
}

#[test]
fn filters_of_salt() {
    same(
        "{x: \"it's\", l: [b, a], m: {z: 1, y: [1, 2]}, e: {}}",
        "a: {{ x|yaml_dquote }}\nb: {{ x|yaml_squote }}\nc: {{ x|yaml_encode }}\nd: {{ l|yaml }}\ne: {{ l|sort|json }}\nf:\n  {{ m|yaml(False)|indent(2) }}\ng: {{ 'yes'|to_bool }}\nh: {{ l|join(',')|yaml_encode }}\ni: {{ e|yaml(False) }}\nj: |\n  {{ m|yaml(False)|indent(2) }}\n",
        "{a: \"it's\", b: \"it's\", c: \"it's\", d: [b, a], e: [a, b], f: {z: 1, y: [1, 2]}, g: true, h: 'b,a', i: {},
          j: \"z: 1\\ny:\\n  - 1\\n  - 2\\n\"}",
    );
}

#[test]
fn the_example_of_the_page_renders_as_the_page_says() {
    let page = include_str!("../../../docs/rendering.md");
    let block = |mark: &str| {
        let (_, rest) = page.split_once(mark).unwrap();
        rest.split_once("```").unwrap().0
    };
    same(
        "{grains: {owner: 'ops: Berlin'}}",
        block("```jinja\n"),
        block("```yaml\n"),
    );
}

#[test]
fn what_is_imported_sees_the_variables_of_its_template_with_context_alone() {
    let lib = "{% set own = 'o' %}{% macro m(x) %}{{ x }}-{{ v|default('none') }}-{{ own }}-{{ minion_id }}-{{ other() }}{% endmacro %}\
               {% macro other() %}{{ later|default('none') }}{% endmacro %}{% set z = v|default('none') %}";
    for (template, expected) in [
        (
            "{% set v = 1 %}{% from 'lib.jinja' import m, z %}a: {{ m('x') }}-{{ z }}",
            "x-none-o-web1-none-none",
        ),
        (
            "{% set v = 1 %}{%- from 'lib.jinja' import m as n,\n z as y without context -%}\na: {{ n('x') }}-{{ y }}",
            "x-none-o-web1-none-none",
        ),
        (
            "{% set v = 1 %}{% from 'lib.jinja' import m, z with context %}a: {{ m('x') }}-{{ z }}",
            "x-1-o-web1-none-1",
        ),
        (
            "{% set v = 1 %}{% import 'lib.jinja' as l %}a: {{ l.m('x') }}-{{ l.z }}",
            "x-none-o-web1-none-none",
        ),
        (
            "{% set v = 1 %}{% import 'lib.jinja' as l with context %}a: {{ l.m('x') }}-{{ l.z }}",
            "x-1-o-web1-none-1",
        ),
        // The macros of a template share what they see.
        (
            "{% macro k() %}{{ v|default('no v') }}{% endmacro %}{% set v = 1 %}{% set later = 2 %}{% from 'lib.jinja' import m %}a: {{ m(k()) }}",
            "1-none-o-web1-none",
        ),
        (
            "{% macro k(v) %}{% from 'lib.jinja' import m %}{{ m(v) }}{% endmacro %}a: {{ k('x') }}",
            "x-none-o-web1-none",
        ),
        (
            "{% for v in ['x'] %}{% from 'lib.jinja' import m, z %}a: {{ m(v) }}-{{ z }}{% endfor %}",
            "x-none-o-web1-none-none",
        ),
        (
            "{% set v = 1 %}{% set f = 'lib' %}{% from f ~ '.jinja' import m, z %}a: {{ m(f) }}-{{ z }}",
            "lib-none-o-web1-none-none",
        ),
        (
            "{% set v = 1 %}{% from 'again.jinja' import m, z %}a: {{ m('x') }}-{{ z }}",
            "x-none-o-web1-none-none",
        ),
        (
            "{% set m = 1 %}{% from 'again.jinja' import none_such %}a: {{ none_such is defined }}-{{ m }}",
            "False-1",
        ),
        ("{% set v = 1 %}{% include 'v.jinja' %}", "1"),
        ("{% set v = 1 %}{% include 'v.jinja' with context %}", "1"),
        (
            "{% set v = 1 %}{% include 'v.jinja' without context %}",
            "none",
        ),
        (
            "{% include 'absent.jinja' ignore missing without context %}a: x",
            "x",
        ),
        (
            "{% set v = 1 %}{% import_yaml 'v.jinja' as y %}a: {{ y.a }}",
            "none",
        ),
        (
            "{% set v = 1 %}{% import_yaml 'v.jinja' as y without context %}a: {{ y.a }}",
            "none",
        ),
        (
            "{% set v = 1 %}{% import_yaml 'v.jinja' as y with context %}a: {{ y.a }}",
            "1",
        ),
    ] {
        let files = [
            ("a.sls", template),
            ("lib.jinja", lib),
            (
                "again.jinja",
                "{% set v = 2 %}{% from 'lib.jinja' import m, z %}",
            ),
            ("v.jinja", "a: {{ v|default('none') }}\n"),
        ];
        let variables = Value::map([("minion_id", Value::from("web1"))]);
        let rendered = render_tree(&files, Document::Pillar, variables).unwrap();
        let text = rendered.get("a").cloned().unwrap_or_default();
        let text = match text {
            Value::Text(text) => text,
            Value::Int(number) => number.to_string(),
            Value::Bool(_) | Value::Null => format!("{text:?}"),
            other => panic!("{template}: {other:?}"),
        };
        assert_eq!(text, expected, "{template}");
    }
}
