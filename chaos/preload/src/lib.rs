//! A preloaded library that journals unsynced writes, so that `saline-chaos` can drop them after it killed
//! a daemon, as a loss of power would.
//!
//! It stands in front of libc's functions that write to and sync files. Before a write to a file below
//! `SALINE_CHAOS_JOURNAL_FOLDER` it appends to `SALINE_CHAOS_JOURNAL` what the write replaces; around a
//! sync it appends where that begins and that it has succeeded. Everything else passes through. The
//! functions issue the system calls themselves, so that they do not call one another.
//!
//! Not seen are writes through `mmap` (SQLite's shared memory, which is rebuilt after a crash),
//! `copy_file_range` and `O_TRUNC`: what they change counts as synced.
#![allow(
    unsafe_code,
    reason = "functions that stand in front of libc's have its signatures and its raw pointers"
)]

mod journal;

use std::ffi::{c_int, c_void};

use libc::{iovec, off_t, size_t, ssize_t};

/// Writes to a descriptor.
///
/// # Safety
/// As `write(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    journal::before_write(fd, None, count);
    // SAFETY: the caller's arguments, unchanged.
    unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) as ssize_t }
}

/// Writes to a descriptor from several places.
///
/// # Safety
/// As `writev(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller promises that `parts` are `count` parts.
    journal::before_write(fd, None, unsafe { total(parts, count) });
    // SAFETY: the caller's arguments, unchanged.
    unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) as ssize_t }
}

/// Writes to a descriptor at an offset.
///
/// # Safety
/// As `pwrite(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(
    fd: c_int,
    bytes: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    journal::before_write(fd, Some(offset), count);
    // SAFETY: the caller's arguments, unchanged.
    unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, count, offset) as ssize_t }
}

/// Writes to a descriptor at an offset.
///
/// # Safety
/// As `pwrite64(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    fd: c_int,
    bytes: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's arguments, unchanged.
    unsafe { pwrite(fd, bytes, count, offset) }
}

/// Sets the length of a file.
///
/// # Safety
/// As `ftruncate(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate(fd: c_int, length: off_t) -> c_int {
    journal::before_truncate(fd, length);
    // SAFETY: the caller's arguments, unchanged.
    unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) as c_int }
}

/// Sets the length of a file.
///
/// # Safety
/// As `ftruncate64(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    unsafe { ftruncate(fd, length) }
}

/// Syncs a file.
///
/// # Safety
/// As `fsync(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    journal::around_sync(fd, || {
        // SAFETY: the caller's argument, unchanged.
        unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int }
    })
}

/// Syncs the content of a file.
///
/// # Safety
/// As `fdatasync(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    journal::around_sync(fd, || {
        // SAFETY: the caller's argument, unchanged.
        unsafe { libc::syscall(libc::SYS_fdatasync, fd) as c_int }
    })
}

/// Returns the bytes of all parts.
///
/// # Safety
/// `parts` must be `count` parts.
unsafe fn total(parts: *const iovec, count: c_int) -> size_t {
    let count = usize::try_from(count).unwrap_or(0);
    if parts.is_null() || count == 0 {
        return 0;
    }
    // SAFETY: promised by the caller.
    let parts = unsafe { std::slice::from_raw_parts(parts, count) };
    parts.iter().map(|part| part.iov_len).sum()
}
