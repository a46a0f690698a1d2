//! Loads that minions and strangers make. Each takes all of the machine.

mod colluding_minions;
mod files;
mod strangers;
mod zmtp;
