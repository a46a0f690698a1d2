//! The standard streams of a command.

use std::io::{self, BufRead, IsTerminal, Write};

use saline_protocol::printable::escape_lines;
use saline_protocol::transport::Context;

/// The standard streams of a command. Every write is flushed at once, so that it can be read while
/// the command goes on.
pub(crate) struct Screen<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    input: Input,
    /// Whether the standard output is a terminal.
    pub(crate) terminal: bool,
}

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
        let mut line = bytes.as_ref().to_vec();
        line.push(b'\n');
        self.raw(&line)
    }

    /// Prints bytes on the standard output.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    /// Prints a line on the standard error output. `text` may hold several: a part of it that others
    /// chose has to be escaped as a line; what would command a terminal is escaped here. A failure is
    /// ignored, since there is no other output.
    pub(crate) fn complain(&mut self, text: impl AsRef<str>) {
        let text = escape_lines(text.as_ref());
        let _ = self.err.write_all(format!("{text}\n").as_bytes());
        let _ = self.err.flush();
    }

    /// Prints prose: on the standard output, or, with `beside`, on the standard error output.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(crate) fn prose(&mut self, beside: bool, text: &str) -> io::Result<()> {
        if beside {
            self.complain(text);
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
        if beside {
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
        terminal,
    };
    let code = match command(&mut screen).await {
        Ok(code) => code,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => crate::exit::FAILED,
        Err(error) => {
            screen.complain(format!("ERROR: cannot write the output: {error}"));
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
            terminal: false,
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
