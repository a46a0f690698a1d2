//! The HTTP API: `saline-api` beside a real master, asked by curl and by clients that were written for Salt.

mod authentication;
mod files;
mod http;
mod service;
mod tls;
