//! The difference between two contents of a file, for people.

use std::path::Path;
use std::time::Duration;

use similar::TextDiff;

/// The largest contents that are compared line by line, in bytes.
const MOST_COMPARED: usize = 4 * 1024 * 1024;

/// The largest difference that is returned, in bytes.
const MOST_SHOWN: usize = 64 * 1024;

/// The time after which a shorter difference is no longer looked for.
const COMPARISON_TIME: Duration = Duration::from_millis(500);

/// Whether these bytes are not text: they have a null byte, as `grep` and `git` judge.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes.contains(&0)
}

/// Returns the difference in the unified format, or a line that says why there is none. `before` is none for a new file.
pub(super) fn unified(path: &Path, before: Option<&[u8]>, after: &[u8]) -> String {
    let old = before.unwrap_or_default();
    let sizes = format!("{} bytes before, {} bytes after", old.len(), after.len());
    let (Ok(old_text), Ok(new_text)) = (str::from_utf8(old), str::from_utf8(after)) else {
        return format!("(no diff: the file is not UTF-8; {sizes})\n");
    };
    if is_binary(old) || is_binary(after) {
        return format!("(no diff: the file is binary; {sizes})\n");
    }
    if old.len().max(after.len()) > MOST_COMPARED {
        return format!("(no diff: the file is too large for one; {sizes})\n");
    }
    let path = path.display().to_string();
    let old_name = before.map_or("/dev/null", |_| &path);
    let lines = TextDiff::configure()
        .timeout(COMPARISON_TIME)
        .diff_lines(old_text, new_text);
    let diff = lines.unified_diff().header(old_name, &path).to_string();
    if diff.len() <= MOST_SHOWN {
        return diff;
    }
    let shown = &diff[..diff.floor_char_boundary(MOST_SHOWN)];
    let shown = shown.rfind('\n').map_or(shown, |end| &shown[..=end]);
    format!(
        "{shown}(the diff is cut: it has {} bytes, and {} are shown)\n",
        diff.len(),
        shown.len()
    )
}
