//! What files and words of a command line become, and what is said of those that cannot be.

mod api;
mod arguments;
mod assignments;
mod errors;
mod external_auth;
mod folder;
mod load;
mod reactor;
mod returners;
mod schedule;
