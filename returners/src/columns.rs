//! The fields of records as databases take them.

use saline_data::{Value, json};

/// Returns a field as text: a text as it is, any other value as JSON, and nothing as the empty text.
pub(crate) fn text(data: &Value, field: &str) -> String {
    match data.get(field) {
        None | Some(Value::Null) => String::new(),
        Some(Value::Text(text)) => text.clone(),
        Some(other) => json_of(other),
    }
}

/// Returns a field as JSON; none if the data have no such field.
pub(crate) fn json(data: &Value, field: &str) -> Option<String> {
    data.get(field).map(json_of)
}

/// Returns a field that is a whole number; 0 if it is none.
pub(crate) fn number(data: &Value, field: &str) -> i64 {
    data.get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns a field that is a truth value; false if it is none.
pub(crate) fn flag(data: &Value, field: &str) -> bool {
    data.get(field).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns a value as one line of JSON.
pub(crate) fn json_of(value: &Value) -> String {
    String::from_utf8_lossy(&json::line(value)).into_owned()
}

/// Puts U+FFFD in the place of NUL, which PostgreSQL takes in no text.
pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Puts U+FFFD in the place of every escaped NUL of JSON.
pub(crate) fn json_without_nul(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("\\u0000") {
            out.push('\u{fffd}');
            rest = after;
            continue;
        }
        // An escape has at least one character after the backslash, and the writer escapes with ASCII alone.
        let (escape, after) = rest.split_at_checked(2).unwrap_or((rest, ""));
        out.push_str(escape);
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_replaced_and_an_escaped_backslash_before_u0000_is_not() {
        let value = Value::map([("a\0b", Value::from("c\0")), ("d", Value::from("\\u0000"))]);
        let json = json_without_nul(&json_of(&value));
        let read = json::read(json.as_bytes()).unwrap();
        assert_eq!(
            read,
            Value::map([
                ("a\u{fffd}b", Value::from("c\u{fffd}")),
                ("d", Value::from("\\u0000"))
            ])
        );
        assert_eq!(without_nul("a\0"), "a\u{fffd}");
    }

    #[test]
    fn a_field_that_is_no_text_is_written_as_json() {
        let data = Value::map([("fun", Value::texts(["a.b", "c.d"])), ("n", Value::Null)]);
        assert_eq!(text(&data, "fun"), r#"["a.b", "c.d"]"#);
        assert_eq!(text(&data, "n"), "");
        assert_eq!(json(&data, "n").as_deref(), Some("null"));
        assert_eq!(json(&data, "absent"), None);
    }
}
