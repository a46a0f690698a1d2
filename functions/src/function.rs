//! The descriptor of a function.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use saline_data::Value;
use saline_messages::{ArgumentPlace, Arguments};

use crate::{ArgumentError, BoundArguments, Parameter, ParameterKind};

/// The surroundings that functions run in: a job of a minion, a run of the master.
pub trait Context {
    /// The return of a function. What a Rust function returns is converted to it.
    type Returned;

    /// The code of a function, a pointer to a function that takes the context and the [`BoundArguments`]:
    /// - `for<'a> fn(&'a Self, BoundArguments) -> Result<Returned, Failure>` where functions are synchronous,
    /// - `for<'a> fn(&'a Self, BoundArguments) -> Pin<Box<dyn Future<Output = Result<Returned, Failure>> + Send + 'a>>`
    ///   where they are `async`.
    type Code: Copy + Send + Sync + 'static;
}

/// The process that a function of a minion runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsIn {
    /// On a thread of the minion; beside a function that needs a process of its own, in that process.
    AnyProcess,
    /// In a process of its own, which a restart of the minion does not end. The function sees of the minion only its
    /// grains and its configuration there.
    OwnProcess,
    /// On a thread of the minion, since it uses more of the minion than that.
    MinionsProcess,
}

/// A function that an operator can call. [`macro@crate::function`] writes one for each Rust function.
pub struct Function<C: Context> {
    /// The name within the module.
    pub name: Cow<'static, str>,
    /// The documentation: prose, then `CLI Example:` with indented command lines.
    pub documentation: Cow<'static, str>,
    /// The parameters, in the order in which positional arguments fill them.
    pub parameters: Cow<'static, [Parameter]>,
    /// Whether the function may wait for something. One that says that it does not gets a place to run at once when
    /// others hold all of theirs.
    pub blocks: bool,
    /// Whether the function changes something that lasts. It has a parameter `test` then, with which it returns what
    /// it would change.
    pub changes: bool,
    /// Whether the same request must not run the function a second time, for example after a restart.
    pub acts_once: bool,
    /// The process that the function runs in, on a minion.
    pub runs_in: RunsIn,
    /// How long the function may take if its caller does not say; none for the usual time.
    pub time: Option<Duration>,
    /// The code that the function runs, with its arguments bound.
    pub code: C::Code,
}

impl<C: Context> Function<C> {
    /// Binds arguments to the parameters. Their types are checked when the code takes them.
    ///
    /// # Errors
    /// When they are too many or too few, or a name is unknown.
    pub fn bind(&self, arguments: Arguments) -> Result<BoundArguments, ArgumentError> {
        self.bind_hiding(arguments, &[])
    }

    /// Binds arguments as [`bind`](Self::bind) does. No error shows the values of the arguments in `hidden`, which
    /// are secret.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_hiding(
        &self,
        arguments: Arguments,
        hidden: &[ArgumentPlace],
    ) -> Result<BoundArguments, ArgumentError> {
        BoundArguments::bind(&self.name, &self.parameters, arguments, hidden)
    }

    /// Returns the documentation as Salt's `sys.doc` prints it: a blank line first, and each line indented by four.
    pub fn indented_documentation(&self) -> String {
        let mut text = String::from("\n");
        for line in self.documentation.trim_end().lines() {
            if !line.is_empty() {
                text.push_str("    ");
                text.push_str(line);
            }
            text.push('\n');
        }
        text
    }

    /// Returns the signature in the shape of Salt's `sys.argspec`: the names of the parameters, the defaults of the
    /// last of them, and whether there may be further arguments.
    pub fn argspec(&self) -> Value {
        let (mut names, mut defaults) = (Vec::new(), Vec::new());
        let (mut varargs, mut kwargs) = (Value::Null, Value::Null);
        for parameter in self.parameters.iter() {
            match &parameter.kind {
                ParameterKind::Args => varargs = Value::Bool(true),
                ParameterKind::Kwargs => kwargs = Value::Bool(true),
                // Given by name alone: Salt's functions take such arguments as further named ones.
                _ if varargs == Value::Bool(true) => kwargs = Value::Bool(true),
                kind => {
                    names.push(Value::from(&*parameter.name));
                    if let ParameterKind::Optional(default) = kind {
                        defaults.push(default.to_value());
                    }
                }
            }
        }
        let unless_empty = |list: Vec<Value>| match list.is_empty() {
            true => Value::Null,
            false => Value::List(list),
        };
        Value::map([
            ("args", unless_empty(names)),
            ("defaults", unless_empty(defaults)),
            ("varargs", varargs),
            ("kwargs", kwargs),
        ])
    }
}

impl<C: Context> Clone for Function<C> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            documentation: self.documentation.clone(),
            parameters: self.parameters.clone(),
            ..*self
        }
    }
}

impl<C: Context> fmt::Debug for Function<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("name", &self.name)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}
