//! The numbers of decisions without an effect that have no line in the audit file.

use std::collections::HashMap;

/// The largest number of principals that are told apart.
pub(super) const MAX_PRINCIPALS: usize = 1024;

/// Counts decisions that have no line, by principal. Of principals beyond [`MAX_PRINCIPALS`] it counts all together.
#[derive(Debug, Default)]
pub(super) struct SuppressedLines {
    by_principal: HashMap<String, u64>,
    of_others: u64,
}

/// The decisions without a line that the next line tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Suppressed {
    /// Those of the principal of the line.
    pub(super) own: u64,
    /// Those of principals that are not counted apart.
    pub(super) of_others: u64,
}

impl SuppressedLines {
    /// Counts so many decisions about this principal.
    pub(super) fn add(&mut self, principal: String, decisions: u64) {
        if let Some(count) = self.by_principal.get_mut(&principal) {
            *count += decisions;
        } else if self.by_principal.len() < MAX_PRINCIPALS {
            self.by_principal.insert(principal, decisions);
        } else {
            self.of_others += decisions;
        }
    }

    /// Counts again what a line of this principal told of that could not be written.
    pub(super) fn put_back(&mut self, principal: String, suppressed: Suppressed) {
        self.of_others += suppressed.of_others;
        if suppressed.own > 0 {
            self.add(principal, suppressed.own);
        }
    }

    /// Takes what a line of this principal tells of.
    pub(super) fn take(&mut self, principal: &str) -> Suppressed {
        Suppressed {
            own: self.by_principal.remove(principal).unwrap_or(0),
            of_others: std::mem::take(&mut self.of_others),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_principal_has_its_own_count_and_those_beyond_the_bound_one() {
        let mut lines = SuppressedLines::default();
        for number in 0..MAX_PRINCIPALS + 3 {
            for _ in 0..2 {
                lines.add(number.to_string(), 1);
            }
        }
        let (own, of_others) = (2, 6);
        assert_eq!(lines.take("0"), Suppressed { own, of_others });
        assert_eq!(lines.take("0"), Suppressed::default());
        assert_eq!(lines.take("1"), Suppressed { own, of_others: 0 });
        lines.add("late".to_owned(), 1);
        let late = Suppressed {
            own: 1,
            of_others: 0,
        };
        assert_eq!(lines.take("late"), late);
    }
}
