//! The pages of a program's code that only its start needed.
//!
//! The kernel maps 64 KiB around each place of the code that a process touches, and keeps them mapped: a minion's start maps 10 of its
//! 14 MiB.

/// Unmaps the pages of this program's code and constants. What runs next is mapped again from the page cache, and read from the file only
/// if the system has taken it meanwhile, which it may do with what nobody maps. Call it once, when the program has begun to
/// serve.
///
/// A debugger's breakpoints that were set before are lost, since they are changes of these pages.
#[cfg(target_os = "linux")]
pub fn give_startup_pages_back() {
    use rustix::mm::{Advice, madvise};

    let (Ok(program), Ok(maps)) = (
        std::fs::read_link("/proc/self/exe"),
        std::fs::read_to_string("/proc/self/maps"),
    ) else {
        // Without /proc everything stays mapped.
        return;
    };
    for pages in maps
        .lines()
        .filter_map(|line| unwritten_pages(line, &program))
    {
        let start = std::ptr::with_exposed_provenance_mut(pages.start);
        // SAFETY: nothing has written to these pages, so the kernel maps the same bytes again when they are used.
        #[allow(unsafe_code, reason = "the advice is given about raw addresses")]
        let advised = unsafe { madvise(start, pages.len(), Advice::LinuxDontNeed) };
        if let Err(error) = advised {
            tracing::debug!("the code that only the start needed stays in memory: {error}");
        }
    }
}

/// Does nothing on this system.
#[cfg(not(target_os = "linux"))]
pub fn give_startup_pages_back() {}

/// Returns the addresses of a line of `/proc/self/maps`, if nothing has written to them since `program` was loaded. That is so for its
/// code, and for the read-only segment at the beginning of its file. It is not so for the other read-only segments: the loader has
/// relocated the addresses in one of them before it took away the permission to write.
#[cfg(target_os = "linux")]
fn unwritten_pages(line: &str, program: &std::path::Path) -> Option<std::ops::Range<usize>> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let is_unwritten = match (fields.next()?, fields.next()?) {
        ("r-xp", _) => true,
        ("r--p", offset) => offset.bytes().all(|digit| digit == b'0'),
        _ => false,
    };
    // The path follows device and inode, and may have blanks.
    let is_program = line.ends_with(program.to_str()?) && fields.nth(2).is_some();
    let address = |text| usize::from_str_radix(text, 16).ok();
    (is_unwritten && is_program).then_some(address(start)?..address(end)?)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn what_the_loader_wrote_to_stays() {
        let program = std::path::Path::new("/usr/bin/saline minion");
        for unwritten in [
            "1000-3000 r--p 00000000 fe:00 12                 /usr/bin/saline minion",
            "1000-3000 r-xp 00041000 fe:00 12 /usr/bin/saline minion",
        ] {
            assert_eq!(unwritten_pages(unwritten, program), Some(0x1000..0x3000));
        }
        for other in [
            "1000-3000 r--p 00ef1000 fe:00 12 /usr/bin/saline minion",
            "1000-3000 rw-p 00f7a000 fe:00 12 /usr/bin/saline minion",
            "1000-3000 r--p 00000000 fe:00 12 /usr/lib/libc.so.6",
            "1000-3000 r-xp 00000000 00:00 0",
            "1000-3000",
            "x-y r-xp 00001000 fe:00 12 /usr/bin/saline minion",
            "",
        ] {
            assert_eq!(unwritten_pages(other, program), None, "{other:?}");
        }
    }
}
