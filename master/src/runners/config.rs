//! `config`: the configuration of the master.

use saline_data::Value;
use saline_functions::function;

use super::Functions;
use super::run::Run;

pub(super) const FUNCTIONS: Functions = &[&GET];

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
