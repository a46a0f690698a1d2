//! Jobs of minions: `local`, `local_async`, `local_batch` and `local_subset`.

use saline_client::data::Value;
use saline_client::messages::{Arguments, BatchRequest, BatchSize};
use saline_client::{Client, JobCall, JobFollower, JobSpec, MinionReturn, ParametersOf, Progress};
use saline_config::parse_calls;

use crate::error::ApiError;
use crate::lowstate::{Chunk, call_arguments};

/// The minions that `local_subset` chooses unless the chunk says how many.
const SUBSET: u32 = 3;

/// The size of a batch of `local_batch` unless the chunk says it: half of the minions, as in Salt.
const BATCH: BatchSize = BatchSize::Percent(50);

/// What stands alone between the words of several functions.
const SEPARATOR: &str = ",";

/// Publishes a job and waits for its returns. Returns one mapping of them, with `false` for a minion without one; for a batch
/// one mapping for each minion.
pub(super) async fn run(
    client: &Client,
    chunk: &Chunk,
    parameters_of: ParametersOf,
    is_subset: bool,
) -> Result<Vec<Value>, ApiError> {
    let mut spec = spec(chunk, parameters_of)?;
    if is_subset {
        let subset = chunk.minions("subset")?.or(chunk.minions("sub")?);
        spec = spec.with_subset(Some(subset.unwrap_or(SUBSET)));
    }
    let in_batches = chunk.batch()?.is_some();
    followed(client, spec, in_batches, chunk.flag("full_return")?).await
}

/// Publishes a job as a batch and waits for its returns. Returns one mapping for each minion.
pub(super) async fn run_in_batches(
    client: &Client,
    chunk: &Chunk,
    parameters_of: ParametersOf,
) -> Result<Vec<Value>, ApiError> {
    let batch = batch(chunk, Some(chunk.batch()?.unwrap_or(BATCH)))?;
    let spec = spec(chunk, parameters_of)?.in_batches(batch);
    followed(client, spec, true, chunk.flag("full_return")?).await
}

/// Publishes a job. Returns its jid and its minions; an empty mapping when no minion matched.
pub(super) async fn begin(
    client: &Client,
    chunk: &Chunk,
    parameters_of: ParametersOf,
) -> Result<Value, ApiError> {
    let published = client.run_async(spec(chunk, parameters_of)?).await?;
    Ok(match published.jid {
        None => Value::Map(Vec::new()),
        Some(jid) => {
            let minions = published.minions.iter().map(|(minion, _)| minion.as_str());
            Value::map([
                ("jid", Value::from(jid.as_str())),
                ("minions", Value::texts(minions)),
            ])
        }
    })
}

async fn followed(
    client: &Client,
    spec: JobSpec,
    in_batches: bool,
    full_return: bool,
) -> Result<Vec<Value>, ApiError> {
    let mut job = client.run(spec).await?;
    let Some(jid) = job.jid().cloned() else {
        return Ok(vec![Value::Map(Vec::new())]);
    };
    let shown = |returned: MinionReturn| match full_return {
        false => returned.value,
        true => Value::map([
            ("jid", Value::from(jid.as_str())),
            ("ret", returned.value),
            ("retcode", Value::Int(returned.retcode)),
        ]),
    };
    let mut returns = returns(&mut job, shown).await?;
    returns.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(match in_batches {
        false => vec![Value::Map(returns)],
        true => {
            let each = returns.into_iter();
            each.map(|one| Value::Map(vec![one])).collect()
        }
    })
}

/// Waits for the returns of a job. A minion that was given up and returns all the same has its return.
async fn returns(
    job: &mut JobFollower,
    shown: impl Fn(MinionReturn) -> Value,
) -> Result<Vec<(String, Value)>, ApiError> {
    let mut returns: Vec<(String, Value)> = Vec::new();
    let mut absent = Vec::new();
    while let Some(progress) = job.next().await? {
        match progress {
            Progress::Returned(returned) => {
                returns.push((returned.minion.to_string(), shown(returned)));
            }
            Progress::Absent(gone) => absent.push(gone.name),
            _ => {}
        }
    }
    let returned: std::collections::HashSet<String> =
        returns.iter().map(|(minion, _)| minion.clone()).collect();
    let absent = absent.into_iter();
    let absent = absent.filter(|minion| !returned.contains(minion));
    returns.extend(absent.map(|minion| (minion, Value::Bool(false))));
    Ok(returns)
}

/// Returns the job that a chunk describes.
fn spec(chunk: &Chunk, parameters_of: ParametersOf) -> Result<JobSpec, ApiError> {
    let call = JobCall::of(calls(chunk)?, parameters_of);
    let call = call.map_err(|error| ApiError::BadRequest(error.to_string()))?;
    let metadata = match chunk.get("metadata") {
        None => None,
        Some(Value::Map(entries)) => Some(entries.clone()),
        Some(_) => {
            return Err(ApiError::BadRequest(
                "metadata has to be a mapping".to_owned(),
            ));
        }
    };
    let returners = chunk.text("ret")?.unwrap_or_default().split(',');
    let returners = returners.filter(|name| !name.is_empty());
    let jid = chunk.text("jid")?.map(|jid| jid.parse());
    let jid = jid.transpose();
    let jid = jid.map_err(|_| ApiError::BadRequest("a jid has twenty digits".to_owned()))?;
    Ok(JobSpec::of_call(chunk.target()?, call)
        .with_timeout(chunk.seconds("timeout")?)
        .with_metadata(metadata)
        .with_jid(jid)
        .returned_to(returners.map(str::to_owned).collect())
        // Clients of Salt's API read of a missing function in the return of each minion.
        .allowing_unknown_functions(true)
        .in_batches(batch(chunk, chunk.batch()?)?))
}

/// Returns the functions of a job with their arguments. Several may stand in a list, with a list of arguments for each, as Salt's
/// compound execution has them.
fn calls(chunk: &Chunk) -> Result<Vec<(String, Arguments)>, ApiError> {
    if let Some(words) = chunk.get("words") {
        return calls_of_words(chunk, words);
    }
    let names = match chunk.get("fun") {
        Some(Value::List(names)) => names.iter().map(Value::as_str).collect(),
        _ => Some(chunk.function()?.split(',').collect::<Vec<&str>>()),
    };
    let names = names.filter(|names| !names.is_empty() && !names.contains(&""));
    let names = names.ok_or_else(|| bad("fun has to be a function, or a list of functions"))?;
    if let [name] = names[..] {
        return Ok(vec![(name.to_owned(), call_arguments(chunk, false)?)]);
    }
    let lists = match chunk.get("arg") {
        None => vec![Vec::new(); names.len()],
        Some(Value::List(lists)) => {
            let list = |one: &Value| match one {
                Value::List(list) => Some(list.clone()),
                _ => None,
            };
            let lists: Option<Vec<Vec<Value>>> = lists.iter().map(list).collect();
            lists.unwrap_or_default()
        }
        Some(_) => Vec::new(),
    };
    if lists.len() != names.len() || chunk.get("kwarg").is_some() {
        return Err(bad(
            "several functions need arg as a list with a list of arguments for each, and no kwarg",
        ));
    }
    let calls = names.into_iter().zip(lists).map(|(name, list)| {
        let chunk = Chunk::new(vec![("arg".to_owned(), Value::List(list))])?;
        Ok((name.to_owned(), call_arguments(&chunk, false)?))
    });
    calls.collect()
}

/// Returns the functions of a job with the arguments that `words` are on the command line of `saline`.
fn calls_of_words(chunk: &Chunk, words: &Value) -> Result<Vec<(String, Arguments)>, ApiError> {
    let word = |word: &Value| word.as_str().map(str::to_owned);
    let words: Option<Vec<String>> = match words {
        Value::List(words) => words.iter().map(word).collect(),
        _ => None,
    };
    let words = words.ok_or_else(|| bad("words has to be a list of texts"))?;
    if chunk.get("arg").is_some() || chunk.get("kwarg").is_some() {
        return Err(bad("words stands in the place of arg and kwarg"));
    }
    parse_calls(chunk.function()?, &words, SEPARATOR).map_err(|why| bad(&why))
}

/// Returns how the job is made a batch, if it is one.
fn batch(chunk: &Chunk, size: Option<BatchSize>) -> Result<BatchRequest, ApiError> {
    let milliseconds = |name| {
        let time = chunk.seconds(name)?.unwrap_or_default();
        Ok::<u64, ApiError>(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    };
    Ok(BatchRequest {
        size,
        wait_ms: milliseconds("batch_wait")?,
        failhard: chunk.flag("failhard")?,
        ..BatchRequest::default()
    })
}

fn bad(why: &str) -> ApiError {
    ApiError::BadRequest(why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use saline_functions::{Parameter, ParameterKind};

    use super::*;

    const PARAMETERS: &[Parameter] = &[Parameter {
        name: Cow::Borrowed("password"),
        takes: Cow::Borrowed("a text"),
        secret: true,
        kind: ParameterKind::Required,
    }];

    fn spec_of(entries: &[(&str, Value)]) -> Result<JobSpec, ApiError> {
        let entries = entries
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        let tgt = ("tgt".to_owned(), Value::from("web1"));
        let chunk = Chunk::new(entries.chain([tgt]).collect()).unwrap();
        spec(&chunk, |fun| match fun {
            "shadow.set" => PARAMETERS,
            _ => &[],
        })
    }

    #[test]
    fn the_arguments_of_secret_parameters_are_secret_without_being_asked() {
        let fun = ("fun", Value::from("shadow.set"));
        let list = Value::List(vec![Value::from("hunter2")]);
        for given in [
            ("arg", list.clone()),
            ("arg", Value::List(vec![Value::from("password=hunter2")])),
            ("kwarg", Value::map([("password", Value::from("hunter2"))])),
        ] {
            let spec = spec_of(&[fun.clone(), given.clone()]).unwrap();
            assert_eq!(spec.arg, Arguments::default(), "{given:?}");
            let values = spec.secrets.0.iter().map(|(_, value)| value.clone());
            assert_eq!(values.collect::<Vec<_>>(), [Value::from("hunter2")]);
        }
        let plain = spec_of(&[("fun", Value::from("test.echo")), ("arg", list.clone())]);
        assert!(plain.unwrap().secrets.0.is_empty());
        let several = spec_of(&[
            ("fun", Value::from("test.ping,shadow.set")),
            ("arg", Value::List(vec![Value::List(Vec::new()), list])),
        ]);
        let refused = several.map(drop).unwrap_err();
        assert!(
            matches!(&refused, ApiError::BadRequest(why) if !why.contains("hunter2")),
            "{refused:?}"
        );
    }

    #[test]
    fn words_are_read_as_on_the_command_line() {
        let of = |fun: &str, words: &[&str]| {
            let words = words.iter().map(|word| Value::from(*word));
            let words = Value::List(words.collect());
            spec_of(&[("fun", Value::from(fun)), ("words", words)])
        };
        let arguments = |fun: &str, words: &[&str]| {
            let list = of(fun, words).unwrap().arg.to_salt();
            String::from_utf8(saline_client::data::json::line(&list)).unwrap()
        };
        assert_eq!(
            arguments(
                "test.arg",
                &["1", "x=1", "y='1'", "a b", "[1, two]", "None"]
            ),
            r#"[1, "a b", [1, "two"], null, {"__kwarg__": true, "x": 1, "y": "1"}]"#
        );
        assert_eq!(arguments("cmd.run", &["007"]), r#"["007"]"#);
        assert_eq!(arguments("test.echo,test.ping", &["1", ","]), "[[1], []]");
        let hidden = of("shadow.set", &["password=hunter2"]).unwrap();
        assert_eq!(hidden.arg, Arguments::default());
        let words = ("words", Value::texts(["1"]));
        for wrong in [
            vec![("words", Value::from("1"))],
            vec![("words", Value::List(vec![Value::Int(1)]))],
            vec![words.clone(), ("arg", Value::List(Vec::new()))],
            vec![words, ("kwarg", Value::Map(Vec::new()))],
        ] {
            let fun = ("fun", Value::from("test.arg"));
            let refused = spec_of(&[&[fun], &wrong[..]].concat());
            assert!(matches!(refused, Err(ApiError::BadRequest(_))), "{wrong:?}");
        }
    }
}
