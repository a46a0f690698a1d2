//! A badge, in the form that shields.io takes from an endpoint.

use serde_json::json;

use super::{Mark, Report};

impl Report {
    /// The badge as JSON.
    pub fn to_badge(&self) -> String {
        let applied = self.requirements.len() - self.count(Mark::Skipped);
        let (gaps, failures) = (self.count(Mark::KnownGap), self.failures());
        let color = match (failures, gaps) {
            (0, 0) => "brightgreen",
            (0, _) => "yellowgreen",
            _ => "red",
        };
        let mut message = format!("{} of {applied}", self.count(Mark::Pass));
        if gaps > 0 {
            message.push_str(&format!(", {gaps} known gaps"));
        }
        let badge = json!({
            "schemaVersion": 1,
            "label": format!("conformance: {}", self.backend),
            "message": message,
            "color": color,
        });
        format!("{badge:#}\n")
    }
}
