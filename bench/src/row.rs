//! Figures, in the table and in the file with a JSON object a line.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::Result;
use crate::process::load;

/// One figure, with how it was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    bench: String,
    transport: String,
    minions: usize,
    /// The median of the samples.
    value: f64,
    unit: &'static str,
    lowest: f64,
    highest: f64,
    samples: usize,
    /// The machine's load average of the last minute, after the measurement.
    load: Option<f64>,
}

impl Row {
    const HEAD: &str = "transport  minions  measured                                        median       lowest      highest  unit";

    /// Makes a figure of its samples, of which there is at least one.
    pub(crate) fn new(
        bench: impl Into<String>,
        (transport, minions): (&str, usize),
        unit: &'static str,
        mut samples: Vec<f64>,
    ) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |index: usize| samples.get(index).copied().unwrap_or_default();
        Self {
            bench: bench.into(),
            transport: transport.to_owned(),
            minions,
            value: at(samples.len() / 2),
            unit,
            lowest: at(0),
            highest: at(samples.len().saturating_sub(1)),
            samples: samples.len(),
            load: load(),
        }
    }
}

/// Where figures are written as they come.
#[derive(Debug)]
pub(crate) struct Rows {
    json: Option<File>,
}

impl Rows {
    /// Begins the table, and the file if there is to be one.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(crate) fn begin(json: Option<&Path>) -> Result<Self> {
        let json = json.map(File::create).transpose()?;
        // Who reads this may have seen enough, which is no reason to panic.
        let _ = writeln!(std::io::stdout(), "{}", Row::HEAD);
        Ok(Self { json })
    }

    /// Writes a figure.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn show(&mut self, row: Row) -> Result<()> {
        let _ = writeln!(std::io::stdout(), "{row}");
        if let Some(json) = &mut self.json {
            writeln!(json, "{}", serde_json::to_string(&row)?)?;
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<10} {:>7}  {:<42} {:>11.4}  {:>11.4}  {:>11.4}  {}",
            self.transport,
            self.minions,
            self.bench,
            self.value,
            self.lowest,
            self.highest,
            self.unit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_median_and_the_range() {
        let row = Row::new("ping", ("tcp", 3), "s", vec![3.0, 1.0, 2.0]);
        assert_eq!((row.value, row.lowest, row.highest), (2.0, 1.0, 3.0));
        assert!(row.to_string().contains("2.0000"), "{row}");
    }
}
