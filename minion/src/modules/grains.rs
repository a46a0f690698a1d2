//! `grains`: facts about the machine.

use saline_data::Value;

use super::{Call, Failure, Function, Module, Outcome, optional, required};

/// The module `grains`.
#[derive(Debug)]
pub struct Grains;

impl Module for Grains {
    fn name(&self) -> &'static str {
        "grains"
    }

    fn functions(&self) -> &'static [Function] {
        FUNCTIONS
    }
}

const FUNCTIONS: &[Function] = &[
    Function::new("items", ITEMS, items),
    Function::new("item", ITEM, item)
        .with_more_positional()
        .with_more_named(),
    Function::new("get", GET, get).with(&[
        required("key"),
        optional("default"),
        optional("delimiter"),
    ]),
    Function::new("ls", LS, ls),
];

/// The default delimiter between the keys of nested mappings.
const DELIMITER: &str = ":";

const ITEMS: &str = "
Return all of the minion's grains.

CLI Example:

.. code-block:: bash

    saline '*' grains.items
";

fn items(call: &Call<'_>) -> Result<Outcome, Failure> {
    Ok(call.host.grains.all().as_ref().clone().into())
}

const ITEM: &str = "
Return one or more grains. `default` is returned for those that are not there, an empty text
unless given; `delimiter` stands between the keys of nested grains, a colon unless given.

CLI Example:

.. code-block:: bash

    saline '*' grains.item os
    saline '*' grains.item os osrelease oscodename
    saline '*' grains.item host default=nobody
";

fn item(call: &Call<'_>) -> Result<Outcome, Failure> {
    let mut default = Value::from("");
    let mut delimiter = DELIMITER.to_owned();
    for (name, value) in &call.named {
        match (name.as_str(), value) {
            ("default", value) => default = value.clone(),
            ("delimiter", Value::Text(text)) if !text.is_empty() => delimiter.clone_from(text),
            _ => {
                return Err(Failure::Invocation(format!(
                    "The following keyword arguments are not valid: {name}"
                )));
            }
        }
    }
    let grains = call.host.grains.all();
    let found = call.more_texts()?.into_iter().map(|key| {
        let value = lookup(&grains, &key, &delimiter).unwrap_or_else(|| default.clone());
        (key, value)
    });
    Ok(Value::Map(found.collect()).into())
}

const GET: &str = "
Attempt to retrieve the named value from grains, if the named value is not available return the
passed default. The default return is an empty string. The value can also represent a value in a
nested mapping using a `:` delimiter, or the one given as `delimiter`.

CLI Example:

.. code-block:: bash

    saline '*' grains.get pkg:apache
    saline '*' grains.get ip_interfaces:eth0
    saline '*' grains.get abc::def|ghi delimiter='|'
";

fn get(call: &Call<'_>) -> Result<Outcome, Failure> {
    let key = call.text("key")?.unwrap_or_default();
    let delimiter = call
        .text("delimiter")?
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| DELIMITER.to_owned());
    let found = lookup(&call.host.grains.all(), &key, &delimiter)
        .or_else(|| call.value("default").cloned())
        .unwrap_or_else(|| Value::from(""));
    Ok(found.into())
}

const LS: &str = "
Return a list of all available grains.

CLI Example:

.. code-block:: bash

    saline '*' grains.ls
";

fn ls(call: &Call<'_>) -> Result<Outcome, Failure> {
    let mut names = match call.host.grains.all().as_ref() {
        Value::Map(entries) => entries.iter().map(|(name, _)| name.clone()).collect(),
        _ => Vec::new(),
    };
    names.sort_unstable();
    Ok(Value::texts(names).into())
}

/// Looks a path up: mappings by name and lists by number.
fn lookup(value: &Value, key: &str, delimiter: &str) -> Option<Value> {
    let mut here = value;
    for part in key.split(delimiter) {
        here = match here {
            Value::Map(_) => here.get(part)?,
            Value::List(values) => values.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(here.clone())
}
