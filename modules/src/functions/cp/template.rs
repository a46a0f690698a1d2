//! The function that renders a template of the master.

use std::fs::File;
use std::io::{Seek, Write};

use saline_data::Value;
use saline_functions::{Failure, Mapping, function};

use super::super::file::deliver;
use super::target::{Destination, open, shown};
use crate::JobContext;
use crate::master_files::{SaltUrl, TemplateEngine, look, render};

/// Renders a template of the master and puts the result at a path of the minion, in one step. The result is a text; data that
/// the template prints stands in it as it is.
///
/// The template sees `grains`, `opts`, `saltenv` and the variables that the operator passes, may include and import files of its
/// environment, and calls `salt['grains.get']` and `salt['config.get']`. It is rendered by `saline-render`, a process that reaches
/// no file and no network.
///
/// path
///     The template: `salt://PATH`, or `salt://PATH?saltenv=NAME`.
///
/// dest
///     The absolute path. In a folder, or with a slash at the end, the file keeps its name. A file that is there keeps its owner
///     and mode; a new one gets the mode that the template has on the master.
///
/// template
///     The engine: `jinja`, and no other.
///
/// saltenv
///     The environment; `base` if it is not given.
///
/// makedirs
///     `True` makes missing folders.
///
/// context
///     A mapping of variables. Further `name=value` arguments are variables too; those of the mapping come before them.
///
/// test
///     `True` only tells whether the file would change.
///
/// Returns the path; with `test=True`, whether the file would change.
///
/// CLI Example:
///
///     saline '*' cp.get_template salt://nginx/app.conf.jinja /etc/nginx/conf.d/app.conf port=8080
#[function(changes, in_minion)]
#[allow(clippy::too_many_arguments, reason = "an operator names each of them")]
pub(super) fn get_template(
    job: &JobContext<'_>,
    path: SaltUrl,
    dest: Destination,
    #[default("jinja")] template: TemplateEngine,
    saltenv: Option<String>,
    #[default(false)] makedirs: bool,
    context: Option<Mapping>,
    #[default(false)] test: bool,
    #[kwargs] variables: Mapping,
) -> Result<Value, Failure> {
    let TemplateEngine::Jinja = template;
    let place = path.place(saltenv.as_deref());
    let target = dest.of_file(path.name()?);
    let mut all = context.unwrap_or_default();
    let further = variables
        .into_iter()
        .filter(|(name, _)| !all.iter().any(|(own, _)| own == name));
    let further: Mapping = further.collect();
    all.extend(further);
    let text = render(job, &place, all)?;
    if test {
        let is_same = match std::fs::metadata(&target) {
            Ok(found) if found.is_file() && found.len() == text.len() as u64 => {
                let mut before = Vec::new();
                let read = std::io::Read::read_to_end(&mut open(&target)?, &mut before);
                read.is_ok() && before == text.as_bytes()
            }
            _ => false,
        };
        return Ok(Value::map([("changed", Value::Bool(!is_same))]));
    }
    let mode = look(job, &place)?.mode;
    let mut rendered = in_memory(&text)
        .map_err(|why| Failure::Execution(format!("cannot keep the rendered text: {why}")))?;
    deliver(&mut rendered, &target, mode, makedirs)?;
    Ok(shown(&target))
}

/// Returns a file in memory with this text, which may hold secrets.
fn in_memory(text: &str) -> std::io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("saline-template", flags)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}
