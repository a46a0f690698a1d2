//! The documentation comment of a function.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Removes the documentation comment from the attributes and returns its text, without the space that each line begins
/// with.
pub(crate) fn take(attributes: &mut Vec<Attribute>) -> String {
    let mut lines = Vec::new();
    attributes.retain(|attribute| match line(attribute) {
        Some(text) => {
            let text = text.trim_end();
            lines.push(text.strip_prefix(' ').unwrap_or(text).to_owned());
            false
        }
        None => true,
    });
    lines.join("\n")
}

fn line(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}
