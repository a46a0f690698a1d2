//! `reactor`: what the master does about events.

use saline_config::{Reaction, ReactionFile};
use saline_data::Value;
use saline_functions::{Failure, function};
use saline_messages::{Event, EventOrigin, EventTag, MinionId};
use saline_targeting::Glob;

use super::run::Run;
use super::{Functions, Returned};
use crate::authorize::{About, Action, Principal, Reached};
use crate::reactions::{Act, Block, Plan, describe};

pub(super) const FUNCTIONS: Functions = &[&ADD, &DELETE, &LIST, &TEST];

/// Returns the reactions that are in force, each a mapping of its tag to its files, in the order in which they are looked
/// through. Files that cannot be read are told beside them.
///
/// CLI Example:
///
///     saline-run reactor.list
#[function]
async fn list(run: &Run) -> Result<Returned, Failure> {
    let reactions = run.parts.reactions.list();
    for reaction in reactions.iter() {
        note_missing_files(run, reaction).await?;
    }
    let reactions = reactions.iter().map(|reaction| {
        let files = reaction.files.iter().map(ToString::to_string);
        Value::map([(reaction.tag.as_str(), Value::texts(files))])
    });
    Ok(Value::List(reactions.collect()).into())
}

/// Adds a reaction behind the others, until the master reads its configuration again or restarts. Returns True, and tells which files
/// cannot be read now.
///
/// event
///     The tag: a glob, whose `*` crosses slashes.
///
/// reactors
///     The files, as in the option `reactor`: absolute paths or `salt://PATH`.
///
/// CLI Example:
///
///     saline-run reactor.add 'myco/deploy/*' /srv/reactor/deploy.sls
#[function(changes)]
async fn add(
    run: &Run,
    event: String,
    reactors: Value,
    #[default(false)] test: bool,
) -> Result<bool, Failure> {
    run.check_sees_all("reactor.add")?;
    let invalid = |why: String| Failure::Invocation(format!("reactor.add: {why}"));
    let glob = Glob::compile(&event).map_err(|error| invalid(error.to_string()))?;
    let named = match reactors {
        Value::List(files) => files,
        file => vec![file],
    };
    let mut files = Vec::new();
    for file in named {
        let text = file
            .as_str()
            .ok_or_else(|| invalid("reactors takes paths".to_owned()))?;
        let file = ReactionFile::read(text);
        files.push(file.map_err(|why| invalid(format!("the file {text:?} {why}")))?);
    }
    let reaction = Reaction {
        tag: event,
        glob,
        files,
    };
    note_missing_files(run, &reaction).await?;
    if test {
        return Ok(true);
    }
    // It may open the store of events.
    let reactions = run.parts.reactions.clone();
    let adding = move || reactions.add(reaction);
    match run.parts.context.spawn_blocking(adding).await {
        Ok(Ok(())) => Ok(true),
        Ok(Err(why)) => Err(Failure::Execution(format!("reactor.add: {why}"))),
        Err(_) => Err(Failure::Execution("reactor.add failed".to_owned())),
    }
}

/// Removes the reactions to a tag, until the master reads its configuration again or restarts. Returns True.
///
/// event
///     The tag, as `reactor.list` shows it.
///
/// CLI Example:
///
///     saline-run reactor.delete 'myco/deploy/*'
#[function(changes)]
async fn delete(run: &Run, event: String, #[default(false)] test: bool) -> Result<bool, Failure> {
    run.check_sees_all("reactor.delete")?;
    let reactions = run.parts.reactions.clone();
    let list = reactions.list();
    let none = || {
        let known: Vec<&str> = list.iter().map(|reaction| reaction.tag.as_str()).collect();
        Failure::Execution(format!(
            "reactor.delete: there is no reaction to {event:?}; known are: {}",
            known.join(", ")
        ))
    };
    if test {
        return Ok(list.iter().any(|reaction| reaction.tag == event));
    }
    let tag = event.clone();
    let deleting = move || reactions.delete(&tag);
    match run.parts.context.spawn_blocking(deleting).await {
        Ok(true) => Ok(true),
        Ok(false) => Err(none()),
        Err(_) => Err(Failure::Execution("reactor.delete failed".to_owned())),
    }
}

/// Returns what the reactor would do about an event, and does nothing: for each file that reacts its orders, whether they
/// are allowed, and which minions a job would be for; or why the file orders nothing. Fails where an order would be refused or reach
/// nobody.
///
/// tag
///     The tag of the event, as it is on the master's bus: `salt/minion/web1/myco/x`.
///
/// data
///     The data of the event, a mapping. Of a minion's event these are its own: `id`, `tag` and `data` are added as for a
///     real one.
///
/// CLI Example:
///
///     saline-run reactor.test salt/minion/web1/myco/deployed '{version: 7}'
///     saline-run reactor.test salt/auth '{id: web9, act: pend, result: True}'
#[function]
async fn test(run: &Run, tag: String, #[default(None)] data: Value) -> Result<Returned, Failure> {
    run.check_sees_all("reactor.test")?;
    if let Err(error) = Event::topic(&tag) {
        return Err(Failure::Invocation(format!(
            "reactor.test: {tag:?} is not a tag of an event: {error}"
        )));
    }
    let shown_tag = tag.clone();
    let event = event_of(tag, data)?;
    let reactions = run.parts.reactions.clone();
    let planning = move || -> Vec<Plan> {
        let matched = reactions.matching(&event, None);
        let matched = matched.into_iter();
        matched
            .map(|matched| reactions.render(matched, &event))
            .collect()
    };
    let plans = run.parts.context.spawn_blocking(planning).await;
    let plans = plans.map_err(|_| Failure::Execution("reactor.test failed".to_owned()))?;
    if plans.is_empty() {
        run.note(format!(
            "no file reacts to an event with the tag {shown_tag:?}: `saline-run reactor.list` shows the tags and their files"
        ));
    }
    let (mut shown, mut is_whole) = (Vec::new(), true);
    for plan in plans {
        let file = ("file", Value::from(plan.file.as_str()));
        match plan.blocks {
            Ok(blocks) => {
                let principal = Principal::Reaction(plan.file.clone());
                let mut orders = Vec::new();
                for block in &blocks {
                    let order = order_of(run, &principal, block).await;
                    is_whole &= order.get("refused").is_none();
                    if matches!(order.get("minions"), Some(Value::List(minions)) if minions.is_empty())
                    {
                        is_whole = false;
                        run.note(format!(
                            "{}, block {:?}: {} would reach nobody, since no accepted minion matches: correct tgt, or accept the key \
                             of the minion",
                            plan.file,
                            block.name,
                            describe(&block.act)
                        ));
                    }
                    orders.push(order);
                }
                shown.push(Value::map([file, ("orders", Value::List(orders))]));
            }
            Err(why) => {
                is_whole = false;
                shown.push(Value::map([file, ("error", Value::from(why))]));
            }
        }
    }
    Ok(Returned {
        success: is_whole,
        ..Value::List(shown).into()
    })
}

/// Notes which files of a reaction cannot be read now.
async fn note_missing_files(run: &Run, reaction: &Reaction) -> Result<(), Failure> {
    let (reactions, reaction) = (run.parts.reactions.clone(), reaction.clone());
    let looking = move || reactions.missing_files(&reaction);
    let missing = run.parts.context.spawn_blocking(looking).await;
    for line in missing.map_err(|_| Failure::Execution("no file was looked for".to_owned()))? {
        run.note(line);
    }
    Ok(())
}

/// Returns the event with this tag and these data.
fn event_of(tag: String, data: Value) -> Result<Event, Failure> {
    let mut entries = match data {
        Value::Null => Vec::new(),
        Value::Map(entries) => entries,
        _ => {
            let why = "reactor.test: the data of an event are a mapping";
            return Err(Failure::Invocation(why.to_owned()));
        }
    };
    let origin = match EventTag::parse(&tag) {
        Some(EventTag::Minion(id, _)) => {
            entries.retain(|(name, _)| name != "id");
            entries.push(("id".to_owned(), Value::from(id.as_str())));
            EventOrigin::minion(&id)
        }
        _ => EventOrigin::master(),
    };
    Ok(Event {
        tag,
        origin,
        data: Value::Map(entries),
    })
}

/// Returns an order as it would be given.
async fn order_of(run: &Run, principal: &Principal, block: &Block) -> Value {
    let mut entries = vec![
        ("block", Value::from(block.name.as_str())),
        ("function", Value::from(block.function.as_str())),
        ("order", Value::from(describe(&block.act))),
    ];
    let authorizer = &run.parts.authorizer;
    let refused = match &block.act {
        Act::Job {
            target,
            fun,
            arguments,
        } => {
            entries.push(("arguments", arguments.to_salt()));
            let resolving = run.parts.targets.resolve(target.clone(), false).await;
            match resolving {
                Err(error) => Some(error.to_string()),
                Ok(resolved) => {
                    let minions: Vec<MinionId> = resolved.minions.into_ids();
                    let names = minions.iter().map(MinionId::as_str);
                    entries.push(("minions", Value::texts(names)));
                    let about = About::Function {
                        fun,
                        arguments: &arguments.pack(),
                        minions: Reached::by(target, &minions),
                        job: None,
                    };
                    let decided = authorizer.authorize(principal, Action::Publish, about);
                    let refused = decided.err().map(|refusal| refusal.line);
                    // As of an order: a file that may not call a function is not told whether it exists.
                    refused.or_else(|| run.parts.publish.unknown_function(fun, &minions))
                }
            }
        }
        Act::Run {
            kind,
            fun,
            arguments,
        } => {
            entries.push(("arguments", arguments.to_salt()));
            let about = About::Function {
                fun,
                arguments: &arguments.pack(),
                minions: Reached::NONE,
                job: None,
            };
            let decided = authorizer.authorize(principal, Action::of_run(*kind), about);
            let refused = decided.err().map(|refusal| refusal.line);
            refused.or_else(|| {
                let bound = run.functions.bind((*kind, fun), arguments.clone(), &[]);
                bound.err()
            })
        }
    };
    entries.extend(refused.map(|why| ("refused", Value::from(why))));
    Value::map(entries)
}
