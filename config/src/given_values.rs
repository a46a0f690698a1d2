//! What the files of a configuration give, kept to compare it with what they give later.

use std::collections::BTreeMap;

use saline_data::Value;
use saline_protocol::transport::Tls;

use crate::files::Setting;

/// The values that the files give, by option, in the order of the files.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct GivenValues {
    pub(crate) values: BTreeMap<String, Vec<Value>>,
    /// The contents of the files that `ssl` names.
    pub(crate) tls: Option<Tls>,
    /// The transports of this program.
    pub(crate) schemes: Vec<String>,
}

impl GivenValues {
    pub(crate) fn of(settings: Vec<Setting>, tls: Option<Tls>, schemes: &[&str]) -> Self {
        let mut values: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for setting in settings {
            let of_option = values.entry(setting.key.name).or_default();
            of_option.push(Value::from(setting.node));
        }
        let schemes = schemes.iter().map(|scheme| (*scheme).to_owned()).collect();
        Self {
            values,
            tls,
            schemes,
        }
    }

    /// Adds the values of a folder beside the configuration, under its name. A running daemon takes them over.
    pub(crate) fn add(&mut self, folder: &str, settings: Vec<Setting>) {
        let of_folder = self.values.entry(folder.to_owned()).or_default();
        let entry = |setting: Setting| Value::map([(setting.key.name, Value::from(setting.node))]);
        of_folder.extend(settings.into_iter().map(entry));
    }
}
