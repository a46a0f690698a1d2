//! Grains: facts about the machine. Read from the kernel's files at the start, and again on
//! request.

mod hardware;
mod names;
mod network;
mod system;

use std::sync::Arc;

use saline_data::Value;
use saline_messages::MinionId;
use tokio::sync::watch;

pub use names::host_name;
pub(crate) use names::node_name;
pub(crate) use network::hardware_addresses;

/// The entries of a mapping under construction.
type Entries = Vec<(String, Value)>;

/// The grains, and the configuration to collect them again.
#[derive(Debug)]
pub struct GrainStore {
    id: MinionId,
    master: String,
    configured: Vec<(String, Value)>,
    current: watch::Sender<Arc<Value>>,
}

impl GrainStore {
    /// Collects the grains. Those that the operator `configured` override those that were found.
    pub fn collect(id: MinionId, master: String, configured: Vec<(String, Value)>) -> Self {
        let store = Self {
            id,
            master,
            configured,
            current: watch::Sender::new(Arc::new(Value::Null)),
        };
        store.refresh();
        store
    }

    /// Creates a store of the grains of a minion that another process collected.
    pub(crate) fn fixed(id: MinionId, grains: Value) -> Self {
        Self {
            id,
            master: String::new(),
            configured: Vec::new(),
            current: watch::Sender::new(Arc::new(grains)),
        }
    }

    /// Returns the id of the minion.
    pub(crate) fn id(&self) -> &MinionId {
        &self.id
    }

    /// Returns all grains: a mapping in alphabetical order.
    pub fn all(&self) -> Arc<Value> {
        Arc::clone(&self.current.borrow())
    }

    /// Returns a receiver of the grains, whenever they were collected again.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Value>> {
        self.current.subscribe()
    }

    /// Collects the grains again.
    pub fn refresh(&self) {
        let mut found: Entries = vec![
            ("id".to_owned(), Value::from(self.id.as_str())),
            ("master".to_owned(), Value::from(self.master.as_str())),
        ];
        system::add_to(&mut found);
        hardware::add_to(&mut found);
        names::add_to(&mut found);
        network::add_to(&mut found);
        for (name, value) in &self.configured {
            match found.iter_mut().find(|(known, _)| known == name) {
                Some(entry) => entry.1 = value.clone(),
                None => found.push((name.clone(), value.clone())),
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        self.current.send_replace(Arc::new(Value::Map(found)));
    }
}

/// Adds a grain.
fn add(found: &mut Entries, name: &str, value: impl Into<Value>) {
    found.push((name.to_owned(), value.into()));
}

/// Reads a small file of the kernel or the system, trimmed; empty when there is no such file.
fn read(path: &str) -> String {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(configured: Vec<(String, Value)>) -> GrainStore {
        let id = MinionId::parse("m000").unwrap();
        GrainStore::collect(id, "salt".to_owned(), configured)
    }

    #[test]
    fn the_usual_facts_are_there() {
        let grains = store(Vec::new()).all();
        for name in [
            "cpu_model",
            "cpuarch",
            "domain",
            "fqdn",
            "host",
            "hwaddr_interfaces",
            "id",
            "ip4_interfaces",
            "ip6_interfaces",
            "ip_interfaces",
            "ipv4",
            "ipv6",
            "kernel",
            "kernelrelease",
            "machine_id",
            "master",
            "mem_total",
            "nodename",
            "num_cpus",
            "os",
            "os_family",
            "osarch",
            "osfullname",
            "osrelease",
            "path",
            "pid",
            "saltversion",
            "shell",
            "uid",
            "username",
            "virtual",
        ] {
            assert!(grains.get(name).is_some(), "{name}");
        }
        assert_eq!(grains.get("id").unwrap().as_str(), Some("m000"));
        assert_eq!(grains.get("kernel").unwrap().as_str(), Some("Linux"));
        assert!(grains.get("num_cpus").unwrap().as_i64().unwrap() > 0);
        assert!(grains.get("mem_total").unwrap().as_i64().unwrap() > 0);
        let Value::List(v4) = grains.get("ipv4").unwrap() else {
            panic!("a list");
        };
        assert!(v4.contains(&Value::from("127.0.0.1")));
    }

    #[test]
    fn what_is_configured_stands_over_what_was_found() {
        let configured = vec![
            ("os".to_owned(), Value::from("Plan 9")),
            ("role".to_owned(), Value::from("web")),
        ];
        let store = store(configured);
        store.refresh();
        let grains = store.all();
        assert_eq!(grains.get("os").unwrap().as_str(), Some("Plan 9"));
        assert_eq!(grains.get("role").unwrap().as_str(), Some("web"));
        let Value::Map(entries) = grains.as_ref() else {
            panic!("a mapping");
        };
        assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "once, in order");
    }
}
