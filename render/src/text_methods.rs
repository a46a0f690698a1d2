//! Methods of Python's texts that the engine does not have.

use minijinja::Error;
use minijinja::value::{Value, from_args};

use crate::containers::{List, invalid};

/// The most characters to which a text is padded.
const MAX_WIDTH: usize = 1000;

/// Calls a method. None if it is not one of these.
pub(crate) fn call(text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    Some(match method {
        "rsplit" => rsplit(text, args),
        "partition" | "rpartition" => partition(text, method == "rpartition", args),
        "ljust" => pad(text, args, 0.0),
        "rjust" => pad(text, args, 1.0),
        "center" => pad(text, args, 0.5),
        "zfill" => zfill(text, args),
        "index" | "rindex" => index(text, method == "rindex", args),
        "removeprefix" => from_args(args).map(|(prefix,): (&str,)| {
            let rest = text.strip_prefix(prefix);
            Value::from(rest.unwrap_or(text))
        }),
        "removesuffix" => from_args(args).map(|(suffix,): (&str,)| {
            let rest = text.strip_suffix(suffix);
            Value::from(rest.unwrap_or(text))
        }),
        "casefold" => from_args(args).map(|()| Value::from(text.to_lowercase())),
        "swapcase" => from_args(args).map(|()| Value::from(swapped(text))),
        _ => return None,
    })
}

/// Returns a text of a width, with this share of the padding before it.
pub(crate) fn padded(text: &str, width: usize, fill: char, before: f64) -> Result<String, Error> {
    if width > MAX_WIDTH {
        let message = format!("a text is padded to {MAX_WIDTH} characters at most");
        return Err(invalid(message));
    }
    let missing = width.saturating_sub(text.chars().count());
    let before = (missing as f64 * before) as usize;
    let fill = |count: usize| fill.to_string().repeat(count);
    Ok(format!("{}{text}{}", fill(before), fill(missing - before)))
}

fn pad(text: &str, args: &[Value], before: f64) -> Result<Value, Error> {
    let (width, fill): (usize, Option<char>) = from_args(args)?;
    let fill = fill.unwrap_or(' ');
    Ok(Value::from(padded(text, width, fill, before)?))
}

fn zfill(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (width,): (usize,) = from_args(args)?;
    let (sign, digits) = match text.chars().next() {
        Some('+' | '-') => text.split_at(1),
        _ => ("", text),
    };
    let digits = padded(digits, width.saturating_sub(sign.len()), '0', 1.0)?;
    Ok(Value::from(format!("{sign}{digits}")))
}

fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, count): (Option<&str>, Option<i64>) = from_args(args)?;
    // A negative count is no limit.
    let parts = count
        .and_then(|count| usize::try_from(count).ok())
        .map_or(usize::MAX, |count| count.saturating_add(1));
    let mut found: Vec<&str> = match separator {
        Some("") => return Err(invalid("the separator is empty")),
        Some(separator) => text.rsplitn(parts, separator).collect(),
        None => {
            let mut found = Vec::new();
            let mut rest = text.trim_end();
            while !rest.is_empty() {
                match rest.rfind(char::is_whitespace) {
                    Some(at) if found.len() + 1 < parts => {
                        found.push(rest[at..].trim_start());
                        rest = rest[..at].trim_end();
                    }
                    _ => {
                        found.push(rest);
                        break;
                    }
                }
            }
            found
        }
    };
    found.reverse();
    Ok(List::of(found.into_iter().map(Value::from)))
}

fn partition(text: &str, last: bool, args: &[Value]) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(args)?;
    if separator.is_empty() {
        return Err(invalid("the separator is empty"));
    }
    let found = match last {
        true => text.rsplit_once(separator),
        false => text.split_once(separator),
    };
    let parts = match found {
        Some((before, after)) => [before, separator, after],
        None if last => ["", "", text],
        None => [text, "", ""],
    };
    Ok(List::of(parts.map(Value::from)))
}

fn index(text: &str, last: bool, args: &[Value]) -> Result<Value, Error> {
    let (part,): (&str,) = from_args(args)?;
    let found = match last {
        true => text.rfind(part),
        false => text.find(part),
    };
    match found {
        Some(at) => Ok(Value::from(text[..at].chars().count())),
        None => Err(invalid("the text to find is not in the text")),
    }
}

fn swapped(text: &str) -> String {
    let swap = |c: char| match c.is_uppercase() {
        true => c.to_lowercase().collect::<String>(),
        false => c.to_uppercase().collect(),
    };
    text.chars().map(swap).collect()
}
