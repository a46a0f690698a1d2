//! Disks, and arrays of them.

use std::fs;
use std::path::Path;

use saline_data::Value;

use super::{Entries, add, read};

/// The first letters of block devices that are no disks: loop devices, RAM, optical drives, and what is made of disks.
const NO_DISKS: [&str; 7] = ["loop", "ram", "zram", "sr", "fd", "dm-", "md"];

pub fn add_to(found: &mut Entries) {
    let (mut disks, mut ssds) = (Vec::new(), Vec::new());
    let mut names: Vec<String> = fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !NO_DISKS.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    names.sort_unstable();
    for name in names {
        match read(&format!("/sys/block/{name}/queue/rotational")).as_str() {
            "0" => ssds.push(name),
            "1" => disks.push(name),
            _ => {}
        }
    }
    add(found, "disks", Value::texts(disks));
    add(found, "ssds", Value::texts(ssds));
    if Path::new("/proc/mdstat").exists() {
        add(found, "mdadm", Value::texts(arrays(&read("/proc/mdstat"))));
    }
}

/// Returns the names of the arrays that the kernel lists.
fn arrays(mdstat: &str) -> Vec<&str> {
    let names = mdstat.lines().filter_map(|line| line.split_once(" : "));
    let names = names.map(|(name, _)| name.trim());
    names.filter(|name| name.starts_with("md")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_told_from_other_lines() {
        let mdstat = "Personalities : [raid1]\nmd0 : active raid1 sdb1[1] sda1[0]\n      10 blocks [2/2] [UU]\n\nunused devices: <none>";
        assert_eq!(arrays(mdstat), ["md0"]);
        assert_eq!(arrays(""), [""; 0]);
    }
}
