//! The HTTP API: what clients of Salt's `rest_cherrypy` ask for, carried out through `saline-client`.
//!
//! The API decides about nobody's rights. It sends each request to the master together with the token of the login that it came
//! with, and the master judges it. Without a token in the right form a request is refused before its body is read.

mod accept;
mod answer_body;
mod answers;
mod api;
mod client_places;
mod clients;
mod configuration;
mod content;
mod cors;
mod credential_headers;
mod deadline;
mod endpoints;
mod error;
mod event_streams;
mod events;
mod format;
mod forwarded;
mod limits;
mod listener;
mod login;
mod lowstate;
mod master_connection;
mod metrics;
mod request_log;
mod run;
mod settings;
mod static_files;
mod temporary_login;
mod throttled_logins;
mod tls;
mod whole_body;
mod write_timeout;

pub use run::{command_line, run};
