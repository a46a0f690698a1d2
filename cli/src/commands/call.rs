//! `saline-call`: runs a function on this machine, beside its minion.

use std::ffi::OsString;
use std::io;

use saline_config::{MinionConfig, parse_call};
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_messages::Arguments;
use saline_protocol::transport::{HostPort, Registry};

use super::about::{self, Role};
use crate::arguments::{CallArguments, CallOutput};
use crate::output::docs;
use crate::screen::Screen;
use crate::{exit, process_user, settings, user_name};

/// A function that is to be called on this machine.
#[derive(Debug, Clone)]
pub struct FunctionCall {
    /// The configuration of the minion on this machine.
    pub config: MinionConfig,
    /// Whether the minion's master takes part: it gets the return.
    pub asks_master: bool,
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function.
    pub arguments: Arguments,
    /// The user who calls, for the record.
    pub user: String,
    /// The destinations of the master's configuration that get the call too.
    pub returners: Vec<String>,
}

/// The return of a function that was called on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionReturn {
    /// The value.
    pub value: Value,
    /// The retcode; 0 for success.
    pub retcode: i64,
    /// Why the master does not have the return, in one line.
    pub delivery_error: Option<String>,
}

/// Carries out the command line of `saline-call`. Returns the exit code.
///
/// # Errors
/// When the output cannot be written.
pub(crate) async fn call(
    screen: &mut Screen<'_>,
    words: impl IntoIterator<Item = OsString>,
    registry: Registry,
    carry_out: impl AsyncFnOnce(FunctionCall, &Registry) -> Result<FunctionReturn, String>,
) -> io::Result<u8> {
    let arguments = match CallArguments::read(words) {
        Ok(arguments) => arguments,
        Err(refused) => return refused.print(screen),
    };
    if let Some(asked) = arguments.about.asked() {
        let program = ("saline-call", Role::Minion);
        let options = (&arguments.common, &arguments.output);
        return about::print(screen, asked, program, options, &registry);
    }
    let config = match configuration(&arguments, &registry) {
        Ok(config) => config,
        Err(line) => {
            screen.note(line);
            return Ok(exit::FAILED);
        }
    };
    if let Err(line) = arguments.output.open_file(screen) {
        screen.note(line);
        return Ok(exit::FAILED);
    }
    // Read now, since the next step may change the user of this process.
    let user = user_name::current();
    if let Some(other) = &arguments.common.process.user
        && let Err(line) = process_user::switch_to(other)
    {
        screen.note(line);
        return Ok(exit::FAILED);
    }
    let (function, words) = arguments.function();
    let call = FunctionCall {
        config,
        asks_master: arguments.asks_master(),
        fun: function.to_owned(),
        arguments: parse_call(function, words),
        user,
        returners: arguments.returners.clone(),
    };
    let returned = match carry_out(call, &registry).await {
        Ok(returned) => returned,
        Err(why) => {
            // A part of it may be the master's words.
            screen.note(escape_line(&format!("ERROR: {why}")));
            return Ok(exit::FAILED);
        }
    };
    if let Some(why) = &returned.delivery_error {
        screen.note(escape_line(&format!("WARNING: {why}")));
    }
    print(screen, &arguments, &returned)?;
    let is_documentation = arguments.wanted() == CallOutput::Documentation;
    if is_documentation && returned.value == Value::Map(Vec::new()) {
        screen.note(docs::NOTHING);
        return Ok(exit::FAILED);
    }
    Ok(code(&returned, arguments.retcode_passthrough))
}

fn configuration(arguments: &CallArguments, registry: &Registry) -> Result<MinionConfig, String> {
    let mut config: MinionConfig = settings::load_minion(&arguments.common, registry)?;
    if let Some(id) = &arguments.id {
        config.id = Some(id.clone());
    }
    if let Some(master) = &arguments.master {
        let parsed = HostPort::parse(master, config.master_port);
        config.master = vec![parsed.map_err(|error| format!("ERROR: {error}"))?];
        // A port in the command line is more than one in a transport's section.
        if HostPort::parse(master, 0).is_ok_and(|given| given.port != 0) {
            config.transport_ports.clear();
        }
    }
    Ok(config)
}

fn print(
    screen: &mut Screen<'_>,
    arguments: &CallArguments,
    returned: &FunctionReturn,
) -> io::Result<()> {
    let format = arguments.output.format();
    let style = arguments.output.style(screen);
    if arguments.wanted() == CallOutput::Documentation && !format.is_for_programs() {
        let documentation = docs::render(&[("local".to_owned(), returned.value.clone())], style);
        return match documentation.is_empty() {
            true => Ok(()),
            false => screen.line(documentation),
        };
    }
    let data = Value::map([("local", returned.value.clone())]);
    match format.render(&data, style, returned.retcode != 0) {
        Some(text) => screen.line(text),
        None => Ok(()),
    }
}

/// Returns the exit code. As with Salt, it is 1 for a failed function, unless the retcode is to be passed on.
fn code(returned: &FunctionReturn, passed_through: bool) -> u8 {
    match (returned.retcode, passed_through) {
        (0, _) => exit::GOOD,
        // As a shell does, but a failure never becomes a success.
        (retcode, true) => u8::try_from(retcode & 0xff)
            .ok()
            .filter(|code| *code != 0)
            .unwrap_or(exit::FAILED),
        (_, false) => exit::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Printed;

    async fn run(line: &str, value: Value, retcode: i64) -> String {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("minion"), "id: web1\n").unwrap();
        let mut printed = Printed::default();
        let mut words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        words.extend(["-c".into(), folder.path().into()]);
        let carry_out = async |call: FunctionCall, _: &Registry| {
            let value = match call.fun.as_str() {
                "test.ping" | "sys.doc" => value,
                _ => Value::texts([call.fun.as_str()]),
            };
            Ok(FunctionReturn {
                value,
                retcode,
                delivery_error: call.asks_master.then(|| "the master is busy".to_owned()),
            })
        };
        let mut screen = printed.screen(&[]);
        let code = call(&mut screen, words, Registry::new(), carry_out)
            .await
            .unwrap();
        format!("{}--- exit {code}", printed.shown())
    }

    #[tokio::test]
    async fn what_a_function_returned_stands_below_local() {
        insta::assert_snapshot!(run("saline-call --local test.ping", true.into(), 0).await, @"
        --- stdout
        local:
            True
        --- stderr
        --- exit 0
        ");
        insta::assert_snapshot!(run("saline-call --local test.ping --out json", true.into(), 3).await, @r#"
        --- stdout
        {
            "local": true
        }
        --- stderr
        --- exit 1
        "#);
        insta::assert_snapshot!(
            run("saline-call test.ping --retcode-passthrough", false.into(), 3).await,
            @"
        --- stdout
        local:
            False
        --- stderr
        WARNING: the master is busy
        --- exit 3
        "
        );
        insta::assert_snapshot!(run("saline-call -g", Value::Null, 0).await, @"
        --- stdout
        local:
            - grains.items
        --- stderr
        --- exit 0
        ");
        let documentation = Value::map([("test.ping", Value::from("\nAnswers.\n"))]);
        insta::assert_snapshot!(run("saline-call -d test", documentation, 0).await, @"
        --- stdout
        test.ping:

            Answers.

        --- stderr
        --- exit 0
        ");
    }

    #[tokio::test]
    async fn what_cannot_be_called_is_told() {
        let incomplete = run("saline-call", Value::Null, 0).await;
        assert!(
            incomplete
                .starts_with("--- stdout\nUsage: saline-call [options] <function> [arguments]\n"),
            "{incomplete}"
        );
        assert!(
            incomplete.ends_with("--- stderr\n\nIncomplete options passed.\n\n--- exit 42"),
            "{incomplete}"
        );
        insta::assert_snapshot!(run("saline-call --master :x test.ping", Value::Null, 0).await, @"
        --- stdout
        --- stderr
        Usage: saline-call [options] <function> [arguments]

        saline-call: error: option --master: ':x' is not a valid master; write HOST, HOST:PORT or [IPv6]:PORT
        --- exit 64
        ");
        insta::assert_snapshot!(run("saline-call test.ping,test.version ,", Value::Null, 0).await, @"
        --- stdout
        --- stderr
        Usage: saline-call [options] <function> [arguments]

        saline-call: error: 'test.ping,test.version' is several functions: call each by itself; `saline` takes several in one job
        --- exit 64
        ");
        insta::assert_snapshot!(run("saline-call --id a/b test.ping", Value::Null, 0).await, @r#"
        --- stdout
        --- stderr
        Usage: saline-call [options] <function> [arguments]

        saline-call: error: option --id: minion id "a/b": an id is made of letters, digits, dots, dashes and underscores
        --- exit 64
        "#);
    }

    #[test]
    fn a_failure_never_becomes_a_success() {
        let returned = |retcode| FunctionReturn {
            value: Value::Null,
            retcode,
            delivery_error: None,
        };
        let codes = [0, 1, 3, 254, 256, -1, 512].map(|retcode| code(&returned(retcode), true));
        assert_eq!(codes, [0, 1, 3, 254, 1, 255, 1]);
        assert_eq!(code(&returned(254), false), 1);
    }
}
