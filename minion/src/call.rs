//! A call of a function on this machine for which no master published a job: by `saline-call`, or by the schedule.

use saline_data::{Packed, Value};
use saline_functions::Failure;
use saline_messages::random::NoRandomness;
use saline_messages::{
    Arguments, CallerReturn, MAX_CALL_ARGUMENTS, PackedArguments, RequestId, Secrets,
};

use saline_modules::job::JobControl;
use saline_modules::{Host, Modules, Outcome};

/// A function that is to be called.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments of the function.
    pub arguments: Arguments,
    /// The user who calls, for the record.
    pub user: String,
    /// The destinations of the master's configuration that get the call too.
    pub returners: Vec<String>,
}

/// A call whose secret arguments are apart: the function alone gets their values.
pub(crate) struct Call {
    /// The request, with markers in the place of secrets.
    pub(crate) request: CallRequest,
    /// The values of the secret arguments.
    pub(crate) secrets: Option<Secrets>,
}

impl Call {
    /// Takes the secret arguments out of a request.
    pub(crate) fn new(modules: &Modules, mut request: CallRequest) -> Result<Self, NoRandomness> {
        let values = modules.take_secrets(&request.fun, &mut request.arguments);
        let secrets = Secrets::set_apart(&mut request.arguments, values)?;
        Ok(Self { request, secrets })
    }

    /// Runs the function on this thread.
    pub(crate) fn run(&self, host: &Host, modules: &Modules, control: &JobControl) -> Outcome {
        let CallRequest { fun, arguments, .. } = &self.request;
        let mut arguments = arguments.clone();
        match Secrets::put_in(self.secrets.as_ref(), &mut arguments) {
            Ok(hidden) => modules.call_hiding(fun, arguments, &hidden, host, control),
            // Somebody passed the marker of another job.
            Err(error) => Outcome::of_failure(&Failure::Invocation(error.to_string()), fun, ""),
        }
    }

    /// Returns the arguments as the master stores them. Those that are too large for that are named, not sent.
    pub(crate) fn stored_arguments(&self) -> PackedArguments {
        let arg = self.request.arguments.pack();
        let size = arg.as_packed().as_bytes().len();
        if size <= MAX_CALL_ARGUMENTS {
            return arg;
        }
        let named = format!("({size} bytes of arguments, which are not stored)");
        let named = Arguments {
            positional: vec![Value::from(named)],
            named: Vec::new(),
        };
        named.pack()
    }

    /// Returns what the master stores of the call.
    pub(crate) fn returned(&self, outcome: &Outcome) -> Result<CallerReturn, NoRandomness> {
        Ok(CallerReturn {
            request_id: RequestId::random()?,
            fun: self.request.fun.clone(),
            arg: self.stored_arguments(),
            user: self.request.user.clone(),
            retcode: outcome.retcode,
            success: outcome.success(),
            payload: Packed::pack(&outcome.value),
            returners: self.request.returners.clone(),
        })
    }
}
