//! What the pillars of public formulas consist of, in trees of our own: each as Salt's Jinja and PyYAML read it.

use super::*;

const GRAINS: &str = "{grains: {os: Debian, os_family: Debian, osmajorrelease: 12, id: web1.example.org, init: systemd,
  roles: [web, db], mem: 2048}, pillar: {}, saltenv: base}";

#[test]
fn blocks_that_depend_on_grains_and_stand_in_comments_or_at_any_indentation() {
    same(
        GRAINS,
        "# -*- coding: utf-8 -*-\n# vim: ft=yaml\n---\ndaemon:\n  wanted:\n    - one\n         {%- if grains.os_family not in ('Debian',) %}\n    - two\n         {%- endif %}\n    - three\n\n  {%- if grains['init'] == 'unknown' %}\n\n  bake: True\n\n  {%- endif %}\n\n  ports:\n  # {%- if grains['id'] == 'web1.example.org' %}\n  - 4505\n  # {%- endif %}\n  - 10050\n",
        "daemon: {wanted: [one, three], ports: [4505, 10050]}",
    );
    same(
        GRAINS,
        "site:\n  {# {%- if grains.os in ('A', 'B') %} #}\n  {# cert: /etc/x #}\n  {#  #}\n  {# {%- endif %} #}\n  filter: {% raw %}'uid={{user}}'{% endraw %}\n#{%- set domain = 'example.org' %}\n  name: {{ domain }}\n",
        "site: {filter: 'uid={{user}}', name: example.org}",
    );
}

#[test]
fn a_function_that_is_absent_is_undefined() {
    same(
        GRAINS,
        "{%- if salt['status.time']|default(none) is callable %}\na: 1\n{%- endif %}\nb: {{ salt['no.such'] is defined }}\nc: {{ 'no.such' in salt }}\nd: {{ 'pillar.get' in salt }}\ne: {{ salt['pillar.get'] is callable }}\n",
        "{b: false, c: false, d: true, e: true}",
    );
    for call in ["salt['cmd.run']('id')", "salt.cmd.run('id')"] {
        let error = error(GRAINS, &format!("a: {{{{ {call} }}}}\n"));
        assert!(
            error.contains(
                "cmd.run is not there in templates, which call config.get, grains.filter_by"
            ),
            "{error}"
        );
    }
}

#[test]
fn numbers_are_keys() {
    let files = [
        (
            "a.sls",
            "{% import_yaml 'map.yaml' as map %}\na: {{ map[grains.osmajorrelease] }}\nb: {{ map.get(11) }}\nc: {{ 10 in map }}\nd: {{ map[true] }}\ne: {{ salt['grains.filter_by'](map, grain='osmajorrelease') }}\n",
        ),
        ("map.yaml", "12: bookworm\n11: bullseye\nyes: x\n"),
    ];
    let variables = yaml::parse(GRAINS).unwrap();
    let rendered = render_tree(&files, Document::Pillar, variables).unwrap();
    let expected = "{a: bookworm, b: bullseye, c: false, d: x, e: bookworm}";
    assert_eq!(rendered, yaml::parse(expected).unwrap());
    same(
        "{}",
        "errorfiles:\n  400: /a\n  504: /b\n1m:\n  - 0.0\n{{ 8 }}: x\n10.5.5.0: y\n224-29: z\n",
        "{errorfiles: {'400': /a, '504': /b}, 1m: [0.0], '8': x, 10.5.5.0: y, 224-29: z}",
    );
}

#[test]
fn words_that_are_more_than_they_look() {
    same(
        "{}",
        "a: {{ 1 }}\nmode: 0644\nrelease: 2016.11\nversion: 1.2.3\nday: 2001-12-14\non: off\nplus: +\nnull_: ~\nletter: y\nlow: =info..emerg\ndots:\n  - ...\ncookie: hash:/etc/x\naddress: 127.0.0.0/8 [::ffff:127.0.0.0]/104\nmac: ethernet 0:0:c0:5d\nif: scheme https if !{ fetch }\nwindows: C:\\Temp\n<C-u>: :tab<enter>\nurl.\"https://\".x: \"git://\"\n'server ': 1\nlocation ^~ /.well/:\n  - '~*^Bot': 0\n",
        "{a: 1, mode: 644, release: 2016.11, version: 1.2.3, day: '2001-12-14', 'True': false, plus: '+', null_: null, letter: 'y',
          low: '=info..emerg', dots: ['...'], cookie: 'hash:/etc/x', address: '127.0.0.0/8 [::ffff:127.0.0.0]/104',
          mac: 'ethernet 0:0:c0:5d', if: 'scheme https if !{ fetch }', windows: 'C:\\Temp', '<C-u>': ':tab<enter>',
          'url.\"https://\".x': 'git://', 'server ': 1, 'location ^~ /.well/': ['~*^Bot': 0]}",
    );
    // Numbers in Salt, 750 and 1000.
    same(
        "{}",
        "a: {{ 12 }}:30\nb: 1_000\n",
        "{a: '12:30', b: '1_000'}",
    );
}

#[test]
fn anchors_merges_and_tags() {
    let expected = yaml::parse("{x: 1, y: 3}").unwrap();
    for template in [
        "{# #}\nb: &b\n  x: 1\n  y: 2\nd:\n  <<: *b\n  y: 3\n",
        "b: &b {x: 1}\nc: &c {y: 2}\nd:\n  <<: *b\n  <<: *c\n  y: 3\n",
        "b: &b {x: 1}\nc: &c\n  <<: *b\n  z: 1\nd: {y: 3, <<: *b}\n",
    ] {
        let rendered = with("{}", template).unwrap();
        // What is merged comes first, as in Salt.
        assert_eq!(rendered.get("d"), Some(&expected), "{template}");
    }
    same(
        "{}",
        "image: &image 'x:1'\nsame: *image\ncommand: echo *image\na: !!python/unicode 'x'\nb: !!timestamp 2001-12-14\nc: !!str 1\n",
        "{image: 'x:1', same: 'x:1', command: echo *image, a: x, b: '2001-12-14', c: '1'}",
    );
    same(
        "{}",
        "text: !!binary aGVsbG8=\nlines: !!binary |\n  aGVs\n  bG8=\n",
        "{text: hello, lines: hello}",
    );
    assert_eq!(
        with("{}", "bytes: !!binary /wA=\n"),
        Ok(Value::map([("bytes", Value::Bytes(vec![0xff, 0]))]))
    );
    for tag in [
        "!!binary a",
        "!!python/object/apply:os.system [id]",
        "!vault x",
        "!!set {a}",
    ] {
        assert!(with("{}", &format!("k: {tag}\n")).is_err(), "{tag}");
    }
}

#[test]
fn macros_that_are_imported_again_and_call_each_other() {
    let files = [
        (
            "a.sls",
            "{%- from 'map.jinja' import bind, options, hosts %}\nproxy:\n  bind:\n    {{ bind(['10.0.0.1', '::1'], 80) }}\n    {{ bind(['10.0.0.2'], 81, 'ssl crt /x') }}\n  {{ options('a: b') }}\n  host: {{ hosts.one }}\n",
        ),
        (
            "map.jinja",
            "{%- from 'macros.jinja' import bind, options -%}\n{%- set bind = bind -%}\n{%- set hosts = {\n  'one': '2001:db8::1'\n} -%}\n",
        ),
        (
            "macros.jinja",
            "{%- set common = ['x', 'y'] -%}\n{%- macro bind(addresses, port, options=None) -%}\n  {%- for address in addresses %}\n    - '{{ address }}:{{ port }}{{ ' ' ~ options if options is not none else '' }}'\n  {%- endfor %}\n{%- endmacro -%}\n{%- macro options(append=None) -%}\n  options:\n  {%- for option in common %}\n    - {{ option }}\n  {%- endfor %}\n  {#- not {{ this }} #}\n  {%- if append is not none %}\n    - {{ append }}\n  {%- endif %}\n{%- endmacro -%}\n",
        ),
    ];
    let rendered = render_tree(&files, Document::Pillar, Value::Map(Vec::new())).unwrap();
    let expected = "{proxy: {bind: ['10.0.0.1:80', '::1:80', '10.0.0.2:81 ssl crt /x'], options: [x, y, 'a: b'],
      host: '2001:db8::1'}}";
    assert_eq!(rendered, yaml::parse(expected).unwrap());
}

#[test]
fn what_salt_takes_and_this_refuses() {
    for template in [
        "a: 1\n{{ 'b: 2' }}\n",
        "a: 'x\ny'\n",
        "a: 'x'#y\n",
        "a: &k x\n*k: 1\n",
        "a: {{ [1] }}\n",
        "a: {{ '%s' % 1 }}\n",
        "a: {{ 'x y'|urlencode }}\n",
        "{% macro m() %}{{ varargs }}{% endmacro %}a: {{ m(1) }}\n",
    ] {
        assert!(with("{}", template).is_err(), "{template}");
    }
}

#[test]
fn what_salt_refuses_and_this_takes() {
    for (template, expected) in [
        ("a:\n  \tb: 1\n", "{a: {b: 1}}"),
        ("a: &k 1\nb: &k 2\nc: *k\n", "{a: 1, b: 2, c: 2}"),
        ("a: =\nb: [x?]\n", "{a: '=', b: ['x?']}"),
        (
            "b: &b {x: 1}\nc: &c {x: 2}\nd: {<<: [*b, *c]}\n",
            "{b: {x: 1}, c: {x: 2}, d: {x: 1}}",
        ),
    ] {
        same("{}", template, expected);
    }
}

#[test]
fn errors_in_both() {
    for template in [
        "ntp: {a: 1}\nntp: {b: 1}\n",
        "nat:\n  '10.0.0.0/8': 1\n  10.0.0.0/8: 2\n",
        "users: @group\n",
        "mods:\n  name\n    vars:\n      x: 1\n",
        "a:\n  b: 1\n c: 2\n",
        "a: {{ range(1, 9100000)|random }}\n",
        "a: 1\n---\nb: 2\n",
        "a: \"\\d+\"\n",
    ] {
        assert!(with("{}", template).is_err(), "{template}");
    }
}

#[test]
fn blocks_keep_their_lines() {
    same("{}", "a: |+\n  x {{ 1 }}\n\n\n", "a: \"x 1\\n\\n\\n\"");
    same(
        "{}",
        "script: |\n          #!/bin/sh\n          run {{ 1 }}\nrule: >-\n  -i a\n  -o b\nkeep: |-\n  {%- for n in [1, 2] %}\n  l{{ n }} = {{ 'a b' }}\n  {%- endfor %}\nlog:\n  -\n    - s: 1\n  -\n    - d: 2\n",
        "{script: \"#!/bin/sh\\nrun 1\\n\", rule: '-i a -o b', keep: \"l1 = a b\\nl2 = a b\", log: [[s: 1], [d: 2]]}",
    );
    same(
        "{}",
        "types: [binary, # one\n  source,\n]\nmap: {\n  a: 1,\n  \"b\":[1,2]\n}\nc: {{ 1 }}\n",
        "{types: [binary, source], map: {a: 1, b: [1, 2]}, c: 1}",
    );
}

#[test]
fn the_first_line_names_renderers_or_a_program() {
    for line in [
        "#!/usr/bin/env python",
        "#!jinja|yaml",
        "#!jinja | yaml",
        "#!jinja|json",
        "#!yaml_jinja",
        "# x",
    ] {
        same("{}", &format!("{line}\na: {{{{ 1 }}}}\n"), "a: 1");
    }
    for line in ["#!py", "#!jinja|yaml|gpg", "#!jinja|json5"] {
        assert!(with("{}", &format!("{line}\na: 1\n")).is_err(), "{line}");
    }
}

#[test]
fn statements_and_methods_of_python() {
    same(
        GRAINS,
        "{% set l = [3, 1] %}{% do l.sort() %}{% do l.append(2) if grains.os == 'Debian' %}{% do l.append(4)|default('') %}{% do none %}\n{% set d = {'a': 1} %}{% set e = d.copy() %}{% do e.update(\n  {'b': 2}\n) %}{% set last = e.popitem() %}\nl: {{ l|json }}\nd: {{ d|json }}\nlast: {{ last[0] }}\npairs: {{ dict([('x', 1)], y=2)|json }}\nfirst: {{ grains.id.rsplit('.', 1)[0] }}\nhost: {{ grains.id.partition('.')[0] }}\nsuffix: {{ grains.id.rpartition('.')[2] }}\nat: {{ grains.id.index('.') }}\ndigits: '{{ '5'.zfill(3) }}{{ 'x'.rjust(2, '-') }}'\nrole: {{ grains.roles.index('db') }}\n",
        "{l: [1, 3, 2, 4], d: {a: 1}, last: b, pairs: {x: 1, y: 2}, first: web1.example, host: web1, suffix: org, at: 4,
          digits: '005-x', role: 1}",
    );
    let error = error("{}", "\n{% do none_such.append(1) %}");
    assert!(error.starts_with("/srv/pillar/a.sls:2:"), "{error}");
}

#[test]
fn filters_take_the_arguments_of_jinjas() {
    same(
        "{}",
        "a: {{ none_such|default('x', boolean=True) }}\nb: {{ ''|d('y', boolean=true) }}\nc: {{ none_such|default(default_value='z') }}\nd: {{ 'x'|int(5) }}{{ 'x'|int }}{{ '7.9'|int(default=1) }}{{ 'ff'|int(0, 16) }}\ne: {{ 'x'|float(1.5) }}\nf: {{ [1, 3, 2]|sort(true)|json }}\ng: {{ {'b': 1, 'a': 2}.items()|sort(attribute=1)|map('first')|join }}\nh: {{ {'b': 1, 'a': 2}|dictsort(false, 'value', true)|map('first')|join }}\ni: '{{ {'b': 1, 'a': 2}|json(sort_keys=False) }}'\nj: {{ 'foo bar baz qux'|truncate(9) }}{{ 'abcdefghijkl'|truncate(5, True, '') }}\nk: {{ 'a b c'|wordcount }}\nl: {{ ['v', 'v']|random }}\nm: {{ '{\"a\": [1]}'|load_json|json }}{% set y = 'b: c'|load_yaml %}\nn: {{ y.b }}\no: x{% set comma = joiner(',') %}{% for i in [1, 2] %}{{ comma() }}{{ i }}{% endfor %}\n",
        "{a: x, b: 'y', c: z, d: 507255, e: 1.5, f: [3, 2, 1], g: ba, h: ab, i: '{\"b\": 1, \"a\": 2}', j: foo...abcde, k: 3, l: v,
          m: {a: [1]}, n: c, o: 'x1,2'}",
    );
}

#[test]
fn keys_and_words_with_marks_of_their_own() {
    same(
        "{}",
        "10.0.0.1 443:\n  weight: 1\nmap $agent $bad:\n  - '~*x': 1\n  - lib-x: 2\nBufRead,BufNew:\n  /etc/*.conf: 'set x'\nUrl \"http://x/s?json\":\n  accepted conn: None\n\"10:20\": a\n'server':\n",
        "{'10.0.0.1 443': {weight: 1}, 'map $agent $bad': [{'~*x': 1}, {lib-x: 2}], 'BufRead,BufNew': {'/etc/*.conf': set x},
          'Url \"http://x/s?json\"': {accepted conn: 'None'}, '10:20': a, server: null}",
    );
    same(
        "{}",
        "a: x[name=S, port=s]\nb: net.x[*],/bin/f $1 2>&1 | sed 's,.*/\\([0-9]*\\)/.*,\\1,'\nc: <H>.*(G|P).*(\\.x|\\.y).*\nd: 16:27:ac:a5\ne: (a) /b\nf: members of \"x\"\ng: 50%\nh: btree:${d}/s\ni: '\"q -0 a\"'\nj:    x\nk: shmcb:/run/o(128)\n",
        "{a: 'x[name=S, port=s]', b: \"net.x[*],/bin/f $1 2>&1 | sed 's,.*/\\\\([0-9]*\\\\)/.*,\\\\1,'\", c: '<H>.*(G|P).*(\\.x|\\.y).*',
          d: '16:27:ac:a5', e: (a) /b, f: 'members of \"x\"', g: 50%, h: 'btree:${d}/s', i: '\"q -0 a\"', j: x,
          k: 'shmcb:/run/o(128)'}",
    );
    // A key that is null in Salt.
    same("{}", "lets:\n  &columns: join(1)\n", "{lets: join(1)}");
    // A block with a comment alone, no line break at the end, and a part that is not the whole document's.
    same(
        "{}",
        "outer:\n  extra: |\n    # nothing yet\n\n  include:\n    - x.conf\n  last: True",
        "{outer: {extra: \"# nothing yet\\n\", include: [x.conf], last: true}}",
    );
}

#[test]
fn grains_by_their_paths() {
    let grains = "{grains: {fqdn: w.example.org, ip4_interfaces: {eth1: [10.0.0.1]}}, pillar: {}}";
    same(
        grains,
        "host: {{ salt['grains.get']('fqdn') }}\nvalue: {{ salt['grains.get']('ip4_interfaces:eth1')[0] }}\n",
        "{host: w.example.org, value: 10.0.0.1}",
    );
}
