//! The journal of systemd as the reader of the standard error output.
//!
//! The lines go to the journal through the queue of the log, so that a slow journal blocks no thread that logs. A prefix of each
//! line tells the journal its priority (sd-daemon(3)).

use std::fmt::Display;
use std::io;
use std::os::fd::AsFd;

use tracing::Level;

/// The variable that names the device and the inode of the stream to the journal.
const STREAM: &str = "JOURNAL_STREAM";

/// Whether the standard error output goes to the journal. A program that a service has started inherits the variable even if it
/// writes elsewhere, so the stream is compared.
pub(super) fn takes_standard_error() -> bool {
    std::env::var(STREAM).is_ok_and(|named| is_stream(&named, io::stderr()))
}

fn is_stream(named: &str, stream: impl AsFd) -> bool {
    rustix::fs::fstat(stream)
        .is_ok_and(|found| named == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Prints a line of a program that has no log, or none yet, to the standard error output; to the journal with its priority.
pub fn print_line(level: Level, program: &str, line: &dyn Display) {
    let priority = match takes_standard_error() {
        true => priority(&level),
        false => "",
    };
    eprintln!("{priority}{program}: {line}");
}

/// Returns the prefix that tells the journal the priority of a line.
pub(super) fn priority(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_stream_is_known_by_its_device_and_inode() {
        let file = tempfile::tempfile().unwrap();
        let found = file.metadata().unwrap();
        assert!(is_stream(
            &format!("{}:{}", found.dev(), found.ino()),
            &file
        ));
        assert!(!is_stream(
            &format!("{}:{}", found.dev(), found.ino() + 1),
            &file
        ));
        assert!(!is_stream("", &file));
    }
}
