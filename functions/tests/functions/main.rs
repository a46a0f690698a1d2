//! Functions as the attributes write them.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod binding;
mod descriptors;
mod types;

use std::pin::Pin;
use std::time::Duration;

use saline_data::Value;
use saline_functions::{
    BoundArguments, Context, Failure, FromValue, Mapping, Registry, Secret, function, parameters,
    take_secrets,
};
use saline_messages::{ArgumentPlace, Arguments};

/// What the synchronous functions run in. It borrows, as the context of a minion does.
struct Place<'a> {
    name: &'a str,
}

impl Context for Place<'_> {
    type Returned = Value;
    type Code = for<'a> fn(&'a Place<'a>, BoundArguments) -> Result<Value, Failure>;
}

/// Greets.
///
/// greeting
///     What is said.
///
/// CLI Example:
///
///     saline '*' place.greet Ann greeting=Hello
#[function(nonblocking)]
fn greet(place: &Place<'_>, who: String, #[default("Hi")] greeting: String) -> String {
    format!("{greeting} {who} from {}", place.name)
}

/// Fails, and sleeps before.
#[function]
fn fail(_: &Place<'_>, length: Duration) -> Result<bool, Failure> {
    Err(Failure::Execution(format!("{} s", length.as_secs())))
}

/// Returns all that it is given.
#[function(acts_once, seconds = 7)]
fn everything(
    _: &Place<'_>,
    first: Value,
    #[default(-1)] r#type: i64,
    half: Option<f64>,
    #[args] names: Vec<String>,
    #[default(",")] between: String,
    #[kwargs] more: Mapping,
) -> Vec<Value> {
    let half = half.map_or(Value::Null, Value::Float);
    let rest = [Value::from(names.join(&between)), Value::Map(more)];
    [vec![first, r#type.into(), half], rest.into()].concat()
}

/// Removes a file.
#[function(changes)]
fn remove(_: &Place<'_>, path: String, #[default(false)] test: bool) -> String {
    format!("{path} {test}")
}

/// Logs in.
#[function]
fn login(_: &Place<'_>, user: String, password: Secret<String>, pin: Option<Secret<i64>>) -> bool {
    user == "ann" && password.reveal() == "p4ss" && pin.is_none()
}

/// Signs with keys.
#[function]
fn sign(_: &Place<'_>, user: String, #[args] keys: Vec<Secret<String>>) -> Vec<Value> {
    vec![user.into(), i64::try_from(keys.len()).unwrap().into()]
}

/// Parameters of two functions.
#[parameters]
struct Where {
    /// A field's own documentation stays.
    host: String,
    #[default(22)]
    port: u64,
}

/// Connects.
#[function]
fn connect(_: &Place<'_>, #[parameters] to: Where) -> String {
    format!("{}:{}", to.host, to.port)
}

/// Needs no argument.
#[function]
fn optional(_: &Place<'_>, code: Option<i64>) -> bool {
    code.is_some()
}

/// Takes no argument.
#[function]
fn nothing(_: &Place<'_>) -> bool {
    true
}

fn registry() -> Registry<Place<'static>> {
    let functions = [
        &GREET,
        &FAIL,
        &EVERYTHING,
        &REMOVE,
        &LOGIN,
        &SIGN,
        &CONNECT,
        &OPTIONAL,
        &NOTHING,
    ];
    Registry::default()
        .with("place", functions)
        .with_alias("welcome", "place.greet")
}

fn arguments(positional: &[&str], named: &[(&str, Value)]) -> Arguments {
    Arguments {
        positional: positional.iter().map(|text| Value::from(*text)).collect(),
        named: named
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
    }
}

fn call(fun: &str, arguments: Arguments) -> Result<Value, Failure> {
    let registry = registry();
    let function = registry.get(&format!("place.{fun}")).unwrap();
    let bound = function.bind(arguments)?;
    (function.code)(&Place { name: "here" }, bound)
}

/// What the asynchronous functions run in.
struct Run(i64);

impl Context for Run {
    type Returned = Value;
    type Code = for<'a> fn(
        &'a Run,
        BoundArguments,
    )
        -> Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send + 'a>>;
}

/// Waits, and adds.
#[function]
async fn add(run: &Run, #[default(1)] number: i64) -> Result<i64, Failure> {
    tokio::task::yield_now().await;
    let sum = run.0.checked_add(number);
    sum.ok_or_else(|| Failure::Invocation("too large".to_owned()))
}

#[tokio::test]
async fn an_async_function_is_awaited() {
    let add = |number: i64| async move {
        let bound = ADD.bind(arguments(&[], &[("number", number.into())]));
        (ADD.code)(&Run(2), bound.unwrap()).await
    };
    assert_eq!(add(3).await, Ok(Value::Int(5)));
    let overflow = Failure::Invocation("too large".to_owned());
    assert_eq!(add(i64::MAX).await, Err(overflow));
    let bound = ADD.bind(arguments(&["x"], &[])).unwrap();
    let refused = (ADD.code)(&Run(2), bound).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "add() expects a whole number as 'number', not \"x\""
    );
}

#[test]
fn a_rust_function_stays_one() {
    assert_eq!(
        greet(&Place { name: "x" }, "a".into(), "b".into()),
        "b a from x"
    );
    assert_eq!(<Option<Secret<i64>>>::TAKES, "a whole number");
}
