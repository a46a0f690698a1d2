//! `cmd_json` of `ext_pillar`: the mapping that a command prints.

use std::ffi::CString;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_process_group};
use saline_data::printable::is_printable;
use saline_data::{Value, json};
use saline_exec::{Description, End, Environment, Launcher, Process, Streams};
use saline_messages::MAX_PILLAR;
use saline_protocol::transport::Clock;

/// How long a command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The folders in which commands find programs, whoever started the master: a check of the configuration looks there too.
pub(crate) const PROGRAM_FOLDERS: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The most bytes of the end of the standard error that are kept.
const MAX_SAID: usize = 4096;

/// The most characters that an error shows of a program's name, and of what it said.
const SHOWN: usize = 200;

/// The entries of a source.
pub(super) type Entries = Vec<(String, Value)>;

/// Runs a command, and reads the mapping that it prints.
///
/// # Errors
/// Why it has none, with the program and the last line that the command wrote to its standard error.
pub(super) fn cmd_json(command: &str, id: &str, launcher: &Launcher) -> Result<Entries, String> {
    let mut said = Vec::new();
    // An id has no character that a shell takes for another.
    let entries = run(&command.replace("%s", id), launcher, &mut said);
    entries.map_err(|why| {
        let program =
            program_of(command).map_or_else(String::new, |program| format!(" {}", shown(program)));
        let line = last_line(&said).map_or_else(String::new, |line| format!(": {line}"));
        format!("the cmd_json{program} of ext_pillar {why}{line}")
    })
}

/// Returns the program with which a command of a shell begins, if that is plain to see. Nothing else of the command is shown: there
/// may be a password in it.
pub(crate) fn program_of(command: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./+=:".contains(c);
    for word in command.split_whitespace() {
        if !word.chars().all(is_plain) {
            return None;
        }
        // The variables that the program gets stand before it.
        if !word.contains('=') {
            return Some(word);
        }
    }
    None
}

/// Runs a command. Puts the end of what it writes to its standard error into `said`.
fn run(command: &str, launcher: &Launcher, said: &mut Vec<u8>) -> Result<Entries, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot be run: {error}");
    let command = CString::new(command).map_err(|error| cannot(&error))?;
    let argv = vec![c"/bin/sh".to_owned(), c"-c".to_owned(), command];
    let (description, mut environment) = launcher.describe(argv);
    environment.set("PATH", PROGRAM_FOLDERS);
    let environment: Result<Vec<CString>, _> = Environment::into_strings(environment);
    let description = Description {
        environment: environment.map_err(|error| cannot(&error))?,
        ends_with_starter: true,
        ..description
    };
    let (output, printed) = UnixStream::pair().map_err(|error| cannot(&error))?;
    let (error, complaints) = UnixStream::pair().map_err(|error| cannot(&error))?;
    for ours in [&output, &error] {
        ours.set_nonblocking(true).map_err(|error| cannot(&error))?;
    }
    let input = std::fs::File::open("/dev/null").map_err(|error| cannot(&error))?;
    let streams = Streams {
        input: input.into(),
        output: printed.into(),
        error: complaints.into(),
    };
    let process = launcher.start(&description, streams);
    let running = Running(process.map_err(|error| cannot(&error))?);
    let (end, printed) = wait(&running.0, &output, &error, said)?;
    match end.retcode() {
        0 => {}
        code => return Err(format!("failed with the exit code {code}")),
    }
    match json::read(&printed) {
        Ok(Value::Map(entries)) => Ok(entries),
        Ok(_) => Err("printed JSON that is not a mapping".to_owned()),
        Err(_) => Err("printed something else than JSON".to_owned()),
    }
}

/// A command, which is ended with all that it started when this is dropped.
struct Running(Process);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0.pid(), Signal::KILL);
    }
}

/// Waits until a command has ended, and it and what it started have closed their output. Returns its end and what was printed.
fn wait(
    process: &Process,
    output: &UnixStream,
    error: &UnixStream,
    said: &mut Vec<u8>,
) -> Result<(End, Vec<u8>), String> {
    let late = || format!("takes longer than {} s", COMMAND_TIMEOUT.as_secs());
    let lost = |error: io::Error| format!("got lost: {error}");
    let ends = Clock.after(COMMAND_TIMEOUT);
    let (mut end, mut printed) = (None, Vec::new());
    let (mut is_printing, mut is_saying) = (true, true);
    loop {
        let unheard = |error: io::Error| format!("cannot be heard: {error}");
        if is_printing {
            is_printing =
                read_now(output, |bytes| printed.extend_from_slice(bytes)).map_err(unheard)?;
        }
        if is_saying {
            is_saying = read_now(error, |bytes| keep_end(said, bytes)).map_err(unheard)?;
        }
        if printed.len() > MAX_PILLAR {
            return Err(format!("printed more than {MAX_PILLAR} bytes"));
        }
        match end {
            None => end = process.try_wait().map_err(lost)?,
            Some(end) if !is_printing => return Ok((end, printed)),
            Some(_) => {}
        }
        if end.is_some() && !is_printing {
            // It may have written its last line since.
            continue;
        }
        let left = ends.saturating_duration_since(Clock.now());
        if left.is_zero() {
            return Err(late());
        }
        let left = Timespec::try_from(left).map_err(|_| late())?;
        let mut awaited = Vec::new();
        if is_printing {
            awaited.push(PollFd::new(output, PollFlags::IN));
        }
        if is_saying {
            awaited.push(PollFd::new(error, PollFlags::IN));
        }
        if end.is_none() {
            awaited.push(PollFd::new(process, PollFlags::IN));
        }
        match poll(&mut awaited, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(lost(error.into())),
        }
    }
}

/// Reads what is there, up to a bound. Returns whether more may come.
fn read_now(mut from: &UnixStream, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
    let mut buffer = [0; 64 * 1024];
    // Each turn looks at the time again.
    for _ in 0..16 {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(read) => take(&buffer[..read]),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Ok(true),
                _ => return Err(error),
            },
        }
    }
    Ok(true)
}

/// Adds bytes, and keeps the last ones.
fn keep_end(said: &mut Vec<u8>, bytes: &[u8]) {
    said.extend_from_slice(bytes);
    said.drain(..said.len().saturating_sub(MAX_SAID));
}

/// Returns the last line that is not empty.
fn last_line(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let line = text
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())?;
    Some(shown(line))
}

/// Returns the beginning of a text, in one line and with blanks for what is not printable.
fn shown(text: &str) -> String {
    let printable = |c: char| if is_printable(c) { c } else { ' ' };
    let line: String = text.chars().map(printable).collect();
    line.trim().chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::program_of;

    #[test]
    fn the_program_of_a_command_is_shown_and_nothing_else_of_it() {
        for (command, program) in [
            ("/opt/cmdb %s", Some("/opt/cmdb")),
            ("  cmdb --token='x y' %s", Some("cmdb")),
            ("TOKEN=secret LANG=C /opt/cmdb %s", Some("/opt/cmdb")),
            ("TOKEN='a secret' /opt/cmdb %s", None),
            ("TOKEN=$(cat a) cmdb", None),
            ("\"/opt/my cmdb\" %s", None),
            ("/opt/%s/cmdb", None),
            ("{ cmdb; }", None),
            ("cmdb|jq .", None),
            ("TOKEN=secret", None),
            ("", None),
        ] {
            assert_eq!(program_of(command), program, "{command}");
        }
    }
}
