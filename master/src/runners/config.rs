//! `config`: the configuration of the master.

use saline_data::Value;
use saline_functions::function;

use super::Functions;
use super::run::Run;

pub(super) const FUNCTIONS: Functions = &[&GET, &VALUES];

/// Those of them that are wheels too.
pub(super) const WHEELS: Functions = &[&VALUES];

/// The options that `config.values` returns, beside those that belong to web applications.
const VALUES_SHOWN: [&str; 6] = [
    "job_ttl",
    "keep_jobs_seconds",
    "netapi_enable_clients",
    "nodegroups",
    "reactor",
    "timeout",
];

/// What the names of options begin with that web applications read.
const OF_APPLICATIONS: &str = "saltgui_";

/// Returns an option of the running master as it is in force, whether a file sets it or not, or `default` if there is no
/// such option. `delimiter` leads into mappings. An option that takes effect at the next start has the value of the last
/// start. Values that are secret are hidden.
///
/// CLI Example:
///
///     saline-run config.get keep_jobs_seconds
///     saline-run config.get ssl:certfile
///     saline-run config.get nodegroups.web delimiter=.
#[function]
async fn get(
    run: &Run,
    key: String,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
) -> Value {
    let options = run.parts.settings.now().options;
    find(&options, &key, &delimiter).unwrap_or(default)
}

/// Returns the options of the running master that web applications show: `nodegroups`, `reactor`, `timeout`, `job_ttl`,
/// `keep_jobs_seconds`, `netapi_enable_clients`, and those that begin with `saltgui_`.
///
/// CLI Example:
///
///     saline-run config.values
#[function]
async fn values(run: &Run) -> Value {
    shown_values(&run.parts.settings.now().options)
}

fn shown_values(options: &Value) -> Value {
    let entries = match options {
        Value::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    let shown = entries.iter().filter(|(name, _)| {
        VALUES_SHOWN.contains(&name.as_str()) || name.starts_with(OF_APPLICATIONS)
    });
    Value::Map(shown.cloned().collect())
}

fn find(options: &Value, key: &str, delimiter: &str) -> Option<Value> {
    if let Some(whole) = options.get(key) {
        return Some(whole.clone());
    }
    if delimiter.is_empty() {
        return None;
    }
    let mut parts = key.split(delimiter);
    parts
        .try_fold(options, |found, part| found.get(part))
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_applications_show() {
        let options = Value::map([
            ("timeout", Value::Int(5)),
            ("external_auth", Value::from("secret")),
            ("saltgui_pages", Value::from("keys")),
            ("sock_dir", Value::from("/run")),
        ]);
        let shown = [("timeout", Value::Int(5)), ("saltgui_pages", "keys".into())];
        assert_eq!(shown_values(&options), Value::map(shown));
    }

    #[test]
    fn keys_lead_into_mappings() {
        let options = Value::map([
            ("timeout", Value::Int(5)),
            ("amqp", Value::map([("url", Value::from("amqp://x"))])),
            ("a:b", Value::Int(1)),
            ("not_set", Value::Null),
        ]);
        let get = |key| find(&options, key, ":");
        assert_eq!(get("timeout"), Some(Value::Int(5)));
        assert_eq!(get("amqp:url"), Some("amqp://x".into()));
        assert_eq!(get("a:b"), Some(Value::Int(1)));
        assert_eq!(get("amqp:nothing"), None);
        assert_eq!(get("timeout:x"), None);
        assert_eq!(get("not_set"), Some(Value::Null));
        assert_eq!(find(&options, "amqp.url", "."), Some("amqp://x".into()));
        assert_eq!(find(&options, "amqp:url", ""), None);
    }
}
