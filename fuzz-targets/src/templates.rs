//! Templates, and data that they print.

use std::sync::Arc;

use saline_data::Value;
use saline_render::{Document, File, Files, Renderer, Request};

/// Templates that print `x` as the value of `k`.
const PRINTING: [&str; 6] = [
    "k: {{ x }}\n",
    "k: '{{ x }}'\n",
    "{k: \"{{ x }}\"}\n",
    "k: {{ x|tojson }}\n",
    "k: {{ x|yaml(false) }}\n",
    "k: {% set y %}{{ x }}{% endset %}{{ y }}\n",
];

struct OneFile(String);

impl Files for OneFile {
    fn read(&self, name: &str) -> Result<Option<File>, String> {
        Ok((name == "a.sls").then(|| File {
            path: name.to_owned(),
            text: self.0.clone(),
        }))
    }
}

fn render(template: &str, data: &str) -> Result<Value, saline_render::RenderError> {
    render_as(Document::Pillar, template, data)
}

fn render_as(
    document: Document,
    template: &str,
    data: &str,
) -> Result<Value, saline_render::RenderError> {
    let files: Arc<dyn Files> = Arc::new(OneFile(template.to_owned()));
    let request = Request {
        name: "a.sls".to_owned(),
        document,
        variables: Value::map([("x", Value::from(data))]),
    };
    Renderer::new().render(&files, &request)
}

/// Renders any template: an error is one line.
pub(crate) fn templates(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // The engine's stack is as deep as a template nests, and a process of its own has a larger one.
    if text.len() > 4096 {
        return;
    }
    if let Err(error) = render(text, "a: b") {
        assert_eq!(error.to_string().lines().count(), 1);
    }
    saline_render::lint::lint("a.sls", text);
}

/// Prints any data: it stays one scalar, and in a text it is as it was.
pub(crate) fn printed_data(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let rendered = render_as(Document::Text, "[{{ x }}]\n", text);
    assert_eq!(rendered, Ok(Value::from(format!("[{text}]\n"))));
    for template in PRINTING {
        let rendered = render(template, text).expect("a template that prints a text");
        let Value::Map(entries) = rendered else {
            panic!("{template} is no mapping");
        };
        let [(key, value)] = entries.as_slice() else {
            panic!("{template} has other entries");
        };
        assert_eq!(key, "k");
        match value {
            Value::Text(value) => assert_eq!(value, text),
            // A word has the type that YAML gives it.
            _ => assert_eq!(*value, saline_data::yaml::resolve(text)),
        }
    }
}

pub(crate) fn template_seeds() -> Vec<Vec<u8>> {
    let own = [
        "{% for i in range(3) if i %}{{ loop.index }}: {{ x }}\n{% endfor %}",
        "{% macro m(y=1) -%}{{ y }}{%- endmacro %}k: {{ m(x)|indent(2) }}\n",
        "{% load_yaml as y %}a: [{{ x }}]{% endload %}{{ y|yaml(false) }}",
        "{% import_yaml './b' as y %}{% include 'a.sls' %}{% from x import y %}",
        "{% set l = [] %}{% do l.append({'a': l}) %}{{ l|tojson(indent=2) }}",
        "{% raw %}{{{% endraw %}{# #}{{ salt['pillar.get']('a:b', {}, merge=True) }}",
        "#!jinja|yaml\na: &a {{ 1 }}\nb: *a\n<<: {c: 1}\n",
        "{% filter upper %}{{ x }}{% endfilter %}{% if x == 'a' is eq 'b' %}{% endif %}",
        "{{ '%s'|format(x) ~ 'a'.join([x]) }}",
        "{% set x",
        "{{",
    ];
    let all = own.iter().chain(&PRINTING);
    all.map(|template| template.as_bytes().to_vec()).collect()
}

pub(crate) fn data_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "a: b",
        "- a",
        "{{ x }}",
        "x\ny: z",
        "---\n",
        "'",
        "\"\\",
        "yes",
        "1e3",
        "",
        "<<",
        "&a",
        "*a",
        "!!map",
        "# a",
        "\u{2028}",
        "\r\n",
        "\t",
        "\u{feff}",
        "salinen0x",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
