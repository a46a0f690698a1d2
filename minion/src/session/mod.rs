//! What runs within a session: heartbeats and reconciliation, deliveries of jobs, catching up, and reports.

mod catch_up;
mod deliveries;
pub(crate) mod event_sender;
pub(crate) mod file_requests;
mod function_reports;
mod grains_reports;
mod heartbeat;
pub(crate) mod pillar_refreshes;
pub(crate) mod pillar_requests;
mod reports;
pub(crate) mod session_loop;
