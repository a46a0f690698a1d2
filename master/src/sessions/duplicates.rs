//! Ids that two machines use: a machine and a copy of it, or two that were given one name.

use std::collections::HashMap;
use std::sync::Arc;

use saline_messages::MinionId;

use super::session::{Session, lock};
use super::table::Sessions;

/// How long a duplicate is remembered, in milliseconds. A machine whose session was replaced asks again every minute.
const KNOWN_FOR: u64 = 15 * 60 * 1000;

/// How often a duplicate is reported, in milliseconds.
const REPORTED_EVERY: u64 = 60 * 1000;

/// The largest number of addresses that are remembered of an id.
const MAX_ADDRESSES: usize = 8;

/// The ids that two machines used lately.
#[derive(Debug, Default)]
pub(super) struct Duplicates(HashMap<MinionId, Duplicate>);

#[derive(Debug)]
struct Duplicate {
    /// The addresses that the machines were seen at, the older first.
    addresses: Vec<String>,
    /// When they were seen last, and when that was reported, by the table's time.
    seen: u64,
    reported: Option<u64>,
}

impl Duplicate {
    fn is_late(&self, now: u64) -> bool {
        now.saturating_sub(self.seen) < KNOWN_FOR
    }
}

impl Duplicates {
    fn note(&mut self, id: &MinionId, addresses: [String; 2], now: u64) -> bool {
        self.0.retain(|_, known| known.is_late(now));
        let known = self.0.entry(id.clone()).or_insert(Duplicate {
            addresses: Vec::new(),
            seen: now,
            reported: None,
        });
        known.seen = now;
        // Each of the two comes back with another port whenever the other one has taken its session.
        known.addresses.retain(|known| {
            addresses.contains(known) || addresses.iter().all(|new| host(new) != host(known))
        });
        for address in addresses {
            if !known.addresses.contains(&address) && known.addresses.len() < MAX_ADDRESSES {
                known.addresses.push(address);
            }
        }
        let is_due = known
            .reported
            .is_none_or(|last| now.saturating_sub(last) >= REPORTED_EVERY);
        if is_due {
            known.reported = Some(now);
        }
        is_due
    }
}

impl Sessions {
    /// Notes that two machines use one id. Returns whether that is to be reported.
    pub fn note_duplicate(&self, id: &MinionId, addresses: [String; 2]) -> bool {
        let now = self.time.now();
        lock(&self.table).duplicates.note(id, addresses, now)
    }

    /// Returns the session that took the place of this one, if it belongs to another start of the minion: then two
    /// machines use its id, or it was restarted.
    pub fn seated_other_start(&self, session: &Session) -> Option<Arc<Session>> {
        let table = lock(&self.table);
        let seated = table.of_minion(session.principal.minion()?)?;
        let start = table.all.get(&session.id)?.start;
        (seated.start != start).then(|| Arc::clone(&seated.session))
    }

    /// Returns the ids that two machines used lately, and their addresses.
    pub fn duplicates(&self) -> Vec<(MinionId, Vec<String>)> {
        let now = self.time.now();
        let table = lock(&self.table);
        let known = table.duplicates.0.iter();
        let mut found: Vec<_> = known
            .filter(|(_, known)| known.is_late(now))
            .map(|(id, known)| (id.clone(), known.addresses.clone()))
            .collect();
        found.sort();
        found
    }
}

/// Returns an address without its port.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}
