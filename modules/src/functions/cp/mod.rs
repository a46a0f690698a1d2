//! `cp`: files of the master, and files for it.
//!
//! | file | has |
//! |---|---|
//! | `get` | the functions that put files of the master at a path of the minion |
//! | `cached` | the functions that bring files into the minion's cache, or look at it |
//! | `listed` | the functions that tell what the master has |
//! | `pushed` | the functions that hand files in at the master |
//! | `template` | the function that renders a template of the master |
//! | `received` | the function that fetches what `saline-cp` handed to the master |
//! | `target` | where a file of the master goes on the minion |

mod cached;
mod get;
mod listed;
mod pushed;
mod received;
mod target;
mod template;

use crate::Functions;

pub(super) const FUNCTIONS: Functions = &[
    &cached::CACHE_DIR,
    &cached::CACHE_FILE,
    &cached::CACHE_FILES,
    &cached::CACHE_MASTER,
    &get::GET_DIR,
    &get::GET_FILE,
    &get::GET_FILE_STR,
    &template::GET_TEMPLATE,
    &get::GET_URL,
    &listed::ENVS,
    &listed::HASH_FILE,
    &cached::IS_CACHED,
    &listed::LIST_MASTER,
    &listed::LIST_MASTER_DIRS,
    &listed::LIST_MASTER_SYMLINKS,
    &cached::LIST_MINION,
    &pushed::PUSH,
    &pushed::PUSH_DIR,
    &received::RECV,
    &listed::STAT_FILE,
];
