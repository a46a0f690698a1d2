//! Where a command writes and reads.

use std::io::{self, BufRead, IsTerminal, Write};

use saline_protocol::transport::Context;

/// The standard streams of a command. Everything is written at once and flushed, so that what was
/// printed can be read while the command goes on.
pub(crate) struct Screen<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    input: Input,
    /// Whether the standard output is a terminal.
    pub(crate) terminal: bool,
}

/// Where answers come from.
enum Input {
    Stdin,
    #[cfg(test)]
    Script(std::collections::VecDeque<String>),
}

impl Screen<'_> {
    /// A line on the standard output; `bytes` may be several, without the last end.
    ///
    /// # Errors
    /// When it cannot be written: `BrokenPipe` when nobody reads any more.
    pub(crate) fn line(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut line = bytes.as_ref().to_vec();
        line.push(b'\n');
        self.raw(&line)
    }

    /// These bytes on the standard output.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    /// A line on the standard error output. Nobody could be told when that fails.
    pub(crate) fn complain(&mut self, text: impl AsRef<str>) {
        let _ = self
            .err
            .write_all(format!("{}\n", text.as_ref()).as_bytes());
        let _ = self.err.flush();
    }

    /// `text` where prose belongs: with the data, or beside it when that is for programs.
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

    /// Asks and reads a line of the standard input; none at its end. With a `context`, other tasks
    /// go on meanwhile.
    ///
    /// # Errors
    /// When the question cannot be written or the answer not be read.
    ///
    /// # Cancel safety
    /// The line that is being typed is lost.
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

/// Runs a command on the standard streams of this process. What cannot be written ends it: quietly
/// when nobody reads any more, else with a line that says why.
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

/// What a command printed in a test.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Printed {
    /// On the standard output.
    pub(crate) out: Vec<u8>,
    /// On the standard error output.
    pub(crate) err: Vec<u8>,
}

#[cfg(test)]
impl Printed {
    /// A screen that prints here and reads `lines`.
    pub(crate) fn screen(&mut self, lines: &[&str]) -> Screen<'_> {
        Screen {
            out: &mut self.out,
            err: &mut self.err,
            input: Input::Script(lines.iter().map(|line| (*line).to_owned()).collect()),
            terminal: false,
        }
    }

    /// Both, as the samples of Salt's output show them.
    pub(crate) fn shown(&self) -> String {
        format!(
            "--- stdout\n{}--- stderr\n{}",
            String::from_utf8_lossy(&self.out).replace(" \n", "·\n"),
            String::from_utf8_lossy(&self.err),
        )
    }
}
