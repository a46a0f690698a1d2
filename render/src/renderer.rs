//! Renders a file: through the template engine, then as YAML, then the data is put in.

mod place;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior};
use minijinja_contrib::pycompat::unknown_method_callback;
use saline_data::yaml::{Content, Key, Node, Position, YamlError, parse_nodes};
use serde::{Deserialize, Serialize};

use crate::containers::from_data;
use crate::edits::Edited;
use crate::error::{Place, RenderError};
use crate::files::{Files, normalized};
use crate::header::{Header, header};
use crate::placeholders::INCLUDE;
use crate::printing::Printer;
use crate::salt_functions::{Salt, absent_function};
use crate::syntax::NameKind;
use crate::{
    MAX_FILE, MAX_FUEL, MAX_OUTPUT, filters, jinja, salt_tags, syntax, text_methods, undefined,
};

pub use place::Step;

/// The kind of a file, which decides what may stand in it in the place of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Document {
    /// Data may be any scalar, and a part of any key; under `include` there is none but words.
    Pillar,
    /// A top file: data is words alone.
    Top,
    /// A text that is no YAML, such as a file of a configuration: data stands in it as it is.
    Text,
    /// What a reactor does: no text of data is a part of the name of a block, a function, a keyword or an argument.
    Reactor,
}

/// An order to render a file.
#[derive(Debug, Clone)]
pub struct Request {
    /// The name of the file, as [`Files`] knows it: `web/init.sls`.
    pub name: String,
    /// The kind of the file.
    pub document: Document,
    /// The variables of the template: a mapping, in which `grains`, `pillar` and `opts` are also what the functions read.
    pub variables: saline_data::Value,
}

/// Renders files, one at a time, and keeps the compiled templates.
pub struct Renderer {
    environment: Environment<'static>,
    printer: Printer,
    sources: Arc<Sources>,
}

/// The templates that were read, as they were and as they are compiled.
#[derive(Default)]
struct Sources {
    files: Mutex<Option<Arc<dyn Files>>>,
    /// Whether the templates are texts, whose first line names no renderer.
    are_texts: AtomicBool,
    read: Mutex<HashMap<String, Arc<Source>>>,
}

/// A template as it was, and its two forms after that.
struct Source {
    /// The path of the file, as the operator knows it.
    path: String,
    text: String,
    tags: Edited,
    filters: Edited,
    /// Whether the template is well-formed.
    is_valid: bool,
}

impl Source {
    /// Returns the beginning of the file: the place of what no line is to blame for.
    fn beginning(&self) -> Place {
        Place {
            file: self.path.clone(),
            line: 1,
            column: 1,
        }
    }
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is replaced as a whole.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sources {
    fn get(&self, name: &str) -> Option<Arc<Source>> {
        locked(&self.read).get(name).cloned()
    }

    /// Reads a template and puts Salt's constructs in words of the engine's. None if there is no such file.
    fn load(&self, name: &str) -> Result<Option<Arc<Source>>, Error> {
        let failed = |why: String| Error::new(ErrorKind::InvalidOperation, why);
        let Some(files) = locked(&self.files).clone() else {
            return Ok(None);
        };
        let name = normalized("", name).map_err(failed)?;
        if let Some(source) = self.get(&name).filter(|source| source.is_valid) {
            return Ok(Some(source));
        }
        let Some(file) = files.read(&name).map_err(failed)? else {
            return Ok(None);
        };
        if file.text.len() > MAX_FILE {
            return Err(failed(format!(
                "{} is larger than {MAX_FILE} bytes",
                file.path
            )));
        }
        if let Err(why) = header(&file.text)
            && !self.are_texts.load(Ordering::Relaxed)
        {
            return Err(failed(format!("{}:1:1: {why}", file.path)));
        }
        let tags = salt_tags::rewrite(&file.text);
        let mut source = Source {
            path: file.path,
            text: file.text,
            filters: Edited::new(&tags.text, Vec::new()),
            tags,
            is_valid: true,
        };
        let syntax = syntax::read(&name, &source.tags.text);
        source.is_valid = syntax.is_ok();
        let syntax = syntax.map(|syntax| source.filters = syntax.edited);
        let source = Arc::new(source);
        // Also of a malformed one: the error's place is found in it.
        locked(&self.read).insert(name, Arc::clone(&source));
        syntax.map(|()| Some(source))
    }

    /// Returns the place of an offset in the compiled form of a template.
    fn place(&self, name: &str, offset: usize) -> Option<Place> {
        let source = self.get(name)?;
        let offset = source.tags.original(source.filters.original(offset));
        let before = source.text.get(..offset).unwrap_or(&source.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Some(Place {
            file: source.path.clone(),
            line: before.matches('\n').count() as u64 + 1,
            column: before[line_start..].chars().count() as u64 + 1,
        })
    }

    /// Returns the place that an error of the engine names.
    fn place_of(&self, error: &Error) -> Option<Place> {
        let name = error.name()?;
        let line = error.line().unwrap_or(1) as u64;
        let source = self.get(name)?;
        let found = error
            .range()
            .and_then(|range| self.place(name, range.start));
        match found {
            Some(place) if place.line == line => Some(place),
            _ => Some(Place {
                file: source.path.clone(),
                line,
                column: 1,
            }),
        }
    }

    /// Returns the name of the variable whose lack is the cause of an error; none where the message has it, or it is another error.
    fn undefined(&self, cause: &Error, message: &str) -> Option<String> {
        if !message.contains("undefined") || message.contains("` is undefined") {
            return None;
        }
        undefined::variable(cause, &self.get(cause.name()?)?.filters.text)
    }

    /// Returns what an operator is told of an error of the engine.
    fn error(&self, error: &Error) -> RenderError {
        let (mut chain, mut not_written) = (vec![error], None);
        let mut next = std::error::Error::source(error);
        while let Some(inner) = next {
            chain.extend(inner.downcast_ref::<Error>());
            not_written = inner.downcast_ref::<io::Error>().or(not_written);
            next = inner.source();
        }
        let cause = chain.last().copied().unwrap_or(error);
        let message = match (cause.kind(), cause.detail()) {
            // The engine does not say what `Bounded` says.
            _ if not_written.is_some() => not_written.map(ToString::to_string).unwrap_or_default(),
            (ErrorKind::OutOfFuel, _) => {
                "the template takes too many steps, or makes too much text".to_owned()
            }
            (
                ErrorKind::TemplateNotFound
                | ErrorKind::InvalidOperation
                | ErrorKind::UndefinedError,
                Some(detail),
            ) => absent_function(detail).unwrap_or_else(|| detail.to_owned()),
            (kind, Some(detail)) => format!("{kind}: {detail}"),
            (kind, None) => kind.to_string(),
        };
        let message = match self.undefined(cause, &message) {
            Some(name) if cause.detail().is_none() => format!("`{name}` is undefined"),
            Some(name) => format!("{message} (`{name}` is undefined)"),
            None => message,
        };
        let mut places: Vec<Place> = Vec::new();
        for error in chain.iter().rev() {
            let place = self.place_of(error);
            places.extend(place.filter(|place| places.last() != Some(place)));
        }
        let mut places = places.into_iter();
        RenderError {
            message,
            place: places.next(),
            included_from: places.collect(),
        }
    }
}

impl Renderer {
    /// Creates a renderer.
    pub fn new() -> Self {
        let sources = Arc::new(Sources::default());
        let printer = Printer::default();
        let mut environment = Environment::new();
        environment.set_debug(true);
        environment.set_fuel(Some(MAX_FUEL));
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // What macros, `set` blocks and includes write is marked as text of the template by this.
        environment.set_auto_escape_callback(|_| AutoEscape::Custom("yaml".into()));
        let own = printer.clone();
        environment.set_formatter(move |out, state, value| own.print(out, state, value));
        let own = printer.clone();
        environment.set_unknown_method_callback(move |state, value, method, args| {
            method_of_text(&own, state, value, method, args)
        });
        environment.set_path_join_callback(|name, parent| {
            match normalized(parent, name) {
                Ok(name) => Cow::Owned(name),
                // The loader tells what is wrong with it.
                Err(_) => Cow::Borrowed(name),
            }
        });
        let own = Arc::clone(&sources);
        environment.set_loader(move |name| {
            let source = own.load(name)?;
            Ok(source.map(|source| source.filters.text.clone()))
        });
        filters::add(&mut environment, &printer);
        jinja::add(&mut environment);
        // It prints all variables, secret ones too.
        environment.remove_global("debug");
        Self {
            environment,
            printer,
            sources,
        }
    }

    /// Forgets the compiled templates: the files may have changed.
    pub fn forget_templates(&mut self) {
        self.environment.clear_templates();
        locked(&self.sources.read).clear();
    }

    /// Renders a file. An empty one is [`saline_data::Value::Null`], and an empty text.
    ///
    /// # Errors
    /// When there is no such file, or it cannot be rendered, with the place in the file where that is known.
    pub fn render(
        &mut self,
        files: &Arc<dyn Files>,
        request: &Request,
    ) -> Result<saline_data::Value, RenderError> {
        *locked(&self.sources.files) = Some(Arc::clone(files));
        let is_text = request.document == Document::Text;
        if self.sources.are_texts.swap(is_text, Ordering::Relaxed) != is_text {
            self.forget_templates();
        }
        let renewed = self
            .printer
            .placeholders()
            .renew(request.document == Document::Reactor);
        renewed.map_err(|error| RenderError::new(error.to_string()))?;
        let source = match self.sources.get(&request.name) {
            Some(source) => Some(source),
            None => {
                let loaded = self.sources.load(&request.name);
                loaded.map_err(|error| self.sources.error(&error))?
            }
        };
        let missing = || RenderError::new(format!("there is no file {:?}", request.name));
        let source = source.ok_or_else(missing)?;
        let is_template = is_template(&source.text);
        if is_text {
            return match is_template {
                true => self.text(request, &source),
                false => Ok(source.text.as_str().into()),
            };
        }
        let kind = header(&source.text).map_err(|why| RenderError::at(source.beginning(), why))?;
        if kind == Header::Yaml || !is_template {
            let at = |error: YamlError| {
                let place = Place {
                    file: source.path.clone(),
                    line: error.line,
                    column: error.column,
                };
                RenderError::at(place, error.message)
            };
            let node = parse_nodes(&source.text).map_err(at)?;
            return Ok(node.map_or(saline_data::Value::Null, saline_data::Value::from));
        }
        let engine = |error: Error| self.error_with_data(&error, &request.name);
        let mut output = self.output(request).map_err(engine)?;
        // The engine takes it away, and Salt puts it back: `|+` counts it.
        if source.text.ends_with('\n') {
            output.push('\n');
        }
        let read = self.read(&output, request.document);
        let error = match read {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        // Once more, for the places: the same placeholders come in the same order.
        self.printer.placeholders().forget();
        let template = self
            .environment
            .get_template(&request.name)
            .map_err(engine)?;
        let rendered = template.render_with_spans(self.variables(request));
        let (output, spans) = rendered.map_err(engine)?;
        let message = self
            .printer
            .placeholders()
            .replace(&error.message)
            .into_owned();
        let position = Position {
            line: error.line,
            column: error.column,
        };
        let place = self.place_in_output(&output, &spans, position, &request.name);
        Err(RenderError {
            place,
            ..RenderError::new(message)
        })
    }

    /// Returns what an operator is told of an error of the engine about a file, with data in the place of placeholders.
    fn error_with_data(&self, error: &Error, name: &str) -> RenderError {
        let mut error = self.sources.error(error);
        if error.place.is_none() {
            // Output that is too large is the error of no line.
            error.place = self.sources.get(name).map(|source| source.beginning());
        }
        error.message = self
            .printer
            .placeholders()
            .replace(&error.message)
            .into_owned();
        error
    }

    /// Renders a text, and puts data in the place of placeholders. The newline at its end stays, as in Salt.
    fn text(&self, request: &Request, source: &Source) -> Result<saline_data::Value, RenderError> {
        let output = self.output(request);
        let output = output.map_err(|error| self.error_with_data(&error, &request.name))?;
        let placeholders = self.printer.placeholders();
        if placeholders.replaced_len(&output) > MAX_OUTPUT {
            let message = format!("the rendered text has more than {MAX_OUTPUT} bytes");
            return Err(RenderError::at(source.beginning(), message));
        }
        let mut text = placeholders.replace(&output).into_owned();
        if source.text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text.into())
    }

    fn variables(&self, request: &Request) -> Value {
        let variables = from_data(&request.variables);
        let of = |name: &str| match variables.get_attr(name) {
            Ok(value) if value.kind() == ValueKind::Map => value,
            _ => from_data(&saline_data::Value::Map(Vec::new())),
        };
        let salt = Value::from_object(Salt {
            printer: self.printer.clone(),
            grains: of("grains"),
            pillar: of("pillar"),
            opts: of("opts"),
        });
        let own = minijinja::context! { salt };
        minijinja::context! { ..own, ..variables }
    }

    fn output(&self, request: &Request) -> Result<String, Error> {
        let template = self.environment.get_template(&request.name)?;
        let mut output = Bounded(Vec::new());
        template.render_captured_to(self.variables(request), &mut output)?;
        // The engine writes texts.
        String::from_utf8(output.0)
            .map_err(|error| Error::new(ErrorKind::WriteFailure, error.to_string()))
    }

    /// Parses the output, and puts data in the place of placeholders.
    fn read(&self, output: &str, document: Document) -> Result<saline_data::Value, YamlError> {
        let Some(node) = parse_nodes(output)? else {
            return Ok(saline_data::Value::Null);
        };
        let placeholders = self.printer.placeholders();
        let is_data = |text: &str| placeholders.is_in(text);
        match (document, &node.content) {
            (Document::Top, _) => refuse_data(&node, &is_data, "a top file")?,
            (Document::Pillar, Content::Map(entries)) => {
                let mut entries = entries.iter();
                if let Some((_, node)) = entries.find(|(key, _)| key.name == INCLUDE) {
                    refuse_data(node, &is_data, "`include`")?;
                }
            }
            (Document::Pillar | Document::Text, _) => {}
            (Document::Reactor, _) => {
                refuse_data_in_reaction(&node, &is_data)?;
                return Ok(placeholders.put_in(node)?.into());
            }
        }
        let is_include = |(key, _): &&(Key, Node)| key.name == INCLUDE;
        let written = match &node.content {
            Content::Map(entries) => entries.iter().any(|entry| is_include(&entry)),
            _ => false,
        };
        let node = placeholders.put_in(node)?;
        if let Content::Map(entries) = &node.content
            && let Some((key, _)) = entries.iter().find(is_include).filter(|_| !written)
        {
            let message = format!("the key `{INCLUDE}` comes from data, which includes nothing");
            return Err(key.position.error(message));
        }
        Ok(node.into())
    }
}

impl Renderer {
    /// Returns whether there is a filter or a test with this name.
    pub(crate) fn has(&self, kind: NameKind, name: &str) -> bool {
        let question = match kind {
            NameKind::Filter => "{{ name is filter }}",
            NameKind::Test => "{{ name is test }}",
            NameKind::SaltFunction => return crate::salt_functions::FUNCTIONS.contains(&name),
            NameKind::GrainWithDefault | NameKind::FormattedText => return true,
        };
        let answer = self
            .environment
            .render_str(question, minijinja::context! { name });
        answer.is_ok_and(|answer| answer == "True")
    }
}

/// Whether a text has anything for the template engine.
pub(crate) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|open| text.contains(open))
}

impl Default for Renderer {
    fn default() -> Self {
        Self::new()
    }
}

/// Refuses placeholders in a part of a document.
fn refuse_data(node: &Node, is_data: &dyn Fn(&str) -> bool, place: &str) -> Result<(), YamlError> {
    let refuse = |position: Position, text: &str| {
        match is_data(text) {
        true => Err(position.error(format!(
            "{text:?} comes from data, and {place} takes only words of letters, digits and any of `_.@/+-` from there"
        ))),
        false => Ok(()),
    }
    };
    match &node.content {
        Content::Scalar(saline_data::Value::Text(text)) => refuse(node.position, text),
        Content::Scalar(_) => Ok(()),
        Content::List(nodes) => nodes
            .iter()
            .try_for_each(|node| refuse_data(node, is_data, place)),
        Content::Map(entries) => entries.iter().try_for_each(|(key, node)| {
            refuse(key.position, &key.name)?;
            refuse_data(node, is_data, place)
        }),
    }
}

/// The keywords of a reaction whose entries are the arguments of its function.
const ARGUMENTS: [&str; 3] = ["args", "arg", "kwarg"];

/// Refuses placeholders in the names of a reaction: of its blocks, functions, keywords and arguments. What is within an
/// argument may have data anywhere.
fn refuse_data_in_reaction(node: &Node, is_data: &dyn Fn(&str) -> bool) -> Result<(), YamlError> {
    for (_, functions) in checked_names(node, is_data, "the name of a block")? {
        for (_, keywords) in checked_names(functions, is_data, "the name of a function")? {
            for (keyword, arguments) in checked_names(keywords, is_data, "a keyword")? {
                if ARGUMENTS.contains(&keyword) {
                    checked_names(arguments, is_data, "the name of an argument")?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the entries of a mapping, or of the mappings in a list, after a look at their names.
fn checked_names<'a>(
    node: &'a Node,
    is_data: &dyn Fn(&str) -> bool,
    what: &str,
) -> Result<Vec<(&'a str, &'a Node)>, YamlError> {
    let nodes = match &node.content {
        Content::List(nodes) => nodes.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let mut entries = Vec::new();
    for node in nodes {
        let Content::Map(own) = &node.content else {
            continue;
        };
        for (key, value) in own {
            if is_data(&key.name) {
                return Err(key.position.error(format!(
                    "{:?} comes from data or from an expression of the template, and no such text is {what} of a reaction: \
                     write it out, or number it with `loop.index`",
                    key.name
                )));
            }
            entries.push((key.name.as_str(), value));
        }
    }
    Ok(entries)
}

/// A method of a text, a list or a mapping: Python's.
fn method_of_text(
    printer: &Printer,
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if method == "strip" && args.is_empty() && value.is_safe() {
        return filters::trim(value, None);
    }
    let args: Vec<Value> = args.iter().map(|value| printer.text(value)).collect();
    let value = printer.text(value);
    if let Some(text) = value.as_str()
        && let Some(found) = text_methods::call(text, method, &args)
    {
        return found;
    }
    unknown_method_callback(state, &value, method, &args)
}

/// Takes output up to a limit.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!(
                "the rendered text has more than {MAX_OUTPUT} bytes"
            )));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
