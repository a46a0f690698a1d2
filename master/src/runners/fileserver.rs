//! `fileserver`: the files that the master serves.

use saline_data::Value;
use saline_functions::{Failure, function};
use saline_jailed_files::EntryKind;

use super::error::too_large;
use super::run::Run;
use super::task::MAX_RETURN;
use super::{Functions, Returned};

pub(super) const FUNCTIONS: Functions = &[
    &CLEAR_FILE_LIST_CACHE,
    &DIR_LIST,
    &EMPTY_DIR_LIST,
    &ENVS,
    &FILE_LIST,
    &SYMLINK_LIST,
    &UPDATE,
];

/// Returns the names of all environments.
///
/// CLI Example:
///
///     saline-run fileserver.envs
#[function]
async fn envs(run: &Run) -> Result<Returned, Failure> {
    let served = run.parts.settings.files();
    Ok(Value::texts(served.names()).into())
}

/// Returns the paths of the files of an environment, as minions may ask for them.
///
/// CLI Example:
///
///     saline-run fileserver.file_list
///     saline-run fileserver.file_list saltenv=prod
#[function]
async fn file_list(run: &Run, #[default("base")] saltenv: String) -> Result<Returned, Failure> {
    paths(run, &saltenv, |kind, _| kind == EntryKind::File).await
}

/// Returns the paths of the folders of an environment.
///
/// CLI Example:
///
///     saline-run fileserver.dir_list
#[function]
async fn dir_list(run: &Run, #[default("base")] saltenv: String) -> Result<Returned, Failure> {
    paths(run, &saltenv, |kind, _| kind != EntryKind::File).await
}

/// Returns the paths of the folders of an environment in which nothing is.
///
/// CLI Example:
///
///     saline-run fileserver.empty_dir_list
#[function]
async fn empty_dir_list(
    run: &Run,
    #[default("base")] saltenv: String,
) -> Result<Returned, Failure> {
    paths(run, &saltenv, |kind, _| kind == EntryKind::EmptyFolder).await
}

/// Returns the paths of the links of an environment that stay beneath their root.
///
/// CLI Example:
///
///     saline-run fileserver.symlink_list
#[function]
async fn symlink_list(run: &Run, #[default("base")] saltenv: String) -> Result<Returned, Failure> {
    paths(run, &saltenv, |_, is_link| is_link).await
}

/// Forgets the listings and hashes that the master has in memory, so that the next request reads the folders again. There
/// is nothing else to update: files are read from `file_roots` when they are asked for. Returns True.
///
/// CLI Example:
///
///     saline-run fileserver.update
#[function]
async fn update(run: &Run) -> Result<Returned, Failure> {
    run.parts.files.forget();
    Ok(Value::Bool(true).into())
}

/// Forgets the listings, which are used for twenty seconds otherwise. Returns how many there were.
///
/// CLI Example:
///
///     saline-run fileserver.clear_file_list_cache
#[function]
async fn clear_file_list_cache(run: &Run) -> Result<Returned, Failure> {
    let forgotten = run.parts.files.forget();
    Ok(Value::from(forgotten as i64).into())
}

async fn paths(
    run: &Run,
    environment: &str,
    is_wanted: impl Fn(EntryKind, bool) -> bool,
) -> Result<Returned, Failure> {
    let listing = run.parts.files.listing(environment).await.map_err(|why| {
        let names = run.parts.settings.files();
        let names: Vec<&str> = names.names().collect();
        let why = match why {
            saline_messages::FileRefusal::NoEnvironment => format!(
                "there is no environment {environment:?} in file_roots, which has: {}",
                names.join(", ")
            ),
            other => format!("the environment {environment:?} cannot be listed: {other}"),
        };
        Failure::Execution(why)
    })?;
    let (mut paths, mut bytes) = (Vec::new(), 0);
    for entry in listing.after(None) {
        if !is_wanted(entry.kind, entry.is_link) {
            continue;
        }
        bytes += entry.path.len() + 8;
        if bytes > MAX_RETURN {
            return Err(too_large(
                "the list of these files",
                "minions list folders with `cp.list_master prefix=FOLDER`",
            ));
        }
        paths.push(Value::from(entry.path));
    }
    Ok(Value::List(paths).into())
}
