//! `saline-call`: runs a function on this machine, beside its minion.

use std::ffi::OsString;

use saline_cli::{FunctionCall, FunctionReturn, Program};
use saline_minion::caller::{self, CallRequest};
use saline_minion::modules::{Modules, function_names};
use saline_protocol::transport::Registry;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let registry = saline_transports::registry();
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = saline_cli::complete(Program::Call, &words, &registry, function_names) {
        return code;
    }
    saline_cli::saline_call(words, registry, carry_out).await
}

async fn carry_out(call: FunctionCall, registry: &Registry) -> Result<FunctionReturn, String> {
    let master = call.asks_master.then_some(registry);
    let request = CallRequest {
        fun: call.fun,
        arguments: call.arguments,
        user: call.user,
        returners: call.returners,
    };
    let modules = Modules::of_this_machine().with_executables(call.config.all_module_dirs());
    let called = caller::call(&call.config, master, modules, request).await;
    let called = called.map_err(|error| error.to_string())?;
    Ok(FunctionReturn {
        value: called.value,
        retcode: called.retcode,
        delivery_error: called.delivery_error,
    })
}
