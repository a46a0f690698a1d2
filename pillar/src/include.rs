//! What an `include` of a file names.

use saline_data::Value;

use crate::sls_name::sls_name;

/// A file that another one includes.
pub(crate) struct Included {
    pub(crate) sls: String,
    /// The path, such as `a:b`, that its entries are put under.
    pub(crate) key: Option<String>,
    /// Variables of its template.
    pub(crate) defaults: Value,
}

impl Included {
    /// Reads a member of the `include` of the file `of`: a name, or `name: {key: a:b, defaults: {x: 1}}`. None if it is
    /// something else.
    pub(crate) fn read(member: Value, of: &str, is_init: bool) -> Option<Self> {
        let mut included = match member {
            Value::Text(name) => Self::plain(name),
            Value::Map(entries) => Self::with_options(entries)?,
            _ => return None,
        };
        included.sls = sls_name(&absolute(&included.sls, of, is_init));
        Some(included)
    }

    fn plain(sls: String) -> Self {
        Self {
            sls,
            key: None,
            defaults: Value::Null,
        }
    }

    fn with_options(entries: Vec<(String, Value)>) -> Option<Self> {
        let [(sls, options)] = <[_; 1]>::try_from(entries).ok()?;
        let mut included = Self::plain(sls);
        let Value::Map(options) = options else {
            return Some(included).filter(|_| options == Value::Null);
        };
        for (name, value) in options {
            match (name.as_str(), value) {
                ("key", Value::Text(key)) => included.key = Some(key),
                ("defaults", value @ Value::Map(_)) => included.defaults = value,
                _ => return None,
            }
        }
        Some(included)
    }
}

/// Returns the whole name of a file that `of` calls `.name`, or `..name` from one folder up.
fn absolute(name: &str, of: &str, is_init: bool) -> String {
    let rest = name.trim_start_matches('.');
    let dots = name.len() - rest.len();
    if dots == 0 {
        return name.to_owned();
    }
    let mut parts: Vec<&str> = of.split('.').collect();
    // `web` is web/init.sls, which lies in web.
    let up = if is_init { dots - 1 } else { dots };
    parts.truncate(parts.len().saturating_sub(up));
    parts.push(rest);
    parts.join(".")
}
