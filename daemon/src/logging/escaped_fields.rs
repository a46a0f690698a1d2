//! The fields of a log line, its message among them, escaped: what a peer sends must not write a line of
//! its own, nor command the terminal of whoever reads the log.

use std::fmt;

use saline_data::printable::escape_line;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};

/// Formats fields as [`DefaultFields`] does, without colours, and escapes what is not printable.
#[derive(Debug)]
pub(super) struct EscapedFields;

impl<'w> FormatFields<'w> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut text = String::new();
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        writer.write_str(&escape_line(&text))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex, PoisonError};

    use proptest::prelude::*;
    use saline_config::LogFormat;
    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::layer::SubscriberExt;

    use super::super::lines::{Lines, Reader};
    use super::EscapedFields;

    #[derive(Debug, Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Memory {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    /// Returns the log of `act` in a format, for a reader.
    fn logged(format: &str, reader: Reader, act: impl FnOnce()) -> String {
        let memory = Memory::default();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(EscapedFields)
            .event_format(Lines::new(format.parse::<LogFormat>().unwrap(), reader))
            .with_writer(memory.clone());
        let log = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(log, act);
        let bytes = memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).unwrap()
    }

    const FORGED: &str = "m1\n2026-11-22T15:00:00.000000Z  WARN operator root: accepted key of minion evil\x1b[2J\u{9b}\u{202e}";

    #[test]
    fn a_peers_text_does_not_forge_a_log_line() {
        const PATTERN: &str = "%(asctime)s,%(msecs)03d [%(name)-17s][%(levelname)-8s] %(message)s";
        for (format, reader) in [
            ("text", Reader::Plain),
            ("text", Reader::Terminal),
            ("text", Reader::Journal),
            ("json", Reader::Plain),
            (PATTERN, Reader::Plain),
        ] {
            let log = logged(format, reader, || {
                tracing::warn!("minion {FORGED} said {FORGED:?}");
                tracing::error!(minion = FORGED, error = %FORGED, "it failed");
                let _span = tracing::info_span!("job", name = FORGED).entered();
                tracing::info!("in it");
            });
            assert_eq!(log.lines().count(), 3, "{log}");
            assert_eq!(log.matches('\n').count(), 3, "{log}");
            assert!(
                !log.contains("\x1b[2J") && !log.contains(['\u{9b}', '\u{202e}']),
                "{log}"
            );
            let info = match reader {
                Reader::Journal => "<6>",
                _ => "INFO",
            };
            assert_eq!(log.matches(info).count(), 1, "{log}");
            assert!(
                log.contains(r"m1\n2026-11-22T15:00:00.000000Z  WARN operator root"),
                "{log}"
            );
        }
    }

    proptest! {
        #[test]
        fn an_event_is_a_line(characters in proptest::collection::vec(any::<char>(), 0..40)) {
            let text = String::from_iter(characters);
            for format in ["text", "json", "%(message)5s"] {
                let log = logged(format, Reader::Plain, || tracing::warn!("{text}{text:?}"));
                let line = log.strip_suffix('\n').unwrap();
                prop_assert!(line.chars().all(saline_data::printable::is_printable), "{log:?}");
            }
            let log = logged("json", Reader::Plain, || tracing::warn!(field = %text, "{text}"));
            let read: serde_json::Value = serde_json::from_str(&log).unwrap();
            prop_assert_eq!(&read["message"], &text, "nothing is lost");
            prop_assert_eq!(&read["fields"]["field"], &text);
            prop_assert_eq!(&read["level"], "WARNING");
        }
    }
}
