//! The standard streams of a command.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, Write};

use saline_data::printable::{escape_line, escape_lines};
use saline_messages::OrderWarning;
use saline_protocol::transport::Context;

/// The standard streams of a command. Every write is flushed at once, so that it can be read while
/// the command goes on.
pub(crate) struct Screen<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    input: Input,
    /// The file that takes the output instead of the standard output.
    file: Option<File>,
    /// The line that stands at the end of the terminal and changes; empty when there is none.
    status: String,
    /// Whether the standard output is a terminal.
    pub(crate) terminal: bool,
    /// Whether the standard error output is a terminal, so that a line on it can change.
    pub(crate) can_show_status: bool,
    /// Whether somebody sits at the terminal and can answer a question.
    pub(crate) can_ask: bool,
}

/// The largest text that is read from the standard input, in bytes.
const MAX_INPUT: u64 = 16 * 1024 * 1024;

/// The source of answers.
enum Input {
    Stdin,
    #[cfg(test)]
    Script(std::collections::VecDeque<String>),
}

impl Screen<'_> {
    /// Prints a line on the standard output; `bytes` may hold several, without the last newline.
    ///
    /// # Errors
    /// When the output cannot be written: `BrokenPipe` when its reader has ended.
    pub(crate) fn line(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.write(&[bytes.as_ref(), b"\n"])
    }

    /// Prints bytes on the standard output, or into the file that took its place.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(&[bytes])
    }

    fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            return parts.iter().try_for_each(|part| file.write_all(part));
        }
        self.beside_status(|screen| {
            parts
                .iter()
                .try_for_each(|part| screen.out.write_all(part))?;
            screen.out.flush()
        })
    }

    /// Prints the output into `file` from now on. Prose then goes to the standard error output.
    pub(crate) fn print_to(&mut self, file: File) {
        self.file = Some(file);
    }

    /// Shows a line at the end of the terminal instead of the one before, an empty one for none. Does
    /// nothing where no line can change.
    pub(crate) fn show_status(&mut self, line: &str) {
        if self.can_show_status && self.status != line {
            self.status = escape_line(line).into_owned();
            self.draw_status();
        }
    }

    /// Draws the status over the last line of the terminal.
    fn draw_status(&mut self) {
        let _ = write!(self.err, "\r\x1b[K{}", self.status);
        let _ = self.err.flush();
    }

    /// Takes the status away while something is printed, and draws it below.
    fn beside_status<T>(&mut self, print: impl FnOnce(&mut Self) -> T) -> T {
        if self.status.is_empty() {
            return print(self);
        }
        let _ = self.err.write_all(b"\r\x1b[K");
        let _ = self.err.flush();
        let printed = print(self);
        self.draw_status();
        printed
    }

    /// Prints a line on the standard error output. `text` may hold several: a part of it that others
    /// chose has to be escaped as a line; what would command a terminal is escaped here. A failure is
    /// ignored, since there is no other output.
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        let text = escape_lines(text.as_ref());
        self.beside_status(|screen| {
            let _ = screen.err.write_all(format!("{text}\n").as_bytes());
            let _ = screen.err.flush();
        });
    }

    /// Prints what the operator is warned of about an order that was carried out.
    pub(crate) fn warn(&mut self, warnings: &[OrderWarning]) {
        for warning in warnings {
            self.note(format!("WARNING: {}", escape_line(&warning.to_string())));
        }
    }

    /// Prints prose: on the standard output, or, with `beside` or when a file took its place, on the
    /// standard error output.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(crate) fn prose(&mut self, beside: bool, text: &str) -> io::Result<()> {
        if beside || self.file.is_some() {
            self.note(text);
            Ok(())
        } else {
            self.line(text)
        }
    }

    /// Asks a question and reads a line of the standard input; none at its end. With a `context`,
    /// other tasks go on meanwhile.
    ///
    /// # Errors
    /// When the question cannot be written or the answer cannot be read.
    ///
    /// # Cancel safety
    /// A partly typed line is lost.
    pub(crate) async fn ask(
        &mut self,
        question: &str,
        beside: bool,
        context: Option<&Context>,
    ) -> io::Result<Option<String>> {
        if beside || self.file.is_some() {
            let _ = self.err.write_all(question.as_bytes());
            let _ = self.err.flush();
        } else {
            self.raw(question.as_bytes())?;
        }
        match &mut self.input {
            Input::Stdin => match context {
                Some(context) => context.spawn_blocking(read_line).await.unwrap_or(Ok(None)),
                None => read_line(),
            },
            #[cfg(test)]
            Input::Script(lines) => Ok(lines.pop_front()),
        }
    }
}

/// Reads the whole standard input.
///
/// # Errors
/// When it cannot be read, is not UTF-8, or is larger than 16 MiB.
pub(crate) fn read_input() -> io::Result<String> {
    let mut text = String::new();
    let read = io::stdin()
        .lock()
        .take(MAX_INPUT + 1)
        .read_to_string(&mut text)?;
    if read as u64 > MAX_INPUT {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok(text)
}

fn read_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then_some(line))
}

/// Runs a command on the standard streams of this process. A failed write ends the command: quietly
/// when the reader has ended, otherwise with a line that gives the reason.
pub(crate) async fn on_standard_streams(
    command: impl AsyncFnOnce(&mut Screen<'_>) -> io::Result<u8>,
) -> std::process::ExitCode {
    let terminal = io::stdout().is_terminal();
    let mut out = io::stdout();
    let mut err = io::stderr();
    let mut screen = Screen {
        out: &mut out,
        err: &mut err,
        input: Input::Stdin,
        file: None,
        status: String::new(),
        terminal,
        can_show_status: io::stderr().is_terminal(),
        can_ask: io::stdin().is_terminal() && io::stderr().is_terminal(),
    };
    let code = match command(&mut screen).await {
        Ok(code) => code,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => crate::exit::FAILED,
        Err(error) => {
            screen.note(format!("ERROR: cannot write the output: {error}"));
            crate::exit::FAILED
        }
    };
    std::process::ExitCode::from(code)
}

/// The output of a command in a test.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Printed {
    /// The standard output.
    pub(crate) out: Vec<u8>,
    /// The standard error output.
    pub(crate) err: Vec<u8>,
}

#[cfg(test)]
impl Printed {
    /// Returns a screen that prints here and reads `lines`.
    pub(crate) fn screen(&mut self, lines: &[&str]) -> Screen<'_> {
        Screen {
            out: &mut self.out,
            err: &mut self.err,
            input: Input::Script(lines.iter().map(|line| (*line).to_owned()).collect()),
            file: None,
            status: String::new(),
            terminal: false,
            can_show_status: false,
            can_ask: !lines.is_empty(),
        }
    }

    /// Returns both streams in one text.
    pub(crate) fn shown(&self) -> String {
        format!(
            "--- stdout\n{}--- stderr\n{}",
            String::from_utf8_lossy(&self.out).replace(" \n", "·\n"),
            String::from_utf8_lossy(&self.err),
        )
    }
}
