//! Grains: facts about the machine. Read from the kernel's files at the start, and again on
//! request.

mod executables;
mod firmware;
mod hardware;
mod names;
mod network;
mod static_files;
mod storage;
mod system;
mod systemd;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_config::MinionConfig;
use saline_data::Value;
use saline_functions::{Failure, Mapping};
use saline_messages::MinionId;
use tokio::sync::watch;

use static_files::StaticFiles;

use crate::merged_entries::merge_entries;

pub use names::host_name;
pub(crate) use names::node_name;
pub(crate) use network::hardware_addresses;

/// The entries of a mapping under construction.
type Entries = Mapping;

/// The grains, and what they are collected from. Of two grains with the same name the later one counts: that of the machine,
/// of an executable in `grains_dirs`, of a file beside the configuration, of the configuration. `id` is always the minion's id.
#[derive(Debug)]
pub struct GrainStore {
    id: MinionId,
    master: String,
    files: Option<StaticFiles>,
    configured: Mapping,
    printed: Mutex<Mapping>,
    current: watch::Sender<Arc<Value>>,
}

impl GrainStore {
    /// Collects the grains, but for those that executables print.
    pub fn collect(id: MinionId, config: &MinionConfig) -> Self {
        let masters: Vec<&str> = config.master.iter().map(|m| m.host.as_str()).collect();
        let store = Self {
            id,
            master: masters.join(","),
            files: config.folder.clone().map(StaticFiles),
            configured: config.grains.clone(),
            printed: Mutex::default(),
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
            files: None,
            configured: Vec::new(),
            printed: Mutex::default(),
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

    /// Collects the grains again; those that executables print are the last known ones.
    pub fn refresh(&self) {
        // Held to the end, so that what was read last is what holds.
        let printed = self.lock();
        let mut found: Entries = vec![("master".to_owned(), Value::from(self.master.as_str()))];
        system::add_to(&mut found);
        systemd::add_to(&mut found);
        hardware::add_to(&mut found);
        firmware::add_to(&mut found);
        storage::add_to(&mut found);
        names::add_to(&mut found);
        network::add_to(&mut found);
        merge_entries(&mut found, printed.clone());
        if let Some(files) = &self.files {
            files.add_to(&mut found);
        }
        merge_entries(&mut found, self.configured.clone());
        // Whatever else names it: targets by this grain would reach another minion than the id says.
        merge_entries(
            &mut found,
            vec![("id".to_owned(), Value::from(self.id.as_str()))],
        );
        found.sort_by(|a, b| a.0.cmp(&b.0));
        self.current.send_replace(Arc::new(Value::Map(found)));
    }

    /// Has `edit` change the grains that are kept beside the configuration, and collects all of them again.
    ///
    /// # Errors
    /// When their file cannot be read, understood or written.
    pub(crate) fn edit<T>(
        &self,
        edit: impl FnOnce(&mut Mapping) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let done = self.place()?.edit(edit)?;
        self.refresh();
        Ok(done)
    }

    /// Returns the grains that are kept beside the configuration in the file that functions write.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub(crate) fn kept(&self) -> Result<Mapping, Failure> {
        self.place()?.read()
    }

    fn place(&self) -> Result<&StaticFiles, Failure> {
        self.files.as_ref().ok_or_else(|| {
            let why = "this minion has no folder of configuration, and so no place to keep grains";
            Failure::Execution(why.to_owned())
        })
    }

    /// Whether the configuration sets this grain, over which nothing that is kept beside it counts.
    pub(crate) fn is_configured(&self, name: &str) -> bool {
        self.configured.iter().any(|(known, _)| known == name)
    }

    fn lock(&self) -> MutexGuard<'_, Mapping> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut config = MinionConfig::default();
        config.grains = configured;
        GrainStore::collect(id, &config)
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
    fn the_grain_id_is_the_id_whatever_is_configured() {
        let grains = store(vec![("id".to_owned(), Value::from("other"))]).all();
        assert_eq!(grains.get("id"), Some(&Value::from("m000")));
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
