//! The functions that minions have, a file or a folder for each module.
//!
//! A function has Salt's name and Salt's names of arguments, and documentation in our own words. One that changes something
//! lasting says so (`#[function(changes)]`), has a parameter `test` that only tells what it would change, and returns what it
//! did: a diff, `{old, new}`, or whether anything changed.

mod beacons;
mod cmd;
mod config;
mod cp;
mod cron;
mod disk;
mod environ;
mod event;
mod file;
mod grains;
mod group;
mod hosts;
mod key;
mod mine;
mod mount;
mod nested;
mod network;
mod pillar;
mod pkg;
mod saltutil;
mod schedule;
mod service;
mod shadow;
mod ssh;
mod status;
mod sys;
mod sysctl;
mod system;
mod test;
mod timezone;
mod user;

use crate::module::{Module, everywhere};
use crate::prepared::Preparation;
use crate::system_program::missing_program;

/// Returns what the minion does for a function before the function's own process begins; none for most.
pub(crate) fn preparation(fun: &str) -> Option<Preparation> {
    match fun {
        "cmd.script" | "cmd.script_retcode" => Some(cmd::prepare_script),
        _ => None,
    }
}

/// The modules, in alphabetical order.
pub(crate) const BUILT_IN: &[Module] = &[
    everywhere("beacons", beacons::FUNCTIONS),
    everywhere("cmd", cmd::FUNCTIONS),
    everywhere("config", config::FUNCTIONS),
    everywhere("cp", cp::FUNCTIONS),
    Module {
        name: "cron",
        functions: cron::FUNCTIONS,
        lacks: || missing_program(&["crontab"]),
    },
    everywhere("disk", disk::FUNCTIONS),
    everywhere("environ", environ::FUNCTIONS),
    everywhere("event", event::FUNCTIONS),
    everywhere("file", file::FUNCTIONS),
    everywhere("grains", grains::FUNCTIONS),
    Module {
        name: "group",
        functions: group::FUNCTIONS,
        lacks: || missing_program(&["groupadd", "groupdel", "groupmod", "gpasswd"]),
    },
    everywhere("hosts", hosts::FUNCTIONS),
    everywhere("key", key::FUNCTIONS),
    everywhere("mine", mine::FUNCTIONS),
    everywhere("mount", mount::FUNCTIONS),
    everywhere("network", network::FUNCTIONS),
    everywhere("pillar", pillar::FUNCTIONS),
    Module {
        name: "pkg",
        functions: pkg::FUNCTIONS,
        lacks: pkg::lacks,
    },
    everywhere("saltutil", saltutil::FUNCTIONS),
    everywhere("schedule", schedule::FUNCTIONS),
    Module {
        name: "service",
        functions: service::FUNCTIONS,
        lacks: service::lacks,
    },
    Module {
        name: "shadow",
        functions: shadow::FUNCTIONS,
        lacks: || missing_program(&["chage", "chpasswd", "usermod"]),
    },
    everywhere("ssh", ssh::FUNCTIONS),
    everywhere("status", status::FUNCTIONS),
    everywhere("sys", sys::FUNCTIONS),
    everywhere("sysctl", sysctl::FUNCTIONS),
    everywhere("system", system::FUNCTIONS),
    everywhere("test", test::FUNCTIONS),
    everywhere("timezone", timezone::FUNCTIONS),
    Module {
        name: "user",
        functions: user::FUNCTIONS,
        lacks: || missing_program(&["useradd", "userdel", "usermod"]),
    },
];
