//! Users who log in with a name and a password: Salt's external authentication. Whoever logs in has a token, which goes with each
//! request; what the user may do is decided by [`authorize`](crate::authorize), by the rules of `external_auth` that are in force.
//!
//! | module | has |
//! |---|---|
//! | `password_hash` | the hashes of passwords |
//! | `user_file` | the file with users and such hashes, `^filename` below `file` of `external_auth` |
//! | `credentials` | the check of a name and a password, with bounds for attempts |
//! | `pam_accounts` | ends logins whose accounts were locked since |
//! | `login_store` | who is logged in, until when, with the digests of tokens |

mod credentials;
mod login_store;
mod pam_accounts;
mod password_hash;
mod user_file;

pub(crate) use credentials::{Checked, Credentials};
pub(crate) use login_store::{Login, LoginOutcome, LoginStore, NewLogin};
pub(crate) use pam_accounts::PamAccounts;
pub(crate) use password_hash::PasswordHash;
pub(crate) use user_file::UserFile;
