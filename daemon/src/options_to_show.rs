//! Options as they are shown: with the defaults that depend on the build or the machine, and with the secrets of transports
//! hidden.

use saline_config::Secrecy;
use saline_data::Value;
use saline_protocol::transport::{OptionSpec, Registry};

/// Fills in the values in force of options that are not set: the default transports of `registry`, and one thread for each core.
/// Hides the values that a transport of `registry` declares secret.
pub fn options_to_show(options: Value, registry: &Registry) -> Value {
    let Value::Map(entries) = options else {
        return options;
    };
    let cores = std::thread::available_parallelism();
    let resolved = |name: &str| match name {
        "transport" => registry.network_default().ok().map(Value::from),
        "ipc_transport" => registry.local_default().ok().map(Value::from),
        "worker_threads" => cores
            .as_ref()
            .ok()
            .map(|cores| Value::from(cores.get() as u64)),
        _ => None,
    };
    let entries = entries.into_iter().map(|(name, value)| {
        let value = match value {
            Value::Null => resolved(&name).unwrap_or(Value::Null),
            given => without_secrets(&name, given, registry),
        };
        (name, value)
    });
    Value::Map(entries.collect())
}

/// Returns the section of a transport with the values hidden that the transport declares secret, and any other option as it is.
fn without_secrets(name: &str, value: Value, registry: &Registry) -> Value {
    match registry.get(name) {
        Ok(transport) => without_declared(value, transport.options()),
        Err(_) => value,
    }
}

fn without_declared(section: Value, options: &[OptionSpec]) -> Value {
    let Value::Map(entries) = section else {
        return section;
    };
    let is_secret = |name: &str| {
        let option = options.iter().find(|option| option.name == name);
        option.is_some_and(|option| option.secret)
    };
    let shown = entries.into_iter().map(|(name, value)| {
        let value = match is_secret(&name) {
            true => Secrecy::Secret.shown(value),
            false => value,
        };
        (name, value)
    });
    Value::Map(shown.collect())
}

#[cfg(test)]
mod tests {
    use saline_protocol::transport::OptionKind;

    use super::*;

    #[test]
    fn only_what_is_not_set_gets_the_value_in_force() {
        let registry = Registry::new();
        let options = Value::map([
            ("transport", Value::from("quic")),
            ("ipc_transport", Value::Null),
            ("worker_threads", Value::Null),
            ("log_file", Value::Null),
        ]);
        let resolved = options_to_show(options, &registry);
        assert_eq!(resolved.get("transport"), Some(&"quic".into()));
        assert_eq!(resolved.get("ipc_transport"), Some(&Value::Null));
        assert_eq!(resolved.get("log_file"), Some(&Value::Null));
        let threads = resolved.get("worker_threads").and_then(Value::as_i64);
        assert!(threads.is_some_and(|threads| threads > 0), "{threads:?}");
        assert_eq!(options_to_show(Value::Null, &registry), Value::Null);
    }

    #[test]
    fn what_a_transport_declares_secret_is_hidden() {
        let option = |name, secret| OptionSpec {
            name,
            kind: OptionKind::Text,
            secret,
            help: "",
        };
        let options = [option("servers", true), option("account", false)];
        let section = Value::map([
            ("servers", Value::from("nats://saline:hunter2@broker")),
            ("account", "saline".into()),
        ]);
        let shown = without_declared(section, &options);
        assert!(!format!("{shown:?}").contains("hunter2"), "{shown:?}");
        assert_eq!(shown.get("account"), Some(&"saline".into()));
    }
}
