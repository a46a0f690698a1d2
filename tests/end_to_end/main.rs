//! What an operator, a minion and a master do together: real processes over real sockets, under a temporary root.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod api_keys;
mod audit;
mod batches;
mod benchmarks;
mod command_line;
mod commands;
mod daemons;
mod durability;
mod durable_events;
mod embedding;
mod event_listener;
mod files;
mod first_job;
mod http_api;
mod identity;
mod interrupt;
mod job_states;
mod job_store;
mod keys;
mod kill_jobs;
mod killed_for_memory;
mod large_returns;
mod local_users;
mod logins;
mod masters_user;
mod memory;
mod mine;
mod monitoring;
mod moving;
mod nats;
mod outliving_jobs;
mod own_functions;
mod pam;
mod pillar;
mod pillar_functions;
mod presence;
mod private_files;
mod quickstart;
mod reactor;
mod returners;
mod returns_at_the_timeout;
mod runners;
mod saline_call;
mod saline_cp;
mod salt_samples;
mod schedules;
mod scripts_and_templates;
mod secrets;
mod service;
mod strangers;
mod swarm;
mod targets;
mod tls;
mod tokens;
mod unknown_functions;
