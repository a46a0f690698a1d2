//! Suggests the name that was probably meant.

/// Returns the one of `names` that is nearest to `wrong`, if it is close: a quarter of the letters
/// may differ, and a swap of two neighbours counts as one.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than every option, and the time taken grows with the length.
    if wrong.len() > 80 {
        return None;
    }
    let folded = wrong.to_ascii_lowercase().replace('-', "_");
    names
        .into_iter()
        .map(|name| (distance(&folded, name), name))
        .filter(|(distance, name)| *distance <= name.len().max(folded.len()).div_ceil(4))
        .min()
        .map(|(_, name)| name)
}

/// Returns how many letters must be inserted, removed, changed, or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before_last[j - 2] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn close_names_are_found_and_distant_ones_are_not() {
        let names = ["interface", "id", "ret_port", "pki_dir", "publish_port"];
        for (wrong, right) in [
            ("interfce", Some("interface")),
            ("Interface", Some("interface")),
            ("intreface", Some("interface")),
            ("ret-port", Some("ret_port")),
            ("retport", Some("ret_port")),
            ("pkidir", Some("pki_dir")),
            ("publish_prot", Some("publish_port")),
            ("idd", Some("id")),
            ("x", None),
            ("something", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, names), right, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_distance_is_one(a in "\\PC{0,12}", b in "\\PC{0,12}") {
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert_eq!(distance(&a, &b) == 0, a == b);
            prop_assert!(distance(&a, &b) <= a.chars().count().max(b.chars().count()));
        }

        #[test]
        fn any_name_may_be_wrong(wrong in "\\PC{0,200}") {
            let _ = nearest(&wrong, ["id", "interface"]);
        }
    }
}
