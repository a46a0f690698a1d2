//! Salt's no_return outputter: minions that did not return, and the reason.

use saline_data::printable::{escape_line, escape_lines};

use super::Style;
use super::colour::Colour;

/// Formats a minion's name with the indented text below it, without the last newline.
pub(crate) fn render(name: &str, text: &str, style: Style) -> Vec<u8> {
    let end = style.end();
    // A name in a list may hold any characters, also line ends and escape sequences.
    let name = escape_line(name);
    let mut out = format!("{}{name}{end}:", style.begin(Colour::Cyan));
    for line in escape_lines(text).split('\n') {
        out.push_str(&format!("\n{}    {line}{end}", style.begin(Colour::Red)));
    }
    out.into_bytes()
}
