//! The values of words without quotes in Salt's YAML: PyYAML's rules (YAML 1.1), with Salt's
//! changes. Two kinds of words stay text that PyYAML reads as numbers, since that is never meant:
//! words with an underscore (`1_000`), and times of day (`12:30` would be 750).

use crate::Value;

/// Returns the value of a plain scalar, text if it is nothing else.
pub fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return Value::Bool(true);
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    let number = matches!(
        text.as_bytes().first(),
        Some(b'+' | b'-' | b'.' | b'0'..=b'9')
    );
    number
        .then(|| integer(text).or_else(|| float(text)))
        .flatten()
        .unwrap_or_else(|| Value::Text(text.to_owned()))
}

/// Returns a key as text: values that are not text are written as Python prints them.
pub fn as_key(value: Value) -> String {
    match value {
        Value::Text(text) => text,
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(n) => n.to_string(),
        Value::UInt(n) => n.to_string(),
        Value::Float(n) => format!("{n:?}"),
        other => format!("{other:?}"),
    }
}

/// Parses `0b101`, `0x1F`, `-0644` (octal), `0644` (decimal: Salt's rule, for file modes), `42`. A
/// number beyond 64 bits stays text, so that it loses no digit.
fn integer(text: &str) -> Option<Value> {
    let (sign, digits) = signed(text);
    let (digits, radix) = if let Some(binary) = digits.strip_prefix("0b") {
        (binary, 2)
    } else if let Some(hexadecimal) = digits.strip_prefix("0x") {
        (hexadecimal, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        if !digits.bytes().all(|b| matches!(b, b'0'..=b'7')) {
            return None;
        }
        (digits, if sign.is_some() { 8 } else { 10 })
    } else {
        (digits, 10)
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if sign == Some('-') {
        i64::try_from(-i128::from(magnitude)).ok().map(Value::Int)
    } else {
        Some(Value::from(magnitude))
    }
}

/// Parses `1.5`, `1.`, `.5` (without a sign), `1.5e+3` (the exponent with one), `.inf`, `.nan`.
fn float(text: &str) -> Option<Value> {
    let (sign, rest) = signed(text);
    let value = match rest {
        ".inf" | ".Inf" | ".INF" => f64::INFINITY,
        ".nan" | ".NaN" | ".NAN" if sign.is_none() => f64::NAN,
        _ => {
            let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
                Some((mantissa, exponent)) => (mantissa, Some(exponent)),
                None => (rest, None),
            };
            let (whole, fraction) = mantissa.split_once('.')?;
            let exponent_fits = exponent.is_none_or(|exponent| {
                let (sign, digits) = signed(exponent);
                sign.is_some() && !digits.is_empty() && all_digits(digits)
            });
            let bare = whole.is_empty() && (fraction.is_empty() || sign.is_some());
            if bare || !all_digits(whole) || !all_digits(fraction) || !exponent_fits {
                return None;
            }
            rest.parse().ok()?
        }
    };
    Some(Value::Float(if sign == Some('-') { -value } else { value }))
}

fn signed(text: &str) -> (Option<char>, &str) {
    match text.chars().next() {
        Some(sign @ ('+' | '-')) => (Some(sign), &text[1..]),
        _ => (None, text),
    }
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}
