//! Mounted filesystems, and those of `/etc/fstab`: both files have the same format.

use std::fmt::{self, Write};

use saline_data::Value;

/// A line of a table of mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The device, or what stands for it.
    pub device: String,
    /// The folder.
    pub folder: String,
    /// The kind of filesystem.
    pub fstype: String,
    /// The options.
    pub options: Vec<String>,
    /// Whether `dump` saves the filesystem.
    pub dump: u64,
    /// The place in the order of checks at the start; 0 for no check.
    pub pass: u64,
}

impl Mount {
    /// Reads a line; none if it is a comment, or is no entry.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let mut fields = line.split_ascii_whitespace();
        let mut text = || fields.next().map(unescaped);
        let (device, folder, fstype) = (text()?, text()?, text()?);
        let options = text().unwrap_or_else(|| "defaults".to_owned());
        let mut number = || fields.next().and_then(|n| n.parse().ok()).unwrap_or(0);
        Some(Self {
            device,
            folder,
            fstype,
            options: options.split(',').map(str::to_owned).collect(),
            dump: number(),
            pass: number(),
        })
    }

    /// Returns what is mounted in the minion's mount namespace, in the order of mounting.
    pub(crate) fn active() -> std::io::Result<Vec<Self>> {
        let table = std::fs::read("/proc/self/mounts")?;
        let table = String::from_utf8_lossy(&table);
        Ok(table.lines().filter_map(Self::parse).collect())
    }

    /// Returns the mount as Salt's `mount.fstab` shows it.
    pub(crate) fn to_value(&self) -> Value {
        Value::map([
            ("device", Value::from(self.device.as_str())),
            ("fstype", Value::from(self.fstype.as_str())),
            (
                "opts",
                Value::texts(self.options.iter().map(String::as_str)),
            ),
            ("dump", Value::from(self.dump.to_string())),
            ("pass", Value::from(self.pass.to_string())),
        ])
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = self.options.join(",");
        for field in [&self.device, &self.folder, &self.fstype, &options] {
            write!(f, "{}\t", escaped(field))?;
        }
        write!(f, "{}\t{}", self.dump, self.pass)
    }
}

/// Returns a field with what ends fields and lines as octal numbers.
fn escaped(field: &str) -> String {
    let mut text = String::new();
    for c in field.chars() {
        match c {
            ' ' | '\t' | '\n' | '\r' | '\\' | '#' | '\x0b' | '\x0c' => {
                // Writing to a text cannot fail.
                let _ = write!(text, "\\{:03o}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text
}

fn unescaped(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let number = behind.get(..3).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match (first, number) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_is_read_as_it_was_written(
            fields in proptest::collection::vec("[^,\\x00\\x85\u{a0}]{1,10}", 4),
            (dump, pass) in (0..3u64, 0..3u64),
        ) {
            let mount = Mount {
                device: fields[0].clone(),
                folder: fields[1].clone(),
                fstype: fields[2].clone(),
                options: vec!["rw".to_owned(), fields[3].clone()],
                dump,
                pass,
            };
            prop_assert_eq!(Mount::parse(&mount.to_string()), Some(mount));
        }

        #[test]
        fn no_line_is_a_panic(line in ".*") {
            let _ = Mount::parse(&line);
        }
    }

    #[test]
    fn the_lines_of_fstab_are_understood() {
        let root = Mount::parse("UUID=1-2  /  ext4 errors=remount-ro,noatime 0 1").unwrap();
        assert_eq!((root.options.len(), root.pass), (2, 1));
        assert_eq!(
            Mount::parse(r"//nas/a\040b /mnt/c\134d cifs")
                .unwrap()
                .device,
            "//nas/a b"
        );
        for none in ["", "# /dev/sda / ext4", "  #x y z", "/dev/sda /"] {
            assert_eq!(Mount::parse(none), None, "{none:?}");
        }
    }
}
