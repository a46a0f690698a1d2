//! `config`: the configuration of the master.

use saline_data::Value;
use saline_functions::function;

use super::Functions;
use super::run::Run;

/// Shown instead of a secret value.
const HIDDEN: &str = "** hidden **";

/// The parts of names that say that a value is secret. No option of a master is: those of transports may be.
const SECRETS: [&str; 4] = ["password", "passwd", "secret", "token"];

pub(super) const FUNCTIONS: Functions = &[&GET];

/// Returns an option of the running master as it is in force, whether a file sets it or not, or `default` if there is no
/// such option. `delimiter` leads into mappings. An option that takes effect at the next start has the value of the last
/// start. The values of options whose names speak of passwords, secrets or tokens are hidden.
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
        return Some(shown(key, whole));
    }
    if delimiter.is_empty() {
        return None;
    }
    let mut found = options;
    let mut name = key;
    for part in key.split(delimiter) {
        if is_secret(part) {
            return found.get(part).map(|_| HIDDEN.into());
        }
        (found, name) = (found.get(part)?, part);
    }
    Some(shown(name, found))
}

/// Returns a value without what is secret in it.
fn shown(name: &str, value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        _ if is_secret(name) => HIDDEN.into(),
        Value::Map(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(name, value)| (name.clone(), shown(name, value)));
            Value::Map(entries.collect())
        }
        Value::List(values) => Value::List(values.iter().map(|value| shown("", value)).collect()),
        other => other.clone(),
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_into_mappings_and_secrets_are_hidden() {
        let section = Value::map([
            ("url", Value::from("amqp://x")),
            ("password", Value::from("p4ss")),
            ("auth", Value::map([("api_token", Value::from("t0k"))])),
        ]);
        let options = Value::map([
            ("timeout", Value::Int(5)),
            ("amqp", section),
            ("a:b", Value::Int(1)),
            ("no_secret", Value::Null),
        ]);
        let get = |key| find(&options, key, ":");
        assert_eq!(get("timeout"), Some(Value::Int(5)));
        assert_eq!(get("amqp:url"), Some("amqp://x".into()));
        assert_eq!(get("a:b"), Some(Value::Int(1)));
        assert_eq!(get("amqp:nothing"), None);
        assert_eq!(get("timeout:x"), None);
        assert_eq!(get("amqp:password"), Some(HIDDEN.into()));
        assert_eq!(get("amqp:auth:api_token"), Some(HIDDEN.into()));
        assert_eq!(get("no_secret"), Some(Value::Null));
        let whole = format!("{:?}", get("amqp").unwrap());
        assert!(!whole.contains("p4ss") && !whole.contains("t0k"), "{whole}");
        assert_eq!(find(&options, "amqp.password", "."), Some(HIDDEN.into()));
    }
}
