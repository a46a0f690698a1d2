//! Compares two configurations when a running daemon reads its files again.
//!
//! What a running daemon takes over on SIGHUP is a list of names in each role (`RELOADED`). Files are compared
//! option by option, so that what needs a restart is named.

use std::collections::BTreeSet;

use saline_data::Value;

use crate::Loaded;
use crate::role::Role;

/// An option whose value has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedOption {
    /// The option, a transport with a section, or the folder `minions.d`.
    pub name: String,
    /// Whether a running daemon takes the new value over; otherwise the next start does.
    pub is_taken_over: bool,
}

#[allow(private_bounds, reason = "the roles of this crate are the only ones")]
impl<C: Role> Loaded<C> {
    /// Returns the options whose values are others than in `before`, by name.
    pub fn changed_since(&self, before: &Self) -> Vec<ChangedOption> {
        let (old, new) = (&before.given.values, &self.given.values);
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let mut changed: BTreeSet<&str> = names
            .into_iter()
            .filter(|name| old.get(*name) != new.get(*name))
            .map(String::as_str)
            .collect();
        if before.given.tls != self.given.tls {
            changed.insert("ssl");
        }
        let is_option = |name: &str| C::OPTIONS.iter().any(|option| option.name == name);
        let is_transport = |name: &str| self.given.schemes.iter().any(|scheme| scheme == name);
        changed
            .into_iter()
            .map(|name| ChangedOption {
                name: name.to_owned(),
                is_taken_over: match is_option(name) {
                    true => C::RELOADED.contains(&name),
                    // The rest are sections of transports, `minions.d`, and options without effect.
                    false => C::RELOADS_TRANSPORTS || !is_transport(name),
                },
            })
            .collect()
    }
}

#[allow(private_bounds, reason = "the roles of this crate are the only ones")]
impl<C: Role> Loaded<C> {
    /// Returns every option by its name as it is in force in a daemon that was `started` with other files: what it
    /// takes over is as these files have it, the rest as those had it.
    pub fn options_in_force(&self, started: &Self) -> Value {
        let is_taken_over = |name: &str| match C::OPTIONS.iter().any(|option| option.name == name) {
            true => C::RELOADED.contains(&name),
            false => C::RELOADS_TRANSPORTS || C::is_kept(name),
        };
        let of = |loaded: &Self, wanted: bool| match &loaded.options {
            Value::Map(entries) => {
                let entries = entries.iter();
                let wanted = entries.filter(|(name, _)| is_taken_over(name) == wanted);
                wanted.cloned().collect()
            }
            _ => Vec::new(),
        };
        let mut options: Vec<(String, Value)> = of(self, true);
        options.extend(of(started, false));
        options.sort_by(|(a, _), (b, _)| a.cmp(b));
        Value::Map(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MasterConfig, MinionConfig};

    fn changed<C: Role>(before: &str, after: &str) -> String {
        let load = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(C::FILE), text).unwrap();
            crate::load::load::<C>(folder.path(), &["tcp", "zeromq"]).unwrap()
        };
        let changed = load(after).changed_since(&load(before));
        let shown = changed.iter().map(|option| match option.is_taken_over {
            true => option.name.clone(),
            false => format!("({})", option.name),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_has_changed_is_told_apart() {
        let before = "auto_accept: True\nret_port: 4506\ntransport: zeromq\nlog_level: info\n";
        assert_eq!(changed::<MasterConfig>(before, before), "");
        let reordered =
            "log_level: info\ntransport: zeromq # a comment\nret_port: 4506\n\nauto_accept: True\n";
        assert_eq!(changed::<MasterConfig>(before, reordered), "");
        let after = "ret_port: 4507\ntransport: [zeromq, tcp]\nlog_level: debug\ntcp: {ret_port: 4508}\nmine_interval: 5\n";
        assert_eq!(
            changed::<MasterConfig>(before, after),
            "auto_accept log_level mine_interval (ret_port) (tcp) (transport)"
        );
        let minion = "transport: zeromq\nid: a\nlog_level: info\n";
        let after = "transport: [tcp, zeromq]\nid: b\ntcp: {master_port: 4507}\nlog_level: info\n";
        assert_eq!(changed::<MinionConfig>(minion, after), "(id) tcp transport");
    }

    #[test]
    fn options_in_force_are_those_that_were_taken_over_and_the_rest_as_it_was() {
        let load = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("master"), text).unwrap();
            MasterConfig::load(folder.path(), &["tcp", "zeromq"]).unwrap()
        };
        let started =
            load("timeout: 5\nret_port: 4506\nzeromq: {ret_port: 4507}\nmax_minions: 7\n");
        let read = load("timeout: 9\nret_port: 4510\ntcp: {ret_port: 4511}\n");
        let options = read.options_in_force(&started);
        let port = |port| Value::map([("ret_port", Value::Int(port))]);
        for (name, value) in [
            ("timeout", Some(Value::Int(9))),
            ("max_minions", Some(Value::Int(0))),
            ("ret_port", Some(Value::Int(4506))),
            ("zeromq", Some(port(4507))),
            ("tcp", None),
        ] {
            assert_eq!(options.get(name), value.as_ref(), "{name}");
        }
        assert_eq!(
            started.options_in_force(&started).get("timeout"),
            Some(&Value::Int(5))
        );
    }

    #[test]
    fn a_renewed_certificate_is_a_change_of_ssl() {
        let folder = tempfile::tempdir().unwrap();
        let authority = folder.path().join("ca.pem");
        let text = format!("ssl: {{ca_certs: {}}}\n", authority.display());
        std::fs::write(folder.path().join("master"), text).unwrap();
        let load = |pem: &str| {
            std::fs::write(&authority, pem).unwrap();
            MasterConfig::load(folder.path(), &[]).unwrap()
        };
        let (before, after) = (load("one"), load("two"));
        let changed = after.changed_since(&before);
        assert_eq!(changed.len(), 1);
        assert_eq!(
            (changed[0].name.as_str(), changed[0].is_taken_over),
            ("ssl", false)
        );
    }

    #[test]
    fn what_is_taken_over_are_options() {
        fn check<C: Role>() {
            for name in C::RELOADED {
                assert!(
                    C::OPTIONS.iter().any(|option| option.name == *name),
                    "{name}"
                );
            }
            assert!(C::RELOADED.is_sorted());
        }
        check::<MasterConfig>();
        check::<MinionConfig>();
        check::<crate::ApiConfig>();
    }
}
