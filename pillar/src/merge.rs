//! Merges the values of two files.

use saline_data::Value;

/// Salt's `pillar_source_merging_strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MergingStrategy {
    /// As [`Self::Recurse`]. Salt takes another strategy for a renderer that is absent here.
    #[default]
    Smart,
    /// Mappings are merged, at every depth. Of two other values the later counts.
    Recurse,
    /// The later value of a key counts as a whole.
    Overwrite,
    /// As [`Self::Recurse`] without lists that are put together, and files of one environment alone are merged: that of the
    /// pillar.
    None,
}

impl MergingStrategy {
    /// Returns the strategy with Salt's name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "smart" => Some(Self::Smart),
            "recurse" => Some(Self::Recurse),
            "overwrite" => Some(Self::Overwrite),
            "none" => Some(Self::None),
            _ => None,
        }
    }
}

/// Puts the entries of `over` into those of `under`.
pub(crate) fn merge(
    under: &mut Vec<(String, Value)>,
    over: Vec<(String, Value)>,
    strategy: MergingStrategy,
    merge_lists: bool,
) {
    for (key, value) in over {
        match under.iter_mut().find(|(own, _)| *own == key) {
            None => under.push((key, value)),
            Some((_, own)) if strategy == MergingStrategy::Overwrite => *own = value,
            Some((_, own)) => merge_values(own, value, strategy, merge_lists),
        }
    }
}

fn merge_values(under: &mut Value, over: Value, strategy: MergingStrategy, merge_lists: bool) {
    match (under, over) {
        (Value::Map(under), Value::Map(over)) => merge(under, over, strategy, merge_lists),
        (Value::List(under), Value::List(over))
            if merge_lists && strategy != MergingStrategy::None =>
        {
            for value in over {
                if !under.contains(&value) {
                    under.push(value);
                }
            }
        }
        (under, over) => *under = over,
    }
}
