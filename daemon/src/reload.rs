//! Takes a configuration over that was read again while the daemon runs.

use std::fmt::Display;

use saline_config::{ChangedOption, Loaded, Logging, MasterConfig, MinionConfig};

use crate::logging::Log;

/// A configuration of a daemon, as it was loaded.
pub trait Reloaded: Sized {
    /// Returns the options whose values are others than in `before`.
    fn changed_since(&self, before: &Self) -> Vec<ChangedOption>;
    /// Returns the configuration of the log.
    fn logging(&self) -> &Logging;
    /// Returns the warnings about the files.
    fn warnings(&self) -> &[String];
}

macro_rules! reloaded {
    ($role:ty) => {
        impl Reloaded for Loaded<$role> {
            fn changed_since(&self, before: &Self) -> Vec<ChangedOption> {
                Loaded::<$role>::changed_since(self, before)
            }

            fn logging(&self) -> &Logging {
                &self.config.logging
            }

            fn warnings(&self) -> &[String] {
                &self.warnings
            }
        }
    };
}

reloaded!(MasterConfig);
reloaded!(MinionConfig);

/// Takes a configuration over that was `read` again, as far as the log is concerned, reopens the log file, and
/// says in one line what has changed since the configuration before it, and what differs from the one that the daemon
/// was started with and needs a restart. Returns the configuration, or none when it is wrong: then nothing has changed.
pub fn reload<C: Reloaded>(
    log: &Log,
    started: &C,
    before: &C,
    read: Result<C, impl Display>,
) -> Option<C> {
    let new = match read {
        Ok(new) => new,
        Err(error) => {
            // The log file may have been rotated all the same: its lines must not go into the old one.
            let reopened = log.reload(before.logging());
            tracing::error!("configuration not reloaded: {error}");
            if let Err(error) = reopened {
                tracing::error!("the log stays where it was: {error}");
            }
            return None;
        }
    };
    if let Err(error) = log.reload(new.logging()) {
        tracing::error!("configuration not reloaded: {error}");
        return None;
    }
    // A warning that was given before is not repeated, or nobody would read it.
    let known = before.warnings();
    for warning in new.warnings().iter().filter(|line| !known.contains(line)) {
        tracing::warn!("{warning}");
    }
    let taken_over = new.changed_since(before).into_iter();
    let postponed = new.changed_since(started).into_iter();
    let changed: Vec<_> = taken_over
        .filter(|option| option.is_taken_over)
        .chain(postponed.filter(|option| !option.is_taken_over))
        .collect();
    crate::notice!("{}", describe(&changed));
    Some(new)
}

/// Returns what is said of the changes. An operator asked for it, so it is said at the default level.
fn describe(changed: &[ChangedOption]) -> String {
    let list = |is_taken_over: bool| {
        let names = changed
            .iter()
            .filter(|option| option.is_taken_over == is_taken_over)
            .map(|option| option.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let (now, later) = (list(true), list(false));
    let head = "configuration reloaded";
    match (now.as_str(), later.as_str()) {
        ("", "") => format!("{head}; nothing has changed"),
        (now, "") => format!("{head}; changed: {now}"),
        ("", later) => format!("{head}; needs a restart to take effect: {later}"),
        (now, later) => format!("{head}; changed: {now}; needs a restart to take effect: {later}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_restart_is_told_apart() {
        let option = |name: &str, is_taken_over| ChangedOption {
            name: name.to_owned(),
            is_taken_over,
        };
        let (a, b, c) = (option("a", true), option("b", false), option("c", true));
        insta::assert_snapshot!(describe(&[]), @"configuration reloaded; nothing has changed");
        insta::assert_snapshot!(describe(&[a.clone(), c.clone()]), @"configuration reloaded; changed: a, c");
        insta::assert_snapshot!(describe(std::slice::from_ref(&b)), @"configuration reloaded; needs a restart to take effect: b");
        insta::assert_snapshot!(describe(&[a, b, c]), @"configuration reloaded; changed: a, c; needs a restart to take effect: b");
    }
}
