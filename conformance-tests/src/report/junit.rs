//! The report as JUnit's XML, which continuous integration shows.

use std::fmt::Write;

use super::{Mark, Report};

impl Report {
    /// The report as JUnit's XML.
    pub fn to_junit(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        // Writing to a string cannot fail.
        let _ = writeln!(
            xml,
            "<testsuite name=\"conformance.{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{}\">",
            escaped(&self.backend),
            self.requirements.len(),
            self.failures(),
            self.count(Mark::Skipped),
            self.seconds,
        );
        for entry in &self.requirements {
            let reason = escaped(&entry.reason);
            let _ = write!(
                xml,
                "  <testcase classname=\"{}\" name=\"{}\" time=\"{}.{:03}\"",
                escaped(&self.backend),
                escaped(&entry.id),
                entry.ms / 1000,
                entry.ms % 1000,
            );
            let _ = match entry.outcome {
                Mark::Pass => writeln!(xml, "/>"),
                Mark::Fail | Mark::UnexpectedPass => writeln!(
                    xml,
                    "><failure message=\"{}\">{reason}</failure></testcase>",
                    entry.outcome
                ),
                Mark::Skipped => writeln!(xml, "><skipped message=\"{reason}\"/></testcase>"),
                Mark::KnownGap => {
                    writeln!(
                        xml,
                        "><system-out>known gap: {reason}</system-out></testcase>"
                    )
                }
            };
        }
        xml.push_str("</testsuite>\n");
        xml
    }
}

/// `text` with what XML gives a meaning, and what it cannot hold at all, replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => {
                escaped.push('\u{fffd}')
            }
            c => escaped.push(c),
        }
    }
    escaped
}
