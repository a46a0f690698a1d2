//! The names of files, such as `web.ports`.

/// Returns the name of a file that is written as `web.ports`, or with slashes in the place of dots: `web/ports`. What is not a
/// path below a root, such as `/web` and `web/../ports`, stays as it is, and so is the name of no file.
pub(crate) fn sls_name(written: &str) -> String {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with('.');
    match written.split('/').all(is_part) {
        true => written.replace('/', "."),
        false => written.to_owned(),
    }
}
