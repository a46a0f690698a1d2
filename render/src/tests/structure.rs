//! Data never becomes structure: one test for each way in which it could become a key, a list, a template, or another
//! document.

use super::*;

/// Texts that mean something in YAML or in a template.
const HOSTILE: [&str; 36] = [
    "a: b",
    "a:",
    ": a",
    "- a",
    "-",
    "---",
    "...",
    "--- !!map {a: b}",
    "[a, b]",
    "{a: b}",
    "a, b",
    "}",
    "]",
    "\n",
    "x\ny: z",
    "x\n- z",
    "x\n---\ny: z",
    "x\r\ny: z",
    "# a",
    "a # b",
    "&a b",
    "*a",
    "!!python/object/apply:os.system [id]",
    "!include x",
    "? a",
    "| a",
    ">",
    "%YAML 1.1",
    "@a",
    "`a`",
    "'",
    "\"",
    "\\\"",
    "\u{2028}a: b",
    "{{ 7 * 7 }}",
    "{% include 'secret.sls' %}",
];

fn data(text: &str) -> Value {
    Value::map([("x", Value::from(text))])
}

#[track_caller]
fn rendered(template: &str, text: &str) -> Value {
    let rendered = render_tree(&[("a.sls", template)], Document::Pillar, data(text));
    rendered.unwrap_or_else(|error| panic!("{template:?} with {text:?}: {error}"))
}

fn value_of_k(template: &str, text: &str) -> Value {
    rendered(template, text).get("k").cloned().unwrap()
}

#[test]
fn a_text_that_is_escaped_for_html_stays_one_scalar() {
    for text in HOSTILE {
        // The ampersand first: it is in what the others become.
        let escaped = [
            ('&', "&amp;"),
            ('<', "&lt;"),
            ('>', "&gt;"),
            ('"', "&#34;"),
            ('\'', "&#39;"),
        ]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(*from, to));
        for template in [
            "k: {{ x|e }}\n",
            "k: '{{ x|escape }}'\n",
            "k: {{ x|forceescape }}\n",
            "k: {% filter e %}{{ x }}{% endfilter %}\n",
            "k: {% set y %}{{ x }}{% endset %}{{ y|e }}\n",
            "k: {% macro m(y) %}{{ y|e|safe }}{% endmacro %}{{ m(x) }}\n",
            "k: {% macro m(y) %}{{ y }}{% endmacro %}{{ m(x)|e }}\n",
            "k: {{ [x]|map('e')|first }}\n",
            "k: {% set y %}{{ x }}{% endset %}{{ [y]|map('escape')|first }}\n",
            "k: {% load_text as y %}{{ x }}{% endload %}{{ y|e }}\n",
        ] {
            assert_eq!(
                value_of_k(template, text),
                Value::from(escaped.as_str()),
                "{template:?}"
            );
        }
    }
}

#[test]
fn a_value_stays_one_scalar() {
    for text in HOSTILE {
        for template in [
            "k: {{ x }}\nother: 1\n",
            "k: '{{ x }}'\n",
            "k: \"{{ x }}\"\n",
            "{k: {{ x }}}\n",
            "k: {{ x|tojson }}\n",
            "k: {{ x|yaml }}\n",
            "k: {{ x|yaml(false) }}\n",
            "k: {{ x|yaml_dquote }}\n",
            "k: {{ x|yaml_squote }}\n",
            "k: {{ x|yaml_encode }}\n",
            "k: {{ x|safe }}\n",
            "k: {{ x|string }}\n",
            "k: {{ x|replace('', '') }}\n",
            "k: {{ x ~ '' }}\n",
            "k: {{ '' ~ x }}\n",
            "k: {{ x[:] }}\n",
            "k: {{ [x]|join('') }}\n",
            "k: {{ '%s'|format(x) }}\n",
            "k: {{ '{}'.format(x) }}\n",
            "k: {{ x.replace('zz', '') }}\n",
            "k: {% autoescape false %}{{ x }}{% endautoescape %}\n",
            "k: {% autoescape true %}{{ x }}{% endautoescape %}\n",
            "k: {% set y %}{{ x }}{% endset %}{{ y }}\n",
            "k: {% autoescape false %}{% set y %}{{ x }}{% endset %}{% endautoescape %}{{ y }}\n",
            "k: {% macro m(y) %}{{ y }}{% endmacro %}{{ m(x) }}\n",
            "k: {% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ x }}{% endcall %}\n",
            "k: {% set y %}{{ x }}{% endset %}{{ y ~ '' }}\n",
            "k: {% set y %}{{ x }}{% endset %}{{ y|replace('zz', '') }}\n",
            "k: {% load_text as y %}{{ x }}{% endload %}{{ y }}\n",
            "k: {% load_yaml as y %}{'z': {{ x }}}{% endload %}{{ y.z }}\n",
            "k: {% set l = [] %}{% do l.append(x) %}{{ l[0] }}\n",
            "k: {% for c in [x] %}{{ c }}{% endfor %}\n",
            "k: {% filter indent(0) %}{{ x }}{% endfilter %}\n",
            "k: {{ salt['grains.get']('none', x) }}\n",
            "k: {% set y %}{{ x }}{% endset %}{{ '' ~ y ~ '' }}\n",
            "k: {% set y %}{% endset %}{{ y ~ x }}\n",
            "k: {% set y %}{% endset %}{{ x ~ y }}\n",
            "k: {% set y %}{% endset %}{{ [y, x]|join }}\n",
            "k: {% set y %}{% endset %}{{ [x, y]|join(y) }}\n",
            "k: {% set y %}q{% endset %}{{ y|replace('q', x) }}\n",
            "k: {% filter replace('q', x) %}q{% endfilter %}\n",
            "k: {{ 'q'|replace('q', x) }}\n",
            "k: {{ 'q'.replace('q', x) }}\n",
            "k: {{ none_such|default(x) }}\n",
            "k: {{ [x]|first }}\n",
            "k: {{ (x, x)|last }}\n",
            "k: {{ [x]|max }}\n",
            "k: {{ [x]|map('string')|list|first }}\n",
            "k: {{ [[x]]|map('join')|first }}\n",
            "k: {{ ''.join([x]) }}\n",
            "k: {{ dict(a=x).a }}\n",
            "k: {{ {'a': x}|items|first|last }}\n",
            "k: {% set ns = namespace(a=x) %}{{ ns.a }}\n",
            "k: {% macro m() %}{{ caller(x) }}{% endmacro %}{% call(y) m() %}{{ y }}{% endcall %}\n",
            "k: {% macro m(y) %}{{ y|safe }}{% endmacro %}{{ m(x)|trim if false else m(x) }}\n",
            "{% block b %}k: {{ x }}{% endblock %}\n",
            "{% set b %}k: {{ x }}{% endset %}{{ b|indent(0) }}\n",
            "{% load_yaml as b %}k: {{ x }}{% endload %}{{ b|yaml(false) }}\n",
        ] {
            assert_eq!(
                value_of_k(template, text),
                Value::from(text),
                "{template:?}"
            );
        }
        let part = value_of_k("k: a {{ x }} b\n", text);
        assert_eq!(part, Value::from(format!("a {text} b")));
        let block = value_of_k("k: |\n  {{ x }}\n  z\n", text);
        assert_eq!(block, Value::from(format!("{text}\nz\n")));
        let rest = rendered("# {{ x }}\nk: 1\n", text);
        assert_eq!(rest, Value::map([("k", Value::Int(1))]));
    }
}

#[test]
fn a_text_in_a_list_or_a_flow_stays_one_member() {
    for text in HOSTILE {
        for template in ["- {{ x }}\n", "[{{ x }}]\n", "- - {{ x }}\n"] {
            let mut rendered = rendered(template, text);
            while let Value::List(mut members) = rendered {
                assert_eq!(members.len(), 1, "{template:?} {text:?}");
                rendered = members.remove(0);
            }
            assert_eq!(rendered, Value::from(text));
        }
    }
}

#[test]
fn a_key_may_hold_data_in_a_pillar_and_stays_one_key() {
    for text in HOSTILE {
        let rendered = rendered("{{ x }}: 1\nb{{ x }}: 2\n'{{ x }}c': 3\n", text);
        let expected = Value::map([
            (text.to_owned(), Value::Int(1)),
            (format!("b{text}"), Value::Int(2)),
            (format!("{text}c"), Value::Int(3)),
        ]);
        assert_eq!(rendered, expected);
    }
    // It merges nothing.
    let merged = rendered("{{ x }}: {a: 1}\n", "<<");
    assert_eq!(
        merged,
        Value::map([("<<", Value::map([("a", Value::Int(1))]))])
    );
    assert_eq!(
        error("{x: 'a b'}", "a b: 1\n{{ x }}: 2\n"),
        "/srv/pillar/a.sls:2:4: \"a b\" occurs twice once data is put in"
    );
}

#[test]
fn a_container_is_printed_on_purpose_alone() {
    for (variables, what) in [("{x: {a: 1}}", "mapping"), ("{x: [a]}", "list")] {
        assert_eq!(
            error(variables, "k: 1\nl: {{ x }}\n"),
            format!(
                "/srv/pillar/a.sls:2:7: a {what} is printed, which would be its text: write `|tojson` or `|yaml` behind it \
                 to have its values, or `|string` for its text"
            )
        );
    }
    for filter in [
        "tojson",
        "json",
        "yaml",
        "yaml(false)|indent(4)",
        "tojson(indent=2)|indent(4)",
    ] {
        for text in HOSTILE {
            let x = Value::map([
                (text, Value::texts([text, "yes", "1"])),
                (
                    "n",
                    Value::List(vec![Value::Null, Value::Bool(true), Value::Float(1.5)]),
                ),
            ]);
            let template = format!("k:\n    {{{{ x|{filter} }}}}\n");
            let variables = Value::map([("x", x.clone())]);
            let rendered = render_tree(&[("a.sls", &template)], Document::Pillar, variables);
            let rendered =
                rendered.unwrap_or_else(|error| panic!("{template:?} {text:?}: {error}"));
            let k = rendered.get("k").unwrap();
            assert_eq!(k.get(text), x.get(text), "{filter}");
            assert_eq!(k.get("n"), x.get("n"), "{filter}");
        }
    }
}

#[test]
fn json_within_a_text_is_json() {
    for text in HOSTILE {
        for template in ["k: '{{ x|tojson }}'\n", "k: |\n  {{ x|tojson }}\n"] {
            let k = value_of_k(template, text);
            let read = saline_data::json::read(k.as_str().unwrap().as_bytes()).unwrap();
            assert_eq!(read, Value::from(text));
        }
        // Its quotes do not end the template's.
        assert!(with("{x: a}", "k: \"{{ x|tojson }}\"\n").is_err());
        let quoted = render_tree(
            &[("a.sls", "- \"{{ x|tojson }}\"\n")],
            Document::Pillar,
            data(text),
        );
        assert!(quoted.is_err(), "{text:?}");
    }
}

#[test]
fn data_is_no_anchor_alias_tag_or_mark_of_a_block() {
    for template in [
        "a: &z {b: 1}\nk: *{{ x }}\n",
        "k: !{{ x }} 1\n",
        "k: !!{{ x }} [1]\n",
        "k: |{{ x }}\n  1\n",
    ] {
        for text in ["z z", "&z", "- z"] {
            let rendered = render_tree(&[("a.sls", template)], Document::Pillar, data(text));
            assert!(rendered.is_err(), "{template:?} {text:?} {rendered:?}");
        }
    }
}

#[test]
fn data_is_not_rendered_as_a_template() {
    let files = [
        (
            "a.sls",
            "k: {{ x }}\n{% set y %}{{ x }}{% endset %}l: {{ y }}\n{% include 'b.sls' %}",
        ),
        ("b.sls", "m: {{ x }}\n"),
    ];
    for text in ["{{ 7 * 7 }}", "{% raw %}", "{#", "{{"] {
        let rendered = render_tree(&files, Document::Pillar, data(text)).unwrap();
        for key in ["k", "l", "m"] {
            assert_eq!(rendered.get(key), Some(&Value::from(text)));
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_not_printed() {
    let bytes = Value::map([("x", Value::Bytes(b"a\xff".to_vec()))]);
    let rendered = |template: &str| {
        let files = [("a.sls", template)];
        render_tree(&files, Document::Text, bytes.clone())
    };
    for template in [
        "\n{{ x }}",
        "\n{{ x|tojson }}",
        "\n{{ {'k': x}|yaml }}",
        "\n{{ [x]|yaml(false) }}",
    ] {
        let error = rendered(template).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("/srv/pillar/a.sls:2:") && error.contains("write `|base64_encode`"),
            "{template}: {error}"
        );
    }
    // A part of a text is what Python writes.
    let part = r"b'a\xff'";
    for template in [
        "{{ x|string }}",
        "{{ '' ~ x }}",
        "{{ '%s'|format(x) }}",
        "{{ [x]|join(',') }}",
    ] {
        assert_eq!(rendered(template), Ok(part.into()), "{template}");
    }
    assert_eq!(rendered("{{ x|base64_encode }}"), Ok("Yf8=".into()));
    assert_eq!(
        rendered("{{ 'ab c'|base64_encode }}"),
        Ok("YWIgYw==".into())
    );
    assert_eq!(
        rendered("{{ x is defined }} {{ 1 if x }}"),
        Ok("True 1".into())
    );
}

#[test]
fn the_name_of_a_file_that_comes_from_data_is_below_the_roots() {
    for text in ["../b.sls", "/../b.sls", "salt://../b.sls"] {
        let files = [("a.sls", "{% include x %}\n"), ("b.sls", "k: 1\n")];
        let error = render_tree(&files, Document::Pillar, data(text)).unwrap_err();
        assert!(error.message.contains("leads out of the roots"), "{error}");
    }
}

#[test]
fn a_top_file_and_an_include_take_words_alone_from_data() {
    for (template, document) in [
        ("base:\n  {{ x }}:\n    - a\n", Document::Top),
        ("base:\n  '*':\n    - {{ x }}\n", Document::Top),
        ("include:\n  - {{ x }}\n", Document::Pillar),
        ("include:\n  - a:\n      key: {{ x }}\n", Document::Pillar),
    ] {
        let files = [("a.sls", template)];
        let error = render_tree(&files, document, data("a b")).unwrap_err();
        assert!(error.message.contains("takes only words"), "{error}");
        assert!(!error.message.contains("saline"), "{error}");
        assert!(render_tree(&files, document, data("a-b")).is_ok());
    }
    for template in [
        "{{ x }}: [a]\n",
        "{{ x|tojson }}: [a]\n",
        "'{{ x }}': [a]\n",
    ] {
        let error = with("{x: include}", template).unwrap_err();
        assert!(error.message.contains("comes from data"), "{error}");
    }
    let twice = with("{x: include}", "include: [b]\n{{ x }}: [a]\n").unwrap_err();
    assert!(twice.message.contains("occurs twice"), "{twice}");
    let rendered = with("{x: ' include'}", "{{ x }}: [a]\n").unwrap();
    assert!(rendered.get("include").is_none());
}

#[test]
fn a_placeholder_cannot_be_forged() {
    for text in [
        "saline00000000000000000000000000000000n0x",
        "salinen0x",
        "saline",
    ] {
        assert_eq!(
            value_of_k("k: {{ x }} {{ 'a b' }}\n", text),
            Value::from(format!("{text} a b"))
        );
    }
    // One rendering says nothing about the next: the template cannot keep it, and data was there before.
    let text = value_of_k("k: {{ x }}\n", "a b");
    assert_eq!(text, Value::from("a b"));
}

#[test]
fn a_word_is_a_scalar_wherever_it_stands_and_has_the_type_that_yaml_gives_it() {
    for (text, expected) in [
        ("yes", "true"),
        ("8080", "8080"),
        ("1e3", "'1e3'"),
        ("1.5", "1.5"),
        ("0x1F", "31"),
        ("null", "null"),
        ("2026-01-01", "'2026-01-01'"),
        ("1_000", "'1_000'"),
        ("a@b.c/d+e-f", "a@b.c/d+e-f"),
        ("~", "'~'"),
        ("", "''"),
    ] {
        let expected = yaml::parse(expected).unwrap();
        assert_eq!(value_of_k("k: {{ x }}\n", text), expected, "{text}");
        assert_eq!(value_of_k("k: '{{ x }}'\n", text), Value::from(text));
        assert_eq!(value_of_k("k: {{ x|tojson }}\n", text), Value::from(text));
        assert_eq!(
            value_of_k("k: {{ x|yaml_encode }}\n", text),
            Value::from(text)
        );
    }
    // Nothing is left out in the place of an empty text, so that nothing moves up.
    assert_eq!(
        rendered("k:\n  {{ x }} - a\n", "").get("k"),
        Some(&Value::from(" - a"))
    );
}

proptest::proptest! {
    #[test]
    fn any_text_stays_one_scalar(text in "\\PC{0,20}|[ -~\n:#{}\\[\\]-]{0,20}") {
        proptest::prop_assume!(!crate::placeholders::is_word(&text));
        for template in ["k: {{ x }}\n", "k: '{{ x }}'\n", "k: {{ x|tojson }}\n", "k: {{ x|yaml(false) }}\n"] {
            let value = value_of_k(template, &text);
            proptest::prop_assert_eq!(value, Value::from(text.as_str()));
        }
        let expected = Value::map([(text.as_str(), Value::Int(1))]);
        proptest::prop_assert_eq!(rendered("{{ x }}: 1\n", &text), expected);
    }
}

/// Expressions over `y` that would show a placeholder, or cut one in two: a filter of each kind, tests, operators, subscripts, methods,
/// loops, and the same of a list or a mapping with `y` in it.
const READING: [&str; 94] = [
    "y|length",
    "y|upper",
    "y|lower",
    "y|title",
    "y|capitalize",
    "y|reverse",
    "y|list|tojson",
    "y|first",
    "y|last",
    "y|batch(5)|list|tojson",
    "y|slice(2)|list|tojson",
    "y|unique|list|tojson",
    "y|sort|tojson",
    "y|truncate(6)",
    "y|truncate(6, true, '')",
    "y|replace('p', 'zz')",
    "y|replace('saline', 'zz')",
    "y|wordcount",
    "y|center(30)",
    "y|tojson",
    "y|json",
    "y|yaml",
    "y|string|length",
    "y|base64_encode",
    "y|trim('a')",
    "y|striptags",
    "y|int(7)",
    "y|float(7)",
    "y|to_bool",
    "y|join('-')",
    "y|map('upper')|join",
    "y|select('equalto', 'p')|list|length",
    "y|min",
    "y|max",
    "y|random|length",
    "y|escape|length",
    "y|e|length",
    "y|forceescape|length",
    "y|safe|length",
    "y|urlize|length",
    "y|split(' ')|tojson",
    "y|lines|tojson",
    "y|format(1)",
    "'%s'|format(y)|length",
    "y|attr('upper')",
    "y|list|length",
    "y == 'ap: qb'",
    "y != 'ap: qb'",
    "'ap: qb' == y",
    "y < 'b'",
    "y > 's'",
    "y in ['ap: qb']",
    "'p: q' in y",
    "'saline' in y",
    "y is eq 'ap: qb'",
    "y is startingwith 'ap'",
    "y is endingwith 'qb'",
    "y is string",
    "y is lower",
    "y is in ['ap: qb']",
    "(y ~ '')|length",
    "y[0]",
    "y[1]",
    "(y ~ 'c')[1:3]",
    "[y][0][1:3]",
    "y[1:][:2]",
    "dict([('ap: qb', 1)])[y]",
    "dict([('ap: qb', 1)]).get(y)",
    "dict([(y, 1)])|list|tojson",
    "[[y]]|map('first')|map('length')|first",
    "y[1:4]",
    "y[-2:]",
    "y[::2]",
    "y.upper()",
    "y.split(': ')|tojson",
    "y.find('q')",
    "y.startswith('ap')",
    "y.replace('p', 'z')",
    "y.zfill(30)",
    "y.partition(':')[0]",
    "'z'.join(y)",
    "'{}'.format(y)|length",
    "{'ap: qb': 1}[y]",
    "{'ap: qb': 1}.get(y)",
    "{y: 1}['ap: qb']",
    "[y]|map('length')|first",
    "[y]|map('upper')|first",
    "[y]|map('trim')|map('length')|first",
    "[y, 'b']|sort|last",
    "[y, 'ap: qb']|unique|list|length",
    "[y] == ['ap: qb']",
    "['ap: qb'].index(y)",
    "[y].index('ap: qb')",
    "'ap: qb' in [y]",
];

#[test]
fn captured_text_is_read_as_the_data_that_it_says() {
    // What is captured in each way, and the same as data.
    let captured = [
        "{% set y %}a{{ x }}b{% endset %}",
        "{% macro m() %}a{{ x }}b{% endmacro %}{% set y = m() %}",
        "{% macro n() %}{{ caller() }}{% endmacro %}{% set y %}{% call n() %}a{{ x }}b{% endcall %}{% endset %}",
        "{% set y %}{% filter indent(2) %}a{{ x }}b{% endfilter %}{% endset %}",
    ];
    let data = "{% set y = 'a' ~ x ~ 'b' %}";
    let rendered = |set: &str, reading: &str| {
        let template = format!("{set}k: {{{{ {reading} }}}}\n");
        let rendered = with("{x: 'p: q'}", &template);
        rendered.map_err(|error| error.message)
    };
    let mut wrong = Vec::new();
    for reading in READING {
        let expected = rendered(data, reading);
        for set in captured {
            let found = rendered(set, reading);
            if found.is_ok() != expected.is_ok() || found.is_ok() && found != expected {
                wrong.push(format!("{reading} of {set}: {found:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
