//! The HTTP API: `saline-api` beside a real master, asked by curl and by clients that were written for Salt.

mod abandoned;
mod authentication;
mod clients;
mod console;
mod crowds;
pub mod elsewhere;
mod events;
mod files;
mod hooks;
mod http;
mod left_jobs;
mod memory;
mod origins;
mod password_checks;
mod pepper;
mod saltgui;
mod service;
mod slow_listeners;
mod stopping;
mod tls;
mod users;
mod wheels;
