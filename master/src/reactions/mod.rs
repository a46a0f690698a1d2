//! Which files of the operator react to which events, and what they order. This half of the reactor has no side effects; `reactor` carries the orders out.
//!
//! | module | has |
//! |---|---|
//! | `event_view` | an event as the files see it |
//! | `files` | the files, and what they may include |
//! | `blocks` | what a rendered file orders |
//! | `figures` | what the reactor counts |

mod blocks;
mod event_view;
mod figures;
mod files;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use saline_config::{Reaction, ReactionFile};
use saline_data::Value;
use saline_messages::{Event, EventTag, RunKind};
use saline_protocol::transport::Context;
use saline_render::process::Renderers;
use saline_render::{Document, Files, Request};

use crate::events::{DurableEvents, TagFilter};
use crate::settings::{LiveSettings, ServedFiles};
use blocks::BlockError;
pub(crate) use blocks::{Act, Block};
pub(crate) use event_view::source_of;
pub(crate) use figures::ReactorFigures;
use files::{Found, ReactionFiles};

/// The most reactions, those of the configuration and those that were added.
const MAX_REACTIONS: usize = 2_000;

/// The numbers of states of files begin here: those that others give have the same renderers.
const FIRST_STATE: u64 = 1 << 63;

/// Knows which files react to which events, and renders them. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Reactions(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    list: RwLock<Arc<Vec<Reaction>>>,
    durable: Arc<DurableEvents>,
    settings: LiveSettings,
    renderers: Arc<Renderers>,
    context: Context,
    figures: Arc<ReactorFigures>,
    states: AtomicU64,
}

/// What a file orders for an event.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The path or the `salt://` URL of the file.
    pub(crate) file: String,
    /// Its orders, or why there are none.
    pub(crate) blocks: Result<Vec<Block>, String>,
}

/// A file that is to be rendered for an event.
#[derive(Debug)]
pub(crate) struct Matched {
    file: Result<Found, String>,
    /// The file, or the glob that names it, for people.
    name: String,
    /// The tag as the file sees it.
    pub(crate) tag: String,
}

impl Matched {
    /// Returns the file, or the glob that was to name one.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Why a reaction was not added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAdded {
    /// There is one for this tag.
    #[error("there is a reaction to {0:?} already: delete it first")]
    Known(String),
    /// There are too many.
    #[error("there are {MAX_REACTIONS} reactions, as many as may be")]
    TooMany,
}

impl Reactions {
    pub(crate) fn new(
        reactions: Vec<Reaction>,
        durable: Arc<DurableEvents>,
        settings: LiveSettings,
        renderers: Arc<Renderers>,
        context: &Context,
    ) -> Self {
        Self(Arc::new(Parts {
            list: RwLock::new(Arc::new(reactions)),
            durable,
            settings,
            renderers,
            context: context.clone(),
            figures: Arc::default(),
            states: AtomicU64::new(FIRST_STATE),
        }))
    }

    /// Returns what is counted.
    pub(crate) fn figures(&self) -> &Arc<ReactorFigures> {
        &self.0.figures
    }

    /// Returns the reactions that are in force.
    pub(crate) fn list(&self) -> Arc<Vec<Reaction>> {
        let list = self.0.list.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&list)
    }

    /// Takes others over. Blocks on the disk when events are to be kept for the first time.
    pub(crate) fn set(&self, reactions: Vec<Reaction>) {
        let filter = filter_of(&reactions);
        {
            let mut list = self.0.list.write().unwrap_or_else(PoisonError::into_inner);
            *list = Arc::new(reactions);
        }
        self.0.durable.set_reacted(filter);
        // The task looks whether there is something to do.
        self.0.durable.reacted_stored().notify_one();
    }

    /// Adds a reaction, until the configuration is read again. Blocks as [`set`](Self::set) does.
    ///
    /// # Errors
    /// See [`NotAdded`].
    pub(crate) fn add(&self, reaction: Reaction) -> Result<(), NotAdded> {
        let mut reactions = self.list().as_ref().clone();
        if reactions.iter().any(|known| known.tag == reaction.tag) {
            return Err(NotAdded::Known(reaction.tag));
        }
        if reactions.len() >= MAX_REACTIONS {
            return Err(NotAdded::TooMany);
        }
        reactions.push(reaction);
        self.set(reactions);
        Ok(())
    }

    /// Removes the reactions to a tag, until the configuration is read again. Returns false when there is none. Blocks as
    /// [`set`](Self::set) does.
    pub(crate) fn delete(&self, tag: &str) -> bool {
        let mut reactions = self.list().as_ref().clone();
        let before = reactions.len();
        reactions.retain(|reaction| reaction.tag != tag);
        let is_changed = reactions.len() < before;
        if is_changed {
            self.set(reactions);
        }
        is_changed
    }

    /// Returns the files that react to an event, in the order of the configuration, each once. Blocks on the disk.
    pub(crate) fn matching(&self, event: &Event) -> Vec<Matched> {
        let own = EventTag::chosen_by_minion(&event.tag);
        let mut matched: Vec<Matched> = Vec::new();
        for reaction in self.list().iter() {
            let tag = match (reaction.glob.matches(&event.tag), own) {
                (true, _) => event.tag.as_str(),
                (false, Some(own)) if reaction.glob.matches(own) => own,
                _ => continue,
            };
            for file in &reaction.files {
                for found in found(file) {
                    let name = found
                        .as_ref()
                        .map_or_else(|_| file.to_string(), ToString::to_string);
                    if matched.iter().all(|known| known.name != name) {
                        matched.push(Matched {
                            file: found,
                            name,
                            tag: tag.to_owned(),
                        });
                    }
                }
            }
        }
        matched
    }

    /// Renders a file for an event. Blocks: at most ten seconds, and as long as others take that render.
    pub(crate) fn render(&self, matched: Matched, event: &Event) -> Plan {
        let Matched { file, name, tag } = matched;
        let began = self.0.context.clock.now();
        let blocks = file.and_then(|file| self.blocks(&file, &tag, event));
        let took = self.0.context.clock.now().saturating_duration_since(began);
        self.0.figures.count_rendered(took);
        Plan { file: name, blocks }
    }

    fn blocks(&self, file: &Found, tag: &str, event: &Event) -> Result<Vec<Block>, String> {
        let (files, name) = ReactionFiles::open(file, self.0.settings.files())?;
        let variables = [
            ("tag", Value::from(tag)),
            ("data", event_view::data_of(event)),
        ];
        let request = Request {
            name: name.clone(),
            document: Document::Reactor,
            variables: Value::map(variables),
        };
        let state = self.0.states.fetch_add(1, Ordering::Relaxed);
        let rendered = self.0.renderers.render(&files, state, &request);
        let rendered = rendered.map_err(|error| match files.read(&name) {
            // The renderer knows it by another name.
            Ok(None) => format!("there is no file {file}"),
            _ => error.to_string(),
        })?;
        blocks::read(rendered).map_err(|BlockError { steps, why }| {
            let place = self.0.renderers.place_of(&files, state, &request, &steps);
            match place {
                Some(place) => format!("{place}: {why}"),
                None => format!("{file}: {why}"),
            }
        })
    }

    /// Returns a line for each file of a reaction that cannot be read now. Blocks on the disk.
    pub(crate) fn missing_files(&self, reaction: &Reaction) -> Vec<String> {
        missing_files(reaction, &self.0.settings.files())
    }

    /// Tells the log which files of all reactions cannot be read now. Blocks on the disk.
    pub(crate) fn warn_of_missing_files(&self) {
        for reaction in self.list().iter() {
            for line in self.missing_files(reaction) {
                tracing::warn!("{line}");
            }
        }
    }
}

/// Returns a line for each file of a reaction that cannot be read now: each is read again for every event. Blocks on the disk.
pub(crate) fn missing_files(reaction: &Reaction, served: &Arc<ServedFiles>) -> Vec<String> {
    let missing = |file: &ReactionFile| {
        let why = files::missing(file, served)?;
        let tag = &reaction.tag;
        Some(format!(
            "reactor: nothing reacts to {tag:?} by {file} before it can be read: {why}"
        ))
    };
    reaction.files.iter().filter_map(missing).collect()
}

/// Returns the files of an entry, or the error in the place of one.
fn found(file: &ReactionFile) -> Vec<Result<Found, String>> {
    match files::find(file) {
        Ok(found) => found.into_iter().map(Ok).collect(),
        Err(why) => vec![Err(why)],
    }
}

/// Returns the tags of reactions.
pub(crate) fn filter_of(reactions: &[Reaction]) -> TagFilter {
    TagFilter::of(
        reactions
            .iter()
            .map(|reaction| reaction.glob.clone())
            .collect(),
    )
}

/// Returns an order in one line.
pub(crate) fn describe(act: &Act) -> String {
    match act {
        Act::Job { target, fun, .. } => {
            format!("{fun} on {:?} ({})", target.masked(), target.kind.name())
        }
        Act::Run {
            kind: RunKind::Runner,
            fun,
            ..
        } => format!("{fun} on the master"),
        Act::Run { kind, fun, .. } => format!("{} on the master", kind.shown(fun)),
    }
}
