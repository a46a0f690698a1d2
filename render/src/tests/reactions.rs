//! What an event says is never a name in a reaction.

use saline_data::yaml;

use super::*;

fn reaction(data: &str, template: &str) -> Result<Value, RenderError> {
    let data = yaml::parse(&format!("{{tag: myco/x, data: {data}}}")).unwrap();
    render_tree(&[("a.sls", template)], Document::Reactor, data)
}

#[test]
fn data_is_a_value_whatever_it_holds() {
    let template = "highstate:\n  local.cmd.run:\n    - tgt: {{ data['id'] }}\n    - args:\n      - {{ data.x }}\n      - cwd: {{ data.y|tojson }}\n      - n: {{ data.n }}\n";
    let data = r#"{id: "123", x: "a: b\n- c", y: {"k: v": "{{ tag }}"}, n: 7}"#;
    let expected = r#"{highstate: {local.cmd.run: [{tgt: "123"}, {args: ["a: b\n- c", {cwd: {"k: v": "{{ tag }}"}}, {n: 7}]}]}}"#;
    assert_eq!(reaction(data, template), Ok(yaml::parse(expected).unwrap()));
}

#[test]
fn data_is_no_name_also_where_it_is_a_word() {
    for (place, template) in [
        (
            "the name of a block",
            "{{ data.x }}:\n  local.test.ping: []\n",
        ),
        ("the name of a block", "{{ data|tojson }}"),
        (
            "the name of a block",
            "{% for x in [data.x] %}do_{{ x }}:\n  local.test.ping: []\n{% endfor %}",
        ),
        (
            "the name of a function",
            "a:\n  local.{{ data.x }}:\n    - tgt: '*'\n",
        ),
        ("the name of a function", "a: {{ {data.x: []}|tojson }}\n"),
        (
            "the name of a function",
            "a:\n  {% set f = data.x %}\n  {{ 'local.' ~ f }}: []\n",
        ),
        (
            "a keyword",
            "a:\n  local.test.ping:\n    - {{ data.x }}: '*'\n",
        ),
        ("a keyword", "a:\n  local.test.ping: {{ data|tojson }}\n"),
        (
            "the name of an argument",
            "a:\n  local.test.ping:\n    - kwarg: {{ data|tojson }}\n",
        ),
        (
            "the name of an argument",
            "a:\n  local.test.ping:\n    - args:\n      - {{ data|yaml }}\n",
        ),
        (
            "the name of an argument",
            "a:\n  local.test.ping:\n    args: [{ {{ data.x }}: 1 }]\n",
        ),
    ] {
        let error = reaction("{x: run}", template).unwrap_err().to_string();
        assert!(error.contains(place), "{template}: {error}");
        assert!(error.contains("/srv/pillar/a.sls:"), "{error}");
    }
}

#[test]
fn names_of_the_template_and_numbers_are_names() {
    let template = "{% for x in data.l %}\ndo_{{ loop.index }}:\n  local.test.echo:\n    - tgt: a\n    - args: [{{ x }}]\n{% endfor %}";
    let expected = "{do_1: {local.test.echo: [{tgt: a}, {args: [p]}]}, do_2: {local.test.echo: [{tgt: a}, {args: ['q: r']}]}}";
    assert_eq!(
        reaction("{l: [p, 'q: r']}", template),
        Ok(yaml::parse(expected).unwrap())
    );
}
