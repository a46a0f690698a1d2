//! What runs within a session: heartbeats and reconciliation, deliveries of jobs, catching up, and reports.

mod catch_up;
mod deliveries;
pub(crate) mod event_sender;
mod function_reports;
mod grains_reports;
mod heartbeat;
pub(crate) mod master_requests;
pub(crate) mod mine_updates;
pub(crate) mod pillar_refreshes;
mod reports;
pub(crate) mod session_loop;
