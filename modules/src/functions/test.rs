//! `test`: checks that the minion answers.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, SHA384, SHA512, digest};
use saline_data::{Value, json};
use saline_functions::{Failure, Mapping, function};
use saline_messages::{Arguments, is_compound};

use crate::{Functions, JobContext, Outcome};

pub(super) const FUNCTIONS: Functions = &[
    &PING,
    &ECHO,
    &ARG,
    &ARG_REPR,
    &ARG_TYPE,
    &ASSERTION,
    &COLLATZ,
    &CROSS_TEST,
    &EXCEPTION,
    &FALSE,
    &FIB,
    &GET_OPTS,
    &KWARG,
    &MODULE_REPORT,
    &NOT_LOADED,
    &OUTPUTTER,
    &PROVIDERS,
    &RAND_SLEEP,
    &RAND_STR,
    &RANDOM_HASH,
    &RETCODE,
    &SLEEP,
    &TRUE,
    &TRY,
    &VERSION,
    &VERSIONS,
    &VERSIONS_INFORMATION,
    &VERSIONS_REPORT,
];

/// The largest number of steps of a computation that only keeps a processor busy.
const MOST_STEPS: usize = 100_000;

/// The longest random text.
const LONGEST: u64 = 64 * 1024;

/// Returns `True` as soon as the minion runs jobs. No ICMP packet is sent.
///
/// CLI Example:
///
///     saline '*' test.ping
#[function]
fn ping(_: &JobContext<'_>) -> bool {
    true
}

/// Returns its argument unchanged: it shows what arrives at a minion.
///
/// CLI Example:
///
///     saline '*' test.echo 'one two'
#[function]
fn echo(_: &JobContext<'_>, text: Value) -> Value {
    text
}

/// Returns all arguments as the minion reads them: those by position below `args`, those by name below `kwargs`.
///
/// CLI Example:
///
///     saline '*' test.arg 1 two 3.1 txt=hello wow='{a: 1, b: [2, 3]}'
#[function]
fn arg(_: &JobContext<'_>, #[args] args: Vec<Value>, #[kwargs] kwargs: Mapping) -> Value {
    Value::map([("args", Value::List(args)), ("kwargs", Value::Map(kwargs))])
}

/// Waits for `length` seconds, fractions included, and returns `True`. `saltutil.kill_job` ends the wait.
///
/// CLI Example:
///
///     saline '*' test.sleep 20
#[function]
fn sleep(job: &JobContext<'_>, length: Duration) -> Result<bool, Failure> {
    job.wait(length)?;
    Ok(true)
}

/// Returns the version of Saline on the minion.
///
/// CLI Example:
///
///     saline '*' test.version
#[function]
fn version(_: &JobContext<'_>) -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns `True` with the retcode `code`, so that a script can try out how it treats failures.
///
/// CLI Example:
///
///     saline '*' test.retcode 42
#[function]
fn retcode(_: &JobContext<'_>, #[default(42)] code: i64) -> Outcome {
    Outcome::new(true, code)
}

/// Fails as a function does that meets an unforeseen error, with this message.
///
/// CLI Example:
///
///     saline '*' test.exception 'the disk is on fire'
#[function]
fn exception(
    _: &JobContext<'_>,
    #[default("Test Exception")] message: String,
) -> Result<Outcome, Failure> {
    Err(Failure::Exception(message))
}

/// Fails unless `assertion` is true.
///
/// CLI Example:
///
///     saline '*' test.assertion False
#[function]
fn assertion(_: &JobContext<'_>, assertion: Value) -> Result<bool, Failure> {
    match assertion {
        Value::Null | Value::Bool(false) | Value::Int(0) => {
            Err(Failure::Exception("the assertion is false".to_owned()))
        }
        _ => Ok(true),
    }
}

/// Returns `True`.
///
/// CLI Example:
///
///     saline '*' test.true
#[function(nonblocking)]
fn r#true(_: &JobContext<'_>) -> bool {
    true
}

/// Returns `False`, which is not a failure.
///
/// CLI Example:
///
///     saline '*' test.false
#[function(nonblocking)]
fn r#false(_: &JobContext<'_>) -> bool {
    false
}

/// Returns the arguments given by name.
///
/// CLI Example:
///
///     saline '*' test.kwarg num=1 txt=two env='{a: 1}'
#[function]
fn kwarg(_: &JobContext<'_>, #[kwargs] kwargs: Mapping) -> Value {
    Value::Map(kwargs)
}

/// Returns the types of the arguments as the minion reads them: those by position below `args`, those by name below `kwargs`.
///
/// CLI Example:
///
///     saline '*' test.arg_type 1 '1' one=1.0 list='[1]'
#[function]
fn arg_type(_: &JobContext<'_>, #[args] args: Vec<Value>, #[kwargs] kwargs: Mapping) -> Value {
    each(args, kwargs, |value| kind(value).to_owned())
}

/// Returns the arguments as JSON writes them, which shows quotes and escapes: those by position below `args`, those by name below
/// `kwargs`.
///
/// CLI Example:
///
///     saline '*' test.arg_repr 1 '1' txt='a b'
#[function]
fn arg_repr(_: &JobContext<'_>, #[args] args: Vec<Value>, #[kwargs] kwargs: Mapping) -> Value {
    each(args, kwargs, |value| {
        String::from_utf8_lossy(json::line(value).trim_ascii()).into_owned()
    })
}

fn each(args: Vec<Value>, kwargs: Mapping, shown: impl Fn(&Value) -> String) -> Value {
    let kwargs = kwargs.into_iter();
    let named = kwargs.map(|(name, value)| (name, Value::from(shown(&value))));
    Value::map([
        ("args", Value::texts(args.iter().map(&shown))),
        ("kwargs", Value::Map(named.collect())),
    ])
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::UInt(_) => "int",
        Value::Float(_) => "float",
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "list",
        Value::Map(_) => "mapping",
    }
}

/// Returns its argument, to try out outputs.
///
/// CLI Example:
///
///     saline '*' test.outputter '{a: [1, 2]}' --out yaml
#[function]
fn outputter(_: &JobContext<'_>, data: Value) -> Value {
    data
}

/// Returns the modules of the minion, each with the name of what provides it. Each has one provider, which has its name.
///
/// CLI Example:
///
///     saline '*' test.providers
#[function]
fn providers(job: &JobContext<'_>) -> Value {
    let registry = job.modules.registry(job);
    let names = registry.iter().filter_map(|(name, _)| name.split_once('.'));
    let modules: BTreeSet<&str> = names.map(|(module, _)| module).collect();
    Value::map(
        modules
            .into_iter()
            .map(|module| (module, Value::from(module))),
    )
}

/// Returns the Collatz sequence that begins with a number: half of an even one, and one more than three times an odd one.
///
/// CLI Example:
///
///     saline '*' test.collatz 27
#[function]
fn collatz(_: &JobContext<'_>, start: u64) -> Result<Value, Failure> {
    let mut number = u128::from(start);
    let mut steps = Vec::new();
    while number > 1 {
        if steps.len() == MOST_STEPS {
            let why = format!("start: the sequence has more than {MOST_STEPS} steps");
            return Err(Failure::Invocation(why));
        }
        steps.push(Value::from(u64::try_from(number).unwrap_or(u64::MAX)));
        number = match number % 2 {
            0 => number / 2,
            _ => number.saturating_mul(3).saturating_add(1),
        };
    }
    steps.push(Value::Int(1));
    Ok(Value::List(steps))
}

/// Returns the Fibonacci numbers below a number.
///
/// CLI Example:
///
///     saline '*' test.fib 100
#[function]
fn fib(_: &JobContext<'_>, num: u64) -> Value {
    let mut numbers = Vec::new();
    let (mut this, mut next) = (0_u64, 1_u64);
    while this < num {
        numbers.push(Value::from(this));
        (this, next) = (next, this.saturating_add(next));
    }
    Value::List(numbers)
}

/// Calls another function of `test`, and returns what it returns.
///
/// No other function can be called: who may call this one may not therefore call all.
///
/// CLI Example:
///
///     saline '*' test.cross_test test.echo hello
#[function]
fn cross_test(
    job: &JobContext<'_>,
    func: String,
    #[args] args: Vec<Value>,
    #[kwargs] kwargs: Mapping,
) -> Result<Outcome, Failure> {
    call(job, &func, args, kwargs)
}

/// Calls another function of `test`, and returns what it returns; if it fails, `return_try_exception`, or `None`.
///
/// CLI Example:
///
///     saline '*' test.try test.exception return_try_exception='it failed'
#[function]
fn r#try(
    job: &JobContext<'_>,
    module: String,
    #[args] args: Vec<Value>,
    #[default(None)] return_try_exception: Value,
    #[kwargs] kwargs: Mapping,
) -> Result<Outcome, Failure> {
    let outcome = call(job, &module, args, kwargs)?;
    Ok(match outcome.success() {
        true => outcome,
        false => Outcome::from(return_try_exception),
    })
}

/// Calls a function of `test` in this job: the master has judged whether the operator may call those, and no others. One that
/// calls functions is not called, so that no call can go on without an end.
fn call(
    job: &JobContext<'_>,
    fun: &str,
    positional: Vec<Value>,
    named: Mapping,
) -> Result<Outcome, Failure> {
    let is_of_test = fun.starts_with("test.") && !is_compound(fun);
    if !is_of_test || matches!(fun, "test.cross_test" | "test.try") {
        let why = format!("{fun} is not called from another function: only functions of test are");
        return Err(Failure::Invocation(why));
    }
    let arguments = Arguments { positional, named };
    Ok(job.modules.call(fun, arguments, job.host, job.job))
}

/// Fails: the function is one that the minion lacks, to try out what that looks like.
///
/// CLI Example:
///
///     saline '*' test.not_loaded
#[function]
fn not_loaded(job: &JobContext<'_>) -> Outcome {
    Outcome::lacking(job.function, "such thing, since this is only a test")
}

/// Waits for a random time of up to `max` seconds, fractions included, and returns `True`: it spreads what many minions do next.
///
/// CLI Example:
///
///     saline '*' test.rand_sleep 60
#[function]
fn rand_sleep(job: &JobContext<'_>, #[default(60)] max: Duration) -> Result<bool, Failure> {
    let part = f64::from(u32::from_ne_bytes(random()?)) / f64::from(u32::MAX);
    job.wait(max.mul_f64(part))?;
    Ok(true)
}

/// Returns a random text of letters and digits.
///
/// size
///     Its length, 64 KiB at most.
///
/// CLI Example:
///
///     saline '*' test.rand_str 24
#[function]
fn rand_str(_: &JobContext<'_>, #[default(32)] size: u64) -> Result<String, Failure> {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let size = usize::try_from(size.min(LONGEST)).unwrap_or(0);
    let mut bytes = vec![0; size];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Execution(error.to_string()))?;
    let letters = bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 62)]));
    Ok(letters.collect())
}

/// Returns the hash of random bytes.
///
/// size
///     The number of random bytes, 64 KiB at most.
///
/// hash_type
///     `sha256`, `sha384` or `sha512`.
///
/// CLI Example:
///
///     saline '*' test.random_hash hash_type=sha512
#[function]
fn random_hash(
    _: &JobContext<'_>,
    #[default(9999)] size: u64,
    #[default("sha256")] hash_type: String,
) -> Result<String, Failure> {
    let algorithm = match hash_type.as_str() {
        "sha256" => &SHA256,
        "sha384" => &SHA384,
        "sha512" => &SHA512,
        other => {
            let why = format!("hash_type: there are sha256, sha384 and sha512, and no {other:?}");
            return Err(Failure::Invocation(why));
        }
    };
    let mut bytes = vec![0; usize::try_from(size.min(LONGEST)).unwrap_or(0)];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Execution(error.to_string()))?;
    let hash = digest(algorithm, &bytes);
    Ok(hash
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Execution(error.to_string()))?;
    Ok(bytes)
}

/// Returns the options of the minion, with secrets hidden, as `config.items` does.
///
/// CLI Example:
///
///     saline '*' test.get_opts
#[function(in_minion)]
fn get_opts(job: &JobContext<'_>) -> Value {
    job.host.options().as_ref().clone()
}

/// Returns the modules and the functions of the minion: `modules`, `functions`, those that the machine lacks something for, with
/// what it lacks, as `missing`, and as `versions` those of your own modules that have one.
///
/// CLI Example:
///
///     saline '*' test.module_report
#[function]
fn module_report(job: &JobContext<'_>) -> Value {
    let registry = job.modules.registry(job);
    let names: Vec<&str> = registry.iter().map(|(name, _)| name).collect();
    let mut modules: Vec<&str> = names
        .iter()
        .filter_map(|name| Some(name.split_once('.')?.0))
        .collect();
    modules.dedup();
    let missing = job.modules.absent();
    let versions = job.modules.versions_of_own().into_iter();
    Value::map([
        ("modules", Value::texts(modules)),
        ("functions", Value::texts(names)),
        (
            "missing",
            Value::map(missing.map(|(name, lacks)| (name, Value::from(lacks)))),
        ),
        (
            "versions",
            Value::map(versions.map(|(name, version)| (name, Value::from(version)))),
        ),
    ])
}

/// Returns the versions of Saline and of the system that it runs on.
///
/// CLI Example:
///
///     saline '*' test.versions_information
#[function]
fn versions_information(job: &JobContext<'_>) -> Value {
    let grains = job.host.grains.all();
    let text = |name: &str| grains.get(name).cloned().unwrap_or(Value::Null);
    let saline = Value::map([("Saline", Value::from(env!("CARGO_PKG_VERSION")))]);
    let system = [
        ("dist", text("osfinger")),
        (
            "locale",
            text("locale_info")
                .get("detectedencoding")
                .cloned()
                .unwrap_or(Value::Null),
        ),
        ("machine", text("cpuarch")),
        ("release", text("kernelrelease")),
        ("system", text("kernel")),
        ("version", text("lsb_distrib_description")),
    ];
    Value::map([
        ("Saline Version", saline),
        ("System Versions", Value::map(system)),
    ])
}

/// Returns the versions of Saline and of the system as lines to read.
///
/// CLI Example:
///
///     saline '*' test.versions_report
#[function]
fn versions_report(job: &JobContext<'_>) -> String {
    let mut report = String::new();
    let Value::Map(parts) = versions_information(job) else {
        return report;
    };
    for (title, entries) in parts {
        report += &format!("{title}:\n");
        let Value::Map(entries) = entries else {
            continue;
        };
        for (name, value) in entries {
            report += &format!("{name:>18}: {}\n", value.as_str().unwrap_or("unknown"));
        }
        report.push('\n');
    }
    report
}

/// Returns the versions of Saline and of the system, as `test.versions_report` does.
///
/// CLI Example:
///
///     saline '*' test.versions
#[function]
fn versions(job: &JobContext<'_>) -> String {
    versions_report(job)
}
