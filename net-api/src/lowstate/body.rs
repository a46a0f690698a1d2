//! The forms in which a body may come: JSON, YAML, and that of HTML forms.

use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;
use saline_client::data::{Value, json, yaml};

use super::Chunk;
use crate::error::ApiError;
use crate::format::YAML_TYPES;
use crate::limits::MAX_CHUNKS;

/// The largest number of fields of a form: each is compared with those before it, before anybody has logged in.
const MAX_FIELDS: usize = 1_000;

/// Reads a body. JSON may also come as `text/plain` or without a type, as browsers send it.
///
/// # Errors
/// `BadRequest` when it is not of the form that its type says.
pub(crate) fn parsed(headers: &HeaderMap, body: &[u8]) -> Result<Value, ApiError> {
    let kind = headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.to_ascii_lowercase().as_str() {
        "application/x-www-form-urlencoded" => form(body),
        kind if YAML_TYPES.contains(&kind) => {
            let text = std::str::from_utf8(body);
            let text = text.map_err(|_| refused("the body is not UTF-8"))?;
            yaml::parse(text).map_err(|error| refused(&format!("the body is not YAML: {error}")))
        }
        "application/json" | "text/json" | "text/plain" | "" => {
            if body.iter().all(u8::is_ascii_whitespace) {
                return Ok(Value::Null);
            }
            json::read(body).map_err(|error| refused(&format!("the body is not JSON: {error}")))
        }
        _ => Err(refused(
            "the body has to be application/json, application/x-yaml or application/x-www-form-urlencoded",
        )),
    }
}

/// Reads the chunks of a body: a mapping is one, a list has one in each place.
///
/// # Errors
/// `BadRequest` when it has no chunk, too many, or one that is no mapping.
pub(crate) fn chunks(lowstate: Value) -> Result<Vec<Chunk>, ApiError> {
    let chunks = match lowstate {
        Value::List(chunks) => chunks,
        one => vec![one],
    };
    if chunks.is_empty() || chunks.len() > MAX_CHUNKS {
        return Err(refused(&format!(
            "a request has one to {MAX_CHUNKS} chunks"
        )));
    }
    let chunks = chunks.into_iter();
    chunks.map(|chunk| Chunk::new(entries(chunk)?)).collect()
}

/// Checks that each chunk names a client and a function, before the first one is carried out: whoever forgot them in a later chunk
/// would have to find out what the earlier ones have done.
///
/// # Errors
/// `BadRequest` when one does not; with the number of the chunk where there are several.
pub(crate) fn check_calls(chunks: &[Chunk]) -> Result<(), ApiError> {
    for (at, chunk) in chunks.iter().enumerate() {
        chunk.check_call().map_err(|error| match error {
            ApiError::BadRequest(why) if chunks.len() > 1 => {
                refused(&format!("chunk {} of {}: {why}", at + 1, chunks.len()))
            }
            other => other,
        })?;
    }
    Ok(())
}

/// Returns the one mapping of a body, which may stand in a list.
///
/// # Errors
/// `BadRequest` when it is no mapping.
pub(crate) fn map(lowstate: Value) -> Result<Value, ApiError> {
    let one = match lowstate {
        Value::List(mut chunks) if chunks.len() == 1 => chunks.remove(0),
        Value::Null => Value::Map(Vec::new()),
        one => one,
    };
    Ok(Value::Map(entries(one)?))
}

fn entries(chunk: Value) -> Result<Vec<(String, Value)>, ApiError> {
    match chunk {
        Value::Map(entries) => Ok(entries),
        _ => Err(refused(
            "the body has to be a mapping, or a list of mappings",
        )),
    }
}

/// Reads a form. A name that is given several times has a list.
///
/// # Errors
/// `BadRequest` when it has more than [`MAX_FIELDS`] fields.
pub(crate) fn form(body: &[u8]) -> Result<Value, ApiError> {
    if form_urlencoded::parse(body).take(MAX_FIELDS + 1).count() > MAX_FIELDS {
        return Err(refused("a form has at most 1000 fields"));
    }
    let mut entries: Vec<(String, Value)> = Vec::new();
    for (name, value) in form_urlencoded::parse(body) {
        let value = Value::from(value.into_owned());
        match entries.iter_mut().find(|(known, _)| *known == name) {
            None => entries.push((name.into_owned(), value)),
            Some((_, Value::List(values))) => values.push(value),
            Some((_, first)) => *first = Value::List(vec![std::mem::take(first), value]),
        }
    }
    Ok(Value::Map(entries))
}

fn refused(why: &str) -> ApiError {
    ApiError::BadRequest(why.to_owned())
}
