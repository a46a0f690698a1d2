//! The memory of a process.

use std::io;

/// Returns the resident memory of a process in bytes; 0 when it has ended and nobody has waited for it.
///
/// # Errors
/// When there is no such process.
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm"))?;
    // proc(5): the second number counts pages.
    let pages: Option<u64> = statm.split(' ').nth(1).and_then(|text| text.parse().ok());
    let pages = pages.ok_or(io::ErrorKind::InvalidData)?;
    Ok(pages * rustix::param::page_size() as u64)
}
