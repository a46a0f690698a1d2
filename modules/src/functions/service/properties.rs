//! Values of D-Bus as values of Saline.

use saline_data::Value;
use zbus::Variant;

/// Converts a value. Whole numbers keep their sign and size, a structure becomes a list.
pub(super) fn to_value(variant: &Variant<'_>) -> Value {
    match variant {
        Variant::U8(number) => Value::Int(i64::from(*number)),
        Variant::I16(number) => Value::Int(i64::from(*number)),
        Variant::U16(number) => Value::Int(i64::from(*number)),
        Variant::I32(number) => Value::Int(i64::from(*number)),
        Variant::U32(number) => Value::Int(i64::from(*number)),
        Variant::I64(number) => Value::Int(*number),
        Variant::U64(number) => Value::from(*number),
        Variant::F64(number) => Value::Float(*number),
        Variant::Bool(yes) => Value::Bool(*yes),
        Variant::Str(text) => Value::from(text.as_str()),
        Variant::Signature(text) => Value::from(text.to_string()),
        Variant::ObjectPath(path) => Value::from(path.as_str()),
        Variant::Variant(inner) => to_value(inner),
        Variant::Array(elements) => Value::List(elements.inner().iter().map(to_value).collect()),
        Variant::Structure(fields) => Value::List(fields.fields().iter().map(to_value).collect()),
        Variant::Dict(entries) => Value::map(entries.iter().map(|(key, value)| {
            let key = match to_value(key) {
                Value::Text(text) => text,
                other => format!("{other:?}"),
            };
            (key, to_value(value))
        })),
        // An open file means nothing to an operator.
        Variant::Fd(_) => Value::Null,
    }
}
