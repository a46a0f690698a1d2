//! Salt's no_return outputter: minions that did not return, and the reason.

use super::Style;
use super::colour::Colour;

/// Formats a minion's name with the indented text below it, without the last newline.
pub(crate) fn render(name: &str, text: &str, style: Style) -> Vec<u8> {
    let end = style.end();
    // A name in a list may hold any bytes, also escape sequences.
    let name = name.replace('\x1b', "?");
    let mut out = format!("{}{name}{end}:", style.begin(Colour::Cyan));
    for line in text.split('\n') {
        out.push_str(&format!("\n{}    {line}{end}", style.begin(Colour::Red)));
    }
    out.into_bytes()
}
