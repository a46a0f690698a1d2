//! Templates whose output is a text, and no YAML.

use saline_data::{Value, yaml};

use super::render_tree;
use crate::{Document, RenderError};

fn text(variables: &str, files: &[(&str, &str)]) -> Result<String, RenderError> {
    let variables = yaml::parse(variables).unwrap();
    render_tree(files, Document::Text, variables).map(|value| match value {
        Value::Text(text) => text,
        other => panic!("{other:?}"),
    })
}

fn of(variables: &str, template: &str) -> String {
    text(variables, &[("a.conf", template)]).unwrap()
}

#[test]
fn data_stands_in_a_text_as_it_is() {
    let said = r#"{a: "x: [1] {{ b }}\n", n: 7, truth: true, nothing: null, empty: ""}"#;
    assert_eq!(of(said, "v={{ a }};\n"), "v=x: [1] {{ b }}\n;\n");
    assert_eq!(
        of(said, "{{ n }} {{ truth }} {{ nothing }} [{{ empty }}]"),
        "7 True None []"
    );
    assert_eq!(of(said, r#"{{ a|tojson }}"#), r#""x: [1] {{ b }}\n""#);
    assert_eq!(
        of(
            said,
            "{% set x %}<{{ a }}>{% endset %}{{ x }}{{ x|length }}"
        ),
        "<x: [1] {{ b }}\n>17"
    );
    assert_eq!(of("{}", "no template: {a\n"), "no template: {a\n");
    assert_eq!(of("{}", ""), "");
}

#[test]
fn a_text_is_escaped_for_html_as_jinja_does() {
    let said = r#"{a: "<a>&\"'/", n: -7, truth: true, nothing: null, l: [1]}"#;
    let escaped = "&lt;a&gt;&amp;&#34;&#39;/";
    for expression in ["a|e", "a|escape", "a|forceescape", "(a ~ '')|e"] {
        let template = format!("<p>{{{{ {expression} }}}}</p>");
        assert_eq!(of(said, &template), format!("<p>{escaped}</p>"));
    }
    assert_eq!(
        of(said, "{% set x %}<b>{{ a }}{% endset %}{{ x }} {{ x|e }}"),
        format!("<b><a>&\"'/ &lt;b&gt;{escaped}")
    );
    assert_eq!(
        of(said, "{% filter e %}<b>{{ a }}{% endfilter %}"),
        format!("&lt;b&gt;{escaped}")
    );
    assert_eq!(
        of(said, "{{ n|e }} {{ truth|e }} {{ nothing|e }}"),
        "-7 True None"
    );
    assert_eq!(of(said, "{{ 'a'|e|length }} {{ '<'|e|length }}"), "1 4");
    for (expression, why) in [
        ("l|e", "1:6: this takes one value, no list or mapping"),
        ("none_such|e", "1:14: undefined value"),
    ] {
        let template = format!("{{{{ {expression} }}}}");
        let error = text(said, &[("a.conf", &template)]).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn the_newline_at_the_end_and_the_first_line_of_a_script_stay() {
    let script = "#!/bin/sh\necho {{ n }}\n";
    assert_eq!(of("{n: 1}", script), "#!/bin/sh\necho 1\n");
    assert_eq!(of("{n: 1}", "{{ n }}"), "1");
    assert_eq!(of("{n: 1}", "{{ n }}\n\n"), "1\n\n");
    let included = [
        ("a", "{% include 'b' %}\n"),
        ("b", "#!/usr/bin/env x\n{{ n }}"),
    ];
    assert_eq!(text("{n: 1}", &included).unwrap(), "#!/usr/bin/env x\n1\n");
}

#[test]
fn an_error_in_a_text_has_its_place_and_its_size_is_bounded() {
    let error = text("{}", &[("a.conf", "\n\n{{ b.c }}")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/srv/pillar/a.conf:3:4: `b` is undefined"
    );
    let repeated = "{% set x %}{{ a }}{% endset %}{% for i in range(100) %}{{ x }}{% endfor %}";
    let variables = format!("{{a: \"{}\"}}", "y ".repeat(500_000));
    let error = text(&variables, &[("a.conf", repeated)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/srv/pillar/a.conf:1:1: the rendered text has more than 16777216 bytes"
    );
    // Not data: the engine's own writer ends it.
    let error = text("{}", &[("a.conf", "{{ 'x' * 17000000 }}")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/srv/pillar/a.conf:1:1: the rendered text has more than 16777216 bytes"
    );
}
