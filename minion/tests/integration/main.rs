//! The minion as a whole: at a master that a test prescribes, and at a real one.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod clear_messages;
mod daemon;
mod deployment;
mod forged_limits;
mod function_reports;
mod pillar;
mod reconciliation;
mod scripted_master;
mod successor;
mod walk;
