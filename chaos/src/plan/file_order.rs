//! Orders about files of the master: which minion fetches what, and how.

use std::time::Duration;

use super::PlanSpec;
use crate::random::Random;

/// How many names the served files have. Each order replaces the file of its name, so that files change while they are sent.
const NAMES: u32 = 4;

/// What stands before the number of an order in the name of the file that it leaves with the minion.
const MARK: &str = "order-";

const KIB: u64 = 1024;

/// The way in which a file reaches a minion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileAct {
    /// `cp.get_file`, to a path of the minion.
    Get,
    /// `cp.cache_file`, into the minion's cache.
    Cache,
    /// `saline-cp`, to a path of the minion.
    Copy,
}

/// An order that a minion fetches a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileOrder {
    pub(crate) at: Duration,
    /// The number of the order, and the version of its file.
    pub(crate) number: u32,
    pub(crate) minion: usize,
    pub(crate) act: FileAct,
    /// The size of the file in bytes.
    pub(crate) size: u64,
}

impl FileOrder {
    /// Returns the name of the served file.
    pub(crate) fn name(&self) -> String {
        format!("data{}", self.number % NAMES)
    }

    /// Returns the name of the file that an order leaves with the minion, which no other order has.
    pub(crate) fn left_by(number: u32) -> String {
        format!("{MARK}{number:06}")
    }

    /// Finds the number of an order in a path, or in the arguments of a stored job, however they are packed.
    pub(crate) fn find(bytes: &[u8]) -> Option<u32> {
        let mark = MARK.as_bytes();
        let at = bytes
            .windows(mark.len())
            .position(|window| window == mark)?;
        let digits = bytes.get(at + mark.len()..at + mark.len() + 6)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

/// Draws the orders about files.
pub(super) fn file_orders(spec: &PlanSpec, random: &mut Random) -> Vec<FileOrder> {
    let mut orders = Vec::new();
    let mut at = random.millis(500..=1500);
    while at < spec.length {
        orders.push(FileOrder {
            at,
            number: orders.len() as u32 + 1,
            minion: random.index(spec.minions) + 1,
            act: match random.number(1..=100) {
                1..=50 => FileAct::Get,
                51..=70 => FileAct::Cache,
                _ => FileAct::Copy,
            },
            size: match random.number(1..=100) {
                1..=30 => random.number(100..=4 * KIB),
                31..=75 => random.number(100 * KIB..=600 * KIB),
                _ => random.number(4 * KIB * KIB..=12 * KIB * KIB),
            },
        });
        at += random.millis(600..=1800);
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_order_is_found_in_packed_arguments() {
        let left = FileOrder::left_by(17);
        let packed = [b"\xd9\x20/fetched/m1/", left.as_bytes()].concat();
        assert_eq!(FileOrder::find(&packed), Some(17));
        assert_eq!(FileOrder::find(b"order-12"), None);
        assert_eq!(FileOrder::find(b"salt://data1"), None);
    }
}
