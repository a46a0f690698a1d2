//! The functions and their arguments, without a master.

use saline_daemon::indented_doc;
use saline_data::Value;
use saline_messages::Arguments;

use super::arguments::BoundArguments;
use super::{find, functions};

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

fn bind(fun: &str, positional: &[&str], named: &[(&str, &str)]) -> Result<BoundArguments, String> {
    let arguments = Arguments {
        positional: positional.iter().map(|text| Value::from(*text)).collect(),
        named: named
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Value::from(*text)))
            .collect(),
    };
    BoundArguments::bind(fun, find(fun).unwrap(), arguments)
}

#[test]
fn every_function_is_found_and_documented() {
    for (name, function) in functions() {
        assert!(std::ptr::eq(find(&name).unwrap(), function));
        let doc = indented_doc(function.doc);
        assert!(doc.starts_with("\n    "), "{name}: {doc}");
        assert!(doc.contains("CLI Example:"), "{name}");
        assert!(!doc.contains(".. code-block"), "{name}");
        assert!(function.required <= function.parameters.len(), "{name}");
    }
    for none in [
        "",
        "jobs",
        "jobs.",
        ".active",
        "jobs.active.",
        "state.event",
    ] {
        assert!(find(none).is_none(), "{none}");
    }
}

#[test]
fn arguments_that_do_not_fit_are_told_in_one_line() {
    let error = |fun, positional: &[&str], named: &[(&str, &str)]| {
        bind(fun, positional, named).err().unwrap_or_default()
    };
    for (told, expected) in [
        (
            error("manage.status", &["*"], &[]),
            "manage.status takes no arguments",
        ),
        (
            error("jobs.lookup_jid", &[], &[]),
            "jobs.lookup_jid needs jid: saline-run jobs.lookup_jid JID",
        ),
        (
            error("jobs.print_job", &["1", "2"], &[]),
            "jobs.print_job takes at most jid",
        ),
        (
            error("jobs.print_job", &["1"], &[("jid", "2")]),
            "jobs.print_job: jid is given twice",
        ),
        (
            error("jobs.list_jobs", &[], &[("search", "x")]),
            "jobs.list_jobs: no argument is called search; there are search_metadata, search_function, \
             search_target, start_time, end_time and display_progress",
        ),
        (
            error("manage.up", &[], &[("tgt", "x")]),
            "manage.up takes no arguments, and none that is called tgt",
        ),
    ] {
        assert_eq!(told, expected);
    }
    for (fun, positional) in [
        ("jobs.lookup_jid", &["20261121091409931549"][..]),
        ("doc.runner", &["a", "b", "c"]),
        ("jobs.list_jobs", &[]),
    ] {
        assert!(bind(fun, positional, &[]).is_ok(), "{fun}");
    }
}

#[test]
fn jids_and_targets_are_checked() {
    let jid = |text: &str| {
        let bound = bind("jobs.kill", &[text], &[]).unwrap();
        bound.jid("jid").map_err(|error| error.to_string())
    };
    assert_eq!(
        jid("123").unwrap_err(),
        "jid \"123\": a jid has twenty digits"
    );
    assert!(jid("20261121091409931549").is_ok());
    let target = |named: &[(&str, &str)]| {
        let bound = bind("cache.grains", &[], named).unwrap();
        let target = bound.target().map_err(|error| error.to_string())?;
        Ok::<_, String>(format!("{} {}", target.kind.name(), target.expression))
    };
    assert_eq!(target(&[]).unwrap(), "glob *");
    let grain = [("tgt", "os:Debian"), ("tgt_type", "grain")];
    assert_eq!(target(&grain).unwrap(), "grain os:Debian");
    let told = target(&[("tgt_type", "colour")]).unwrap_err();
    assert!(
        told.starts_with("cache.grains: there is no tgt_type \"colour\"; there are glob, list")
    );
}
