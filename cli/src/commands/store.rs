//! `store.*`: copies and checks the master's job store.

use saline_client::{Client, ClientError};
use saline_protocol::message::{StoreBackup, StoreCheck, Value};
use saline_protocol::printable::escape_line;

use crate::exit;
use crate::screen::Screen;

/// Copies the job store while the master uses it, and returns where the copy is.
pub(crate) async fn back_up(client: &Client) -> Result<Value, ClientError> {
    let StoreBackup {
        folder,
        files,
        bytes,
    } = client.back_up_store().await?;
    Ok(Value::map([
        ("folder", Value::from(folder)),
        ("files", whole(files)),
        ("bytes", whole(bytes)),
    ]))
}

/// Checks the job store. Prints a line for each problem; returns the counts and the exit code.
pub(crate) async fn check(
    screen: &mut Screen<'_>,
    client: &Client,
) -> Result<(Value, u8), ClientError> {
    let StoreCheck {
        files,
        jobs,
        returns,
        problems,
    } = client.check_store().await?;
    for problem in &problems {
        screen.complain(escape_line(&format!("ERROR: {problem}")));
    }
    let counts = Value::map([
        ("files", whole(files)),
        ("jobs", whole(jobs)),
        ("returns", whole(returns)),
        ("problems", whole(problems.len() as u64)),
    ]);
    let code = match problems.is_empty() {
        true => exit::GOOD,
        false => exit::FAILED,
    };
    Ok((counts, code))
}

fn whole(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}
