//! The documentation of functions, of minions and of the master alike, in the form in which Salt prints it.

/// Returns a documentation as Salt's `sys.doc` prints it: a blank line first, each line indented by four, and without
/// the lines that only a renderer of manuals understands.
pub fn indented_doc(doc: &str) -> String {
    let mut text = String::from("\n");
    let mut lines = doc.trim().lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with(".. code-block::") {
            lines.next_if(|next| next.trim().is_empty());
            continue;
        }
        if !line.is_empty() {
            text.push_str("    ");
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}
