//! As much of JSON Schema as the schema of reports uses. A word that is not known here is a
//! violation, so that the schema cannot say what nobody checks.

use serde_json::Value;

/// Where `value` does not keep `schema`.
pub fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, value, "", &mut found);
    found
}

fn check(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (word, rule) in schema.as_object().unwrap() {
        let kept = match word.as_str() {
            "$schema" | "$id" | "title" | "description" => true,
            "type" => is_a(rule.as_str().unwrap(), value),
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_f64() >= rule.as_f64(),
            "minLength" => value.as_str().map(|text| text.len() as u64) >= rule.as_u64(),
            "minItems" => value.as_array().map(|items| items.len() as u64) >= rule.as_u64(),
            "required" => {
                let names = rule.as_array().unwrap();
                names
                    .iter()
                    .all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "additionalProperties" => {
                assert_eq!(rule, &Value::Bool(false));
                let known = schema["properties"].as_object().unwrap();
                let given = value.as_object();
                given.is_none_or(|given| given.keys().all(|name| known.contains_key(name)))
            }
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        check(schema, value, &format!("{at}/{name}"), found);
                    }
                }
                true
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, item, &format!("{at}/{index}"), found);
                }
                true
            }
            _ => false,
        };
        if !kept {
            found.push(format!("{at}: {word} {rule}: {value:.100}"));
        }
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => false,
    }
}
