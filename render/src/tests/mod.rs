//! Templates of our own, with what real pillars use.

use std::collections::HashMap;
use std::sync::Arc;

use saline_data::{Value, yaml};

use crate::{Document, File, Files, Place, RenderError, Renderer, Request, Step};

mod constructs;
mod errors;
mod formulas;
mod reactions;
mod structure;
mod texts;

/// Files in memory.
struct Tree(HashMap<String, String>);

impl Files for Tree {
    fn read(&self, name: &str) -> Result<Option<File>, String> {
        let text = self.0.get(name);
        Ok(text.map(|text| File {
            path: format!("/srv/pillar/{name}"),
            text: text.clone(),
        }))
    }
}

/// Returns these files, and the request to render the first one.
fn ordered(
    files: &[(&str, &str)],
    document: Document,
    variables: Value,
) -> (Arc<dyn Files>, Request) {
    let tree = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let request = Request {
        name: files[0].0.to_owned(),
        document,
        variables,
    };
    (Arc::new(Tree(tree.collect())), request)
}

fn render_tree(
    files: &[(&str, &str)],
    document: Document,
    variables: Value,
) -> Result<Value, RenderError> {
    let (tree, request) = ordered(files, document, variables);
    Renderer::new().render(&tree, &request)
}

/// Returns the place of a part of the first file.
fn place_of(files: &[(&str, &str)], part: &[Step]) -> Option<Place> {
    let (tree, request) = ordered(files, Document::Pillar, Value::Map(Vec::new()));
    Renderer::new().place_of(&tree, &request, part)
}

/// Renders a pillar with these variables, as YAML.
fn with(variables: &str, template: &str) -> Result<Value, RenderError> {
    let variables = yaml::parse(variables).unwrap();
    render_tree(&[("a.sls", template)], Document::Pillar, variables)
}

/// Asserts that a template renders as this YAML is parsed.
#[track_caller]
fn same(variables: &str, template: &str, expected: &str) {
    let expected = yaml::parse(expected).unwrap();
    assert_eq!(with(variables, template), Ok(expected), "{template}");
}

/// Returns the line that an operator gets.
#[track_caller]
fn error(variables: &str, template: &str) -> String {
    with(variables, template).unwrap_err().to_string()
}
