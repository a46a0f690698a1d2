//! The functions that bring files of the master into the minion's cache, or look at it.

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};
use saline_messages::{FileKind, FilePlace};
use saline_targeting::Glob;

use super::get::no_folder;
use super::target::shown;
use crate::JobContext;
use crate::master_files::{FileCache, SaltUrl, fetch, list};

/// URLs of files: a list, or a text with commas between them.
#[derive(Debug, Clone)]
pub(super) struct SaltUrls(Vec<SaltUrl>);

impl FromValue for SaltUrls {
    const TAKES: &'static str = "files of the master: a list, or a text with commas between them";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::List(urls) => {
                let read = urls.into_iter().map(SaltUrl::from_value);
                read.collect::<Result<_, _>>().map(Self)
            }
            Value::Text(text) => {
                let read = text
                    .split(',')
                    .map(|url| SaltUrl::from_value(Value::from(url.trim())));
                read.collect::<Result<_, _>>().map(Self)
            }
            other => Err(Mismatch::of::<Self>(&other)),
        }
    }
}

/// Brings a file of the master into the minion's cache, unless the cache has it as it is on the master. Returns its path.
///
/// path
///     The file: `salt://PATH`.
///
/// saltenv
///     The environment; `base` if it is not given.
///
/// CLI Example:
///
///     saline '*' cp.cache_file salt://packages/app.deb
#[function(in_minion)]
pub(super) fn cache_file(
    job: &JobContext<'_>,
    path: SaltUrl,
    saltenv: Option<String>,
) -> Result<Value, Failure> {
    let cache = FileCache::open(&job.host.cache_dir)?;
    let (cached, _) = fetch(job, &cache, &path.place(saltenv.as_deref()))?;
    Ok(shown(&cached))
}

/// Brings several files into the cache, as `cp.cache_file` does one. Returns their paths.
///
/// CLI Example:
///
///     saline '*' cp.cache_files salt://a.deb,salt://b.deb
#[function(in_minion)]
pub(super) fn cache_files(
    job: &JobContext<'_>,
    paths: SaltUrls,
    saltenv: Option<String>,
) -> Result<Value, Failure> {
    let cache = FileCache::open(&job.host.cache_dir)?;
    let fetched = paths.0.iter().map(|url| {
        let (cached, _) = fetch(job, &cache, &url.place(saltenv.as_deref()))?;
        Ok(shown(&cached))
    });
    Ok(Value::List(fetched.collect::<Result<_, Failure>>()?))
}

/// Brings all files below a folder of the master into the cache. Returns their paths.
///
/// path
///     The folder: `salt://PATH`.
///
/// saltenv
///     The environment; `base` if it is not given.
///
/// include_pat
///     A glob over the path below the roots: only files that it matches are cached.
///
/// exclude_pat
///     A glob: files that it matches are not.
///
/// CLI Example:
///
///     saline '*' cp.cache_dir salt://packages
///     saline '*' cp.cache_dir salt://packages include_pat='*.deb'
#[function(in_minion)]
pub(super) fn cache_dir(
    job: &JobContext<'_>,
    path: SaltUrl,
    saltenv: Option<String>,
    include_pat: Option<String>,
    exclude_pat: Option<String>,
) -> Result<Value, Failure> {
    let glob = |text: Option<String>| {
        let compile = |text: String| {
            Glob::compile(&text)
                .map_err(|error| Failure::Invocation(format!("{text:?} is {error}")))
        };
        text.map(compile).transpose()
    };
    let (include, exclude) = (glob(include_pat)?, glob(exclude_pat)?);
    cache_all(job, &path.place(saltenv.as_deref()), |path| {
        include.as_ref().is_none_or(|glob| glob.matches(path))
            && !exclude.as_ref().is_some_and(|glob| glob.matches(path))
    })
}

/// Brings all files of an environment into the cache. Returns their paths.
///
/// CLI Example:
///
///     saline '*' cp.cache_master
#[function(in_minion)]
pub(super) fn cache_master(
    job: &JobContext<'_>,
    #[default("base")] saltenv: String,
) -> Result<Value, Failure> {
    let all = FilePlace {
        environment: saltenv,
        path: String::new(),
    };
    cache_all(job, &all, |_| true)
}

fn cache_all(
    job: &JobContext<'_>,
    below: &FilePlace,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Value, Failure> {
    let cache = FileCache::open(&job.host.cache_dir)?;
    let mut fetched = Vec::new();
    let is_there = list(job, &below.environment, &below.path, |entry| {
        if entry.kind == FileKind::File && is_wanted(&entry.path) {
            let place = FilePlace {
                environment: below.environment.clone(),
                path: entry.path,
            };
            fetched.push(shown(&fetch(job, &cache, &place)?.0));
        }
        Ok(())
    })?;
    match is_there {
        true => Ok(Value::List(fetched)),
        false => Err(no_folder(below)),
    }
}

/// Returns the path that a file of the master has in the minion's cache; an empty text if it is not there. The master is not
/// asked, so it may be an older version.
///
/// CLI Example:
///
///     saline '*' cp.is_cached salt://packages/app.deb
#[function(in_minion)]
pub(super) fn is_cached(
    job: &JobContext<'_>,
    path: SaltUrl,
    saltenv: Option<String>,
) -> Result<Value, Failure> {
    let cache = FileCache::open(&job.host.cache_dir)?;
    let inner = cache.inner(&path.place(saltenv.as_deref()))?;
    Ok(match cache.file(&inner) {
        Some(_) => shown(&cache.path(&inner)),
        None => Value::from(""),
    })
}

/// Returns the paths of the files of an environment that the minion's cache has.
///
/// CLI Example:
///
///     saline '*' cp.list_minion
#[function(in_minion)]
pub(super) fn list_minion(
    job: &JobContext<'_>,
    #[default("base")] saltenv: String,
) -> Result<Value, Failure> {
    let names = FileCache::open(&job.host.cache_dir)?.list(&saltenv)?;
    Ok(Value::texts(names.iter().map(String::as_str)))
}
