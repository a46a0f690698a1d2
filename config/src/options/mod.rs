//! The options: one table for each role, from which files are read and the documentation is
//! written.

mod access_rules;
mod api;
mod common;
mod external_auth;
mod file_roots;
mod master;
mod master_address;
mod master_role;
mod mine;
mod minion;
mod nodegroups;
mod pillar_sources;
mod reactor;
mod rest_cherrypy;
mod returners;
mod schedule;
mod ssl;
