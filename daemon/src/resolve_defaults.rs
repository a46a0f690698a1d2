//! Fills in the defaults of options that depend on the build or the machine.

use saline_data::Value;
use saline_protocol::transport::Registry;

/// Puts the values that are in force in the place of those that are not set: the default transports of `registry`, and one
/// thread for each core.
pub fn resolve_defaults(options: Value, registry: &Registry) -> Value {
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
            given => given,
        };
        (name, value)
    });
    Value::Map(entries.collect())
}

#[cfg(test)]
mod tests {
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
        let resolved = resolve_defaults(options, &registry);
        assert_eq!(resolved.get("transport"), Some(&"quic".into()));
        assert_eq!(resolved.get("ipc_transport"), Some(&Value::Null));
        assert_eq!(resolved.get("log_file"), Some(&Value::Null));
        let threads = resolved.get("worker_threads").and_then(Value::as_i64);
        assert!(threads.is_some_and(|threads| threads > 0), "{threads:?}");
        assert_eq!(resolve_defaults(Value::Null, &registry), Value::Null);
    }
}
