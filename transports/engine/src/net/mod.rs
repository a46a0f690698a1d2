//! Names, addresses and paths: resolving, binding, and the files of Unix sockets.

mod bind;
mod candidate;
mod dial_failures;
mod unix_socket;

pub use bind::{bind_tcp, bind_udp};
pub use candidate::{Candidate, candidates, resolve};
pub use dial_failures::DialFailures;
pub use unix_socket::{UnixSocketFile, check_path, claim_path};
