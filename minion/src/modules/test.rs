//! `test`: checks that the minion answers.

use saline_data::Value;

use super::{Call, Failure, Function, Module, Outcome, optional, required};

/// The module `test`.
#[derive(Debug)]
pub struct Test;

impl Module for Test {
    fn name(&self) -> &'static str {
        "test"
    }

    fn functions(&self) -> &'static [Function] {
        FUNCTIONS
    }
}

const FUNCTIONS: &[Function] = &[
    Function::new("ping", PING, ping),
    Function::new("echo", ECHO, echo).with(&[required("text")]),
    Function::new("arg", ARG, arg)
        .with_more_positional()
        .with_more_named(),
    Function::new("sleep", SLEEP, sleep).with(&[required("length")]),
    Function::new("version", VERSION, version),
    Function::new("retcode", RETCODE, retcode).with(&[optional("code")]),
    Function::new("exception", EXCEPTION, exception).with(&[optional("message")]),
];

const PING: &str = "
Used to make sure the minion is up and responding. Not an ICMP ping.

Returns `True`.

CLI Example:

.. code-block:: bash

    saline '*' test.ping
";

fn ping(_: &Call<'_>) -> Result<Outcome, Failure> {
    Ok(true.into())
}

const ECHO: &str = "
Return a string - used for testing the connection.

CLI Example:

.. code-block:: bash

    saline '*' test.echo 'foo bar baz quo qux'
";

fn echo(call: &Call<'_>) -> Result<Outcome, Failure> {
    Ok(call.value("text").cloned().unwrap_or_default().into())
}

const ARG: &str = "
Print out the data passed into the function `*args` and `**kwargs`, this is used to both test the
publication data and CLI argument passing, but also to display the information available within
the publication data. Returns {\"args\": args, \"kwargs\": kwargs}.

CLI Example:

.. code-block:: bash

    saline '*' test.arg 1 \"two\" 3.1 txt=\"hello\" wow='{a: 1, b: \"hello\"}'
";

fn arg(call: &Call<'_>) -> Result<Outcome, Failure> {
    Ok(Value::map([
        ("args", Value::List(call.more.clone())),
        ("kwargs", Value::Map(call.named.clone())),
    ])
    .into())
}

const SLEEP: &str = "
Instruct the minion to initiate a process that will sleep for a given
period of time.

CLI Example:

.. code-block:: bash

    saline '*' test.sleep 20
";

fn sleep(call: &Call<'_>) -> Result<Outcome, Failure> {
    call.wait(call.seconds("length")?.unwrap_or_default())?;
    Ok(true.into())
}

const VERSION: &str = "
Return the version of Saline on the minion.

CLI Example:

.. code-block:: bash

    saline '*' test.version
";

fn version(_: &Call<'_>) -> Result<Outcome, Failure> {
    Ok(env!("CARGO_PKG_VERSION").into())
}

const RETCODE: &str = "
Test that the returncode system is functioning correctly.

CLI Example:

.. code-block:: bash

    saline '*' test.retcode 42
";

fn retcode(call: &Call<'_>) -> Result<Outcome, Failure> {
    let code = call.integer("code")?.unwrap_or(42);
    Ok(Outcome::new(true, code))
}

const EXCEPTION: &str = "
Raise an exception.

Optionally provide an error message.

CLI Example:

.. code-block:: bash

    saline '*' test.exception 'Oh noes!'
";

fn exception(call: &Call<'_>) -> Result<Outcome, Failure> {
    let message = call.text("message")?;
    Err(Failure::Exception(
        message.unwrap_or_else(|| "Test Exception".to_owned()),
    ))
}
