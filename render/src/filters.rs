//! The filters that are Salt's, or that must know what a placeholder is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, State};
use saline_data::yaml::{parse_nodes, resolve};

use crate::containers::{
    BYTES_ARE_PRINTED, Bytes, MAX_DEPTH, entries, from_data, invalid, number, own, python_text,
};
use crate::placeholders::Form;
use crate::printing::Printer;

/// Adds the filters.
pub(crate) fn add(environment: &mut Environment<'static>, printer: &Printer) {
    let own_printer = printer.clone();
    environment.add_filter("__text", move |state: &State<'_, '_>, value: Value| {
        own_printer.texts(state, &value)
    });
    let own_printer = printer.clone();
    environment.add_filter("__alone", move |value: Value| own_printer.text(&value));
    environment.add_filter("__own", |state: &State<'_, '_>, value: Value| {
        own(state, value)
    });
    for name in ["__load_yaml", "load_yaml", "load_json"] {
        let own_printer = printer.clone();
        environment.add_filter(name, move |value: Value| load_yaml(&own_printer, &value));
    }
    for name in ["escape", "e", "forceescape"] {
        environment.add_filter(name, escape);
    }
    // Nothing that is printed is escaped for HTML by itself, so nothing needs to be kept from it.
    environment.add_filter("safe", |value: Value| value);
    environment.add_filter("trim", |value: Value, chars: Option<String>| {
        trim(&value, chars.as_deref())
    });
    for name in ["tojson", "json"] {
        let printer = printer.clone();
        environment.add_filter(
            name,
            move |state: &State<'_, '_>, value: Value, indent: Option<Value>, named: Kwargs| {
                let indent = match indent {
                    Some(indent) => Some(indent),
                    None => named.get("indent")?,
                };
                let sorted: Option<bool> = named.get("sort_keys")?;
                named.assert_all_used()?;
                let indent = indent.and_then(|it| it.as_usize()).map(|it| it.min(16));
                let mut writer = Writer::new(&printer, state);
                writer.json(&value, indent, 0, sorted.unwrap_or(true))?;
                Ok::<_, Error>(Value::from_safe_string(writer.out))
            },
        );
    }
    let own_printer = printer.clone();
    environment.add_filter(
        "yaml",
        move |state: &State<'_, '_>, value: Value, flow: Option<bool>, named: Kwargs| {
            let flow = match flow {
                Some(flow) => Some(flow),
                None => named.get("flow_style")?,
            };
            named.assert_all_used()?;
            let mut writer = Writer::new(&own_printer, state);
            match flow.unwrap_or(true) {
                true => writer.json(&value, None, 0, false)?,
                false => writer.block(&value, 0)?,
            }
            let out = writer.out.trim_start_matches('\n');
            Ok::<_, Error>(Value::from_safe_string(out.to_owned()))
        },
    );
    let own_printer = printer.clone();
    environment.add_filter("yaml_dquote", move |value: Value| {
        let placeholder = own_printer.put(&text(&value)?, Form::DoubleQuoted)?;
        Ok::<_, Error>(Value::from_safe_string(format!("\"{placeholder}\"")))
    });
    let own_printer = printer.clone();
    environment.add_filter("yaml_squote", move |value: Value| {
        let placeholder = own_printer.put(&text(&value)?, Form::SingleQuoted)?;
        Ok::<_, Error>(Value::from_safe_string(format!("'{placeholder}'")))
    });
    let own_printer = printer.clone();
    environment.add_filter("yaml_encode", move |state: &State<'_, '_>, value: Value| {
        if matches!(value.kind(), ValueKind::Seq | ValueKind::Map) {
            return Err(invalid("yaml_encode takes one value, no list or mapping"));
        }
        let mut writer = Writer::new(&own_printer, state);
        writer.json(&value, None, 0, false)?;
        Ok(Value::from_safe_string(writer.out))
    });
    let own_printer = printer.clone();
    environment.add_filter(
        "base64_encode",
        move |state: &State<'_, '_>, value: Value| {
            let bytes = match value.downcast_object_ref::<Bytes>() {
                Some(bytes) => bytes.0.clone(),
                None => text(&own_printer.text(&value))?.into_bytes(),
            };
            state.consume_fuel(bytes.len() as u64 / 64)?;
            Ok::<_, Error>(Value::from(STANDARD.encode(bytes)))
        },
    );
    environment.add_filter("to_bool", |value: Value| match value.as_str() {
        Some(text) => matches!(text.to_lowercase().as_str(), "yes" | "1" | "true"),
        None => value.is_true(),
    });
    let own_printer = printer.clone();
    environment.add_filter(
        "indent",
        move |value: Value,
              width: Option<Value>,
              first: Option<bool>,
              blank: Option<bool>,
              named: Kwargs| {
            let width = match width {
                Some(width) => Some(width),
                None => named.get("width")?,
            };
            let first = match first {
                Some(first) => first,
                None => named
                    .get::<Option<bool>>("first")?
                    .or(named.get("indentfirst")?)
                    .unwrap_or_default(),
            };
            let blank = match blank {
                Some(blank) => blank,
                None => named.get::<Option<bool>>("blank")?.unwrap_or_default(),
            };
            named.assert_all_used()?;
            let width = match width {
                None => "    ".to_owned(),
                Some(width) => match (width.as_str(), width.as_usize()) {
                    (Some(text), _) if text.bytes().all(|b| b == b' ') => text.to_owned(),
                    (None, Some(spaces)) if spaces <= 1000 => " ".repeat(spaces),
                    _ => return Err(invalid("indent takes a number of spaces")),
                },
            };
            indent(&own_printer, &value, &width, first, blank)
        },
    );
}

/// Returns the text of one value; `__text` has put data in the place of placeholders.
fn text(value: &Value) -> Result<String, Error> {
    python_text(value).ok_or_else(|| invalid("this takes one value, no list or mapping"))
}

/// Escapes a text for HTML as Jinja does. `__text` has put data in the place of placeholders, and what is escaped is data too.
fn escape(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    match value.kind() {
        // Their texts have nothing to escape.
        ValueKind::Number | ValueKind::Bool | ValueKind::None => return Ok(value),
        ValueKind::Undefined => return Err(Error::from(minijinja::ErrorKind::UndefinedError)),
        _ => {}
    }
    let text = text(&value)?;
    state.consume_fuel(text.len() as u64 / 64)?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    Ok(Value::from(out))
}

/// Text of the template stays that: spaces have no meaning that others did not have.
pub(crate) fn trim(value: &Value, chars: Option<&str>) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return match value.kind() {
            ValueKind::Undefined => Err(Error::from(minijinja::ErrorKind::UndefinedError)),
            _ => Ok(value.clone()),
        };
    };
    match chars {
        Some(chars) => {
            let chars: Vec<char> = chars.chars().collect();
            Ok(Value::from(text.trim_matches(chars.as_slice())))
        }
        None if value.is_safe() => Ok(Value::from_safe_string(text.trim().to_owned())),
        None => Ok(Value::from(text.trim())),
    }
}

/// Indents every line but the first. The lines of data are a placeholder each, so that a block of YAML (`|`) has them as
/// they are.
fn indent(
    printer: &Printer,
    value: &Value,
    width: &str,
    first: bool,
    blank: bool,
) -> Result<Value, Error> {
    let given = text(value)?;
    let is_template = value.is_safe();
    let lines: Vec<&str> = given.split('\n').collect();
    if !is_template && lines.len() == 1 && !first {
        return Ok(value.clone());
    }
    let mut out = String::with_capacity(given.len() + lines.len() * width.len());
    for (number, line) in lines.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let is_indented = if number == 0 {
            first
        } else {
            blank || !line.is_empty()
        };
        if is_indented {
            out.push_str(width);
        }
        match is_template || line.is_empty() {
            true => out.push_str(line),
            false => {
                let line = printer.placeholders().replace(line).into_owned();
                out.push_str(&printer.put(&line, Form::Text)?);
            }
        }
    }
    Ok(Value::from_safe_string(out))
}

/// Parses the text that a template put together.
fn load_yaml(printer: &Printer, value: &Value) -> Result<Value, Error> {
    let text = value.as_str().unwrap_or_default();
    let placeholders = printer.placeholders();
    let read = parse_nodes(text).and_then(|node| match node {
        Some(node) => Ok(Some(placeholders.put_in(node)?)),
        None => Ok(None),
    });
    match read {
        Ok(Some(node)) => Ok(from_data(&node.into())),
        Ok(None) => Ok(Value::from(())),
        Err(error) => {
            let message = format!("in the YAML that is loaded here: {error}");
            Err(invalid(placeholders.replace(&message).into_owned()))
        }
    }
}

/// Writes values on purpose as structure. Their texts are words or placeholders.
struct Writer<'a> {
    printer: &'a Printer,
    state: &'a State<'a, 'a>,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(printer: &'a Printer, state: &'a State<'_, '_>) -> Self {
        Self {
            printer,
            state,
            out: String::new(),
        }
    }

    /// Takes what a value costs.
    fn spend(&mut self, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            let message = format!("lists and mappings nest deeper than {MAX_DEPTH}");
            return Err(invalid(message));
        }
        self.state.consume_fuel(1)
    }

    fn quoted(&mut self, text: &str) -> Result<(), Error> {
        let text = self.printer.placeholders().replace(text).into_owned();
        let is_plain = self.printer.placeholders().writes_plain(&text);
        let written = match is_plain {
            true => text,
            false => self.printer.put(&text, Form::DoubleQuoted)?,
        };
        self.out.push('"');
        self.out.push_str(&written);
        self.out.push('"');
        Ok(())
    }

    /// Writes a value that is neither list nor mapping, or returns that it is one.
    fn scalar(&mut self, value: &Value) -> Result<bool, Error> {
        if let Some(text) = value.as_str() {
            self.quoted(text)?;
            return Ok(true);
        }
        let written = match value.kind() {
            ValueKind::None => "null".to_owned(),
            ValueKind::Bool => value.is_true().to_string(),
            ValueKind::Number => number(value),
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => return Ok(false),
            ValueKind::Undefined => {
                return Err(Error::from(minijinja::ErrorKind::UndefinedError));
            }
            _ if value.downcast_object_ref::<Bytes>().is_some() => {
                return Err(invalid(BYTES_ARE_PRINTED));
            }
            _ => return Err(invalid("this is not a value that can be written")),
        };
        self.out.push_str(&written);
        Ok(true)
    }

    fn key(&mut self, key: &Value) -> Result<(), Error> {
        self.quoted(&text(key)?)
    }

    /// Writes JSON, which YAML reads too.
    fn json(
        &mut self,
        value: &Value,
        indent: Option<usize>,
        depth: usize,
        sorted: bool,
    ) -> Result<(), Error> {
        self.spend(depth)?;
        if self.scalar(value)? {
            return Ok(());
        }
        let (open, close, mut items) = match value.kind() {
            ValueKind::Map => ('{', '}', entries(value)?),
            _ => {
                let items = value.try_iter()?.map(|item| (Value::from(()), item));
                ('[', ']', items.collect())
            }
        };
        let is_map = open == '{';
        if is_map && sorted {
            items.sort_by_key(|(key, _)| key.to_string());
        }
        self.out.push(open);
        for (number, (key, item)) in items.iter().enumerate() {
            if number > 0 {
                self.out.push(',');
            }
            match indent {
                Some(indent) => {
                    self.out.push('\n');
                    self.out.push_str(&" ".repeat(indent * (depth + 1)));
                }
                None if number > 0 => self.out.push(' '),
                None => {}
            }
            if is_map {
                self.key(key)?;
                self.out.push_str(": ");
            }
            self.json(item, indent, depth + 1, sorted)?;
        }
        if let (Some(indent), false) = (indent, items.is_empty()) {
            self.out.push('\n');
            self.out.push_str(&" ".repeat(indent * depth));
        }
        self.out.push(close);
        Ok(())
    }

    /// Writes YAML over several lines. The first line of a list or a mapping begins with a newline.
    fn block(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.spend(depth)?;
        if let Some(text) = value.as_str()
            && self.printer.placeholders().writes_plain(text)
            && matches!(resolve(text), saline_data::Value::Text(_))
        {
            self.out.push_str(text);
            return Ok(());
        }
        if self.scalar(value)? {
            return Ok(());
        }
        let is_map = value.kind() == ValueKind::Map;
        let items = match is_map {
            true => entries(value)?,
            false => {
                let items = value.try_iter()?.map(|item| (Value::from(()), item));
                items.collect()
            }
        };
        if items.is_empty() {
            self.out.push_str(if is_map { "{}" } else { "[]" });
            return Ok(());
        }
        for (key, item) in &items {
            self.out.push('\n');
            self.out.push_str(&"  ".repeat(depth));
            match is_map {
                true => {
                    self.block(key, depth)?;
                    self.out.push(':');
                }
                false => self.out.push('-'),
            }
            let at = self.out.len();
            self.block(item, depth + 1)?;
            if !self.out[at..].starts_with('\n') {
                self.out.insert(at, ' ');
            }
        }
        Ok(())
    }
}
