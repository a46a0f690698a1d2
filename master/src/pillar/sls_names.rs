//! The names by which top files and `include` can name the files of an environment.

use std::collections::BTreeSet;

use saline_jailed_files::{EntryKind, InnerPath, Root};

use super::lint::ROOT_LIMITS;

/// Returns the names of all files below the roots, such as `web.ports`, in their order. Top files are not among them.
///
/// # Errors
/// A line for the operator when a root cannot be listed.
pub(super) fn sls_names(roots: &[Root]) -> Result<Vec<String>, String> {
    let mut names = BTreeSet::new();
    for root in roots {
        let cannot = |error: &dyn std::fmt::Display| {
            format!(
                "the folder {} of pillar_roots cannot be listed: {error}",
                root.path().display()
            )
        };
        let listed = root
            .list(&InnerPath::root(), ROOT_LIMITS, can_be_named)
            .map_err(|error| cannot(&error))?
            .map_err(|error| cannot(&error))?;
        let files = listed.after(None);
        let files = files.filter(|entry| entry.kind == EntryKind::File);
        names.extend(files.filter_map(|entry| name_of(entry.path)));
    }
    Ok(names.into_iter().collect())
}

/// Whether a path may be that of a file with a name, or of a folder with one: a dot in it would stand for a folder.
fn can_be_named(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or(path);
    !last.strip_suffix(".sls").unwrap_or(last).contains('.')
}

fn name_of(path: &str) -> Option<String> {
    let path = path.strip_suffix(".sls")?;
    let name = path.strip_suffix("/init").unwrap_or(path);
    let is_named = !name.contains('.') && name != "top";
    is_named.then(|| name.replace('/', "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_names_that_a_top_file_takes() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "top.sls",
            "web.sls",
            "app/init.sls",
            "app/db.sls",
            "app/deep/x.sls",
            "app/map.jinja",
            "README",
            "a.b.sls",
            ".git/x.sls",
            "y.sls/z.sls",
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let root = Root::open(folder.path()).unwrap();
        let names = sls_names(&[root]).unwrap();
        assert_eq!(names, ["app", "app.db", "app.deep.x", "web"]);
    }
}
