//! The functions and their arguments, without a master.

use saline_data::Value;

use super::{built_in, function_names, wheels};

/// Returns a value in one line, as YAML would write it.
pub(super) fn shown(value: &Value) -> String {
    let entry = |(key, value): &(String, Value)| format!("{key}: {}", shown(value));
    match value {
        Value::Map(entries) => {
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::List(values) => {
            let values: Vec<String> = values.iter().map(shown).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::Bytes(bytes) => format!("{bytes:?}"),
    }
}

#[test]
fn every_function_is_documented() {
    let registry = built_in();
    assert_eq!(registry.iter().count(), 60);
    for (name, function) in registry.iter() {
        let doc = function.indented_documentation();
        assert!(doc.starts_with("\n    "), "{name}: {doc}");
        assert!(
            doc.contains("CLI Example:\n\n        saline-run "),
            "{name}"
        );
    }
    for none in ["", "jobs", "jobs.", ".active", "jobs.active."] {
        assert!(registry.get(none).is_none(), "{none}");
    }
    let names: Vec<&str> = registry.iter().map(|(name, _)| name).collect();
    assert_eq!(function_names(), names);
    let alias = registry.get("manage.alived").unwrap();
    assert_eq!(
        alias.documentation,
        registry.get("manage.up").unwrap().documentation
    );
}

#[test]
fn every_wheel_is_documented() {
    let registry = wheels::built_in();
    assert_eq!(registry.iter().count(), 11);
    for (name, function) in registry.iter() {
        let doc = function.indented_documentation();
        assert!(doc.contains("CLI Example:\n\n        "), "{name}: {doc}");
    }
}

#[test]
fn signatures_are_those_of_salt() {
    let registry = built_in();
    let argspec = |fun: &str| {
        let argspec = registry.get(fun).unwrap().argspec();
        let of = |name| shown(argspec.get(name).unwrap());
        format!("{} = {}", of("args"), of("defaults"))
    };
    for (fun, expected) in [
        (
            "jobs.list_jobs",
            "[search_metadata, search_function, search_target, start_time, end_time, display_progress, include_calls, limit] = \
             [null, null, null, null, null, false, false, null]",
        ),
        ("jobs.lookup_jid", "[jid, display_progress] = [false]"),
        // The last one is ours, as include_calls is.
        (
            "cache.grains",
            "[tgt, tgt_type, include_unknown] = [*, glob, false]",
        ),
        // Of Salt's manage.present.
        ("manage.up", "[show_ip] = [false]"),
        ("config.get", "[key, default, delimiter] = [, :]"),
        ("config.values", "null = null"),
    ] {
        assert_eq!(argspec(fun), expected, "{fun}");
    }
}
