//! What a function of Saline is. Minions, runners and wheels have their functions from here: one signature, one
//! binding of arguments, one form of documentation, one type of failure.
//!
//! A function is a Rust function with the attribute [`macro@function`]. Its first parameter is a reference to its
//! [`Context`]: what it works with, such as a job of a minion or a run of the master. The others are what an operator
//! passes, in the order of positional arguments:
//!
//! | parameter | an operator |
//! |---|---|
//! | `text: String` | must pass it |
//! | `#[default(true)] rstrip: bool` | may leave it out, or pass `None` |
//! | `cwd: Option<String>` | may leave it out: its default is `None` |
//! | `#[args] names: Vec<String>` | may pass any number of further positional arguments; a parameter behind it is given by its name alone |
//! | `#[kwargs] data: Mapping` | may pass further `name=value` arguments |
//! | `password: Secret<String>` | must pass it; jobs, logs, events and errors do not show its value |
//!
//! Every type that implements [`FromValue`] can be a parameter. Functions that share many parameters have them as the
//! fields of one struct with the attribute [`macro@parameters`].
//!
//! The attribute leaves the function as it is, and writes a static [`Function`] beside it, whose name is that of the
//! function in capitals. A [`Registry`] has the functions by their full names. An executable can be a function too: a
//! [`Function`] may own its strings.
//!
//! ```
//! use saline_functions::{BoundArguments, Context, Failure, Registry, function};
//! use saline_data::Value;
//! use saline_messages::Arguments;
//!
//! /// The place where the functions of this example run.
//! struct Room {
//!     temperature: i64,
//! }
//!
//! impl Context for Room {
//!     type Returned = Value;
//!     type Code = fn(&Room, BoundArguments) -> Result<Value, Failure>;
//! }
//!
//! /// Returns the temperature of the room, in degrees Celsius.
//! ///
//! /// CLI Example:
//! ///
//! ///     saline '*' room.temperature
//! ///     saline '*' room.temperature offset=-2
//! #[function]
//! fn temperature(room: &Room, #[default(0)] offset: i64) -> i64 {
//!     room.temperature + offset
//! }
//!
//! let registry = Registry::default().with("room", [&TEMPERATURE]);
//! let function = registry.get("room.temperature").unwrap();
//! let mut arguments = Arguments::default();
//! arguments.named.push(("offset".to_owned(), Value::Int(-2)));
//! let bound = function.bind(arguments).unwrap();
//! let returned = (function.code)(&Room { temperature: 21 }, bound).unwrap();
//! assert_eq!(returned, Value::Int(19));
//!
//! let mut arguments = Arguments::default();
//! arguments.positional.push(Value::from("warm"));
//! let bound = function.bind(arguments).unwrap();
//! let failure = (function.code)(&Room { temperature: 21 }, bound).unwrap_err();
//! assert_eq!(
//!     failure.to_string(),
//!     "temperature() expects a whole number as 'offset', not \"warm\""
//! );
//! ```
//!
//! Where functions are `async`, the code returns a boxed future: see [`Context::Code`].

mod argument_error;
mod bound_arguments;
mod failure;
mod from_value;
mod function;
mod hidden_panic;
mod parameter;
mod registry;
mod secret;
mod secret_arguments;
mod selector;
mod shown;
mod signature;

pub use argument_error::ArgumentError;
pub use bound_arguments::{BoundArguments, Parameters};
pub use failure::Failure;
pub use from_value::{FromValue, Mapping, Mismatch};
pub use function::{Context, Function, RunsIn};
pub use hidden_panic::hide_panic;
pub use parameter::{Literal, Parameter, ParameterKind};
pub use registry::Registry;
pub use saline_functions_macros::{function, parameters};
pub use secret::Secret;
pub use secret_arguments::take_secrets;
pub use selector::Selector;
pub use signature::{NamedModule, Signature};
