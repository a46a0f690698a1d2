//! Salt's key outputter: keys under the names of their states.

use saline_data::Value;
use saline_data::printable::{escape_line, escape_lines};
use saline_messages::KeyState;

use super::Style;
use super::colour::Colour;

/// The heading of a group of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heading {
    /// The master's own key.
    Local,
    /// Keys of minions in this state.
    State(KeyState),
    /// Accepted keys of APIs.
    Apis,
    /// Keys of APIs that wait to be accepted.
    PendingApis,
}

impl Heading {
    fn text(self) -> &'static str {
        match self {
            Self::Local => "Local Keys:",
            Self::State(KeyState::Accepted) => "Accepted Keys:",
            Self::State(KeyState::Denied) => "Denied Keys:",
            Self::State(KeyState::Pending) => "Unaccepted Keys:",
            Self::State(KeyState::Rejected) => "Rejected Keys:",
            Self::Apis => "Accepted API Keys:",
            Self::PendingApis => "Unaccepted API Keys:",
        }
    }

    fn colours(self) -> (Colour, Colour) {
        match self {
            Self::Local | Self::State(KeyState::Denied) => (Colour::LightMagenta, Colour::Magenta),
            Self::State(KeyState::Accepted) | Self::Apis => (Colour::LightGreen, Colour::Green),
            Self::State(KeyState::Pending) | Self::PendingApis => (Colour::LightRed, Colour::Red),
            Self::State(KeyState::Rejected) => (Colour::LightBlue, Colour::Blue),
        }
    }

    /// Returns all headings in the order in which they are printed.
    fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Local)
            .chain(KeyState::ALL.map(Self::State))
            .chain([Self::Apis, Self::PendingApis])
    }

    /// Returns the heading's name in JSON: the names of the folders, which are Salt's for minions.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::State(state) => state.folder(),
            Self::Apis => "apis",
            Self::PendingApis => "apis_pre",
        }
    }
}

/// A key under its heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The owner's name.
    pub(crate) name: String,
    /// The detail after the name: a fingerprint or the key.
    pub(crate) detail: Option<String>,
    /// What stands in brackets behind: where the owner is. Programs do not get it.
    pub(crate) remark: Option<String>,
}

/// Reads the groups from what `saline-key` prints for programs: names, or names with a detail each, under
/// Salt's names of the folders. None when `data` is something else.
pub(crate) fn groups_of(data: &Value) -> Option<Vec<(Heading, Vec<Line>)>> {
    let Value::Map(entries) = data else {
        return None;
    };
    let is_folder = |name: &str| Heading::all().any(|heading| heading.folder() == name);
    if entries.is_empty() || !entries.iter().all(|(name, _)| is_folder(name)) {
        return None;
    }
    let mut groups = Vec::new();
    for heading in Heading::all() {
        if let Some((_, value)) = entries.iter().find(|(name, _)| name == heading.folder()) {
            groups.push((heading, lines_of(value)?));
        }
    }
    Some(groups)
}

fn lines_of(value: &Value) -> Option<Vec<Line>> {
    let line = |name: &str, detail: Option<&str>| Line {
        name: name.to_owned(),
        detail: detail.map(str::to_owned),
        remark: None,
    };
    match value {
        Value::List(names) => names
            .iter()
            .map(|name| Some(line(name.as_str()?, None)))
            .collect(),
        Value::Map(entries) => entries
            .iter()
            .map(|(name, detail)| Some(line(name, Some(detail.as_str()?))))
            .collect(),
        _ => None,
    }
}

/// Formats headings with their keys, without the last newline.
pub(crate) fn render(groups: &[(Heading, Vec<Line>)], style: Style) -> Vec<u8> {
    let end = style.end();
    let mut out = String::new();
    for (heading, lines) in groups {
        let (light, plain) = heading.colours();
        out.push_str(&format!("{}{}{end}\n", style.begin(light), heading.text()));
        for Line {
            name,
            detail,
            remark,
        } in lines
        {
            let (begin, name) = (style.begin(plain), escape_line(name));
            // A key has several lines.
            let detail = detail.as_deref().map(escape_lines);
            let before_remark = match &detail {
                Some(detail) if detail.contains('\n') => "\n",
                _ => "  ",
            };
            let detail = detail.map_or_else(String::new, |detail| format!(":  {detail}"));
            let remark = remark.as_deref().map(escape_line);
            let remark =
                remark.map_or_else(String::new, |remark| format!("{before_remark}({remark})"));
            out.push_str(&format!("{begin}{name}{detail}{end}{remark}\n"));
        }
    }
    out.truncate(out.trim_end().len());
    out.into_bytes()
}
