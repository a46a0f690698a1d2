//! Finds the place in the templates from which a part of a rendered file comes.

use std::sync::Arc;

use minijinja::{OutputSpan, OutputSpanKind};
use saline_data::yaml::{Content, Node, Position, parse_nodes};
use serde::{Deserialize, Serialize};

use super::{Header, Renderer, Request, header, is_template};
use crate::error::Place;
use crate::files::Files;

/// A step into a rendered file: from a mapping or a list to something in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// To what a key of a mapping has. As the last step it means the key itself.
    Key(String),
    /// To a member of a list, from 0.
    Index(usize),
}

impl Step {
    /// Returns the step to what a key has.
    pub fn key(name: impl Into<String>) -> Self {
        Self::Key(name.into())
    }
}

impl Renderer {
    /// Returns the place from which a part of a rendered file comes: where the template writes it, also by an expression or in a
    /// file that it includes. No steps are the whole file. None if the file is not rendered now or has no such part.
    pub fn place_of(
        &mut self,
        files: &Arc<dyn Files>,
        request: &Request,
        part: &[Step],
    ) -> Option<Place> {
        // This reads the templates, and names the placeholders.
        self.render(files, request).ok()?;
        let source = self.sources.get(&request.name)?;
        let is_plain = !is_template(&source.text) || header(&source.text) == Ok(Header::Yaml);
        if is_plain {
            let position = position_of(&parse_nodes(&source.text).ok()??, part)?;
            return Some(Place {
                file: source.path.clone(),
                line: position.line,
                column: position.column,
            });
        }
        self.printer.placeholders().forget();
        let template = self.environment.get_template(&request.name).ok()?;
        let rendered = template.render_with_spans(self.variables(request));
        let (output, spans) = rendered.ok()?;
        let node = self
            .printer
            .placeholders()
            .put_in(parse_nodes(&output).ok()??);
        let position = position_of(&node.ok()?, part)?;
        self.place_in_output(&output, &spans, position, &request.name)
    }

    /// Returns the place in a template from which a place in the output comes.
    pub(super) fn place_in_output(
        &self,
        output: &str,
        spans: &[OutputSpan],
        position: Position,
        name: &str,
    ) -> Option<Place> {
        let line = usize::try_from(position.line).unwrap_or(usize::MAX);
        let column = usize::try_from(position.column).unwrap_or(usize::MAX);
        let mut lines = output.split_inclusive('\n');
        let before: usize = lines.by_ref().take(line - 1).map(str::len).sum();
        let inside = lines.next().map_or(0, |line| {
            let mut chars = line.char_indices();
            chars.nth(column - 1).map_or(line.len(), |(at, _)| at)
        });
        let offset = before + inside;
        let after = spans.partition_point(|span| span.output_range().start <= offset);
        let Some(span) = spans.get(after.saturating_sub(1)) else {
            return self.sources.place(name, 0);
        };
        let start = span.source_range().start;
        let within = match span.kind() {
            OutputSpanKind::Raw => {
                let length = span.source_range().len();
                (offset - span.output_range().start.min(offset)).min(length)
            }
            _ => 0,
        };
        self.sources.place(span.name(), start + within)
    }
}

/// Returns the position of a part of a document.
fn position_of(document: &Node, part: &[Step]) -> Option<Position> {
    let (mut node, mut position) = (document, document.position);
    for step in part {
        (position, node) = match (step, &node.content) {
            (Step::Key(name), Content::Map(entries)) => {
                let (key, node) = entries.iter().find(|(key, _)| key.name == *name)?;
                (key.position, node)
            }
            (Step::Index(index), Content::List(members)) => {
                let node = members.get(*index)?;
                (node.position, node)
            }
            _ => return None,
        };
    }
    Some(position)
}
