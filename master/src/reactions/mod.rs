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

use crate::events::{DurableEvents, EventCursor, TagFilter};
use crate::jobs::JobStore;
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
    in_force: RwLock<Arc<InForce>>,
    durable: Arc<DurableEvents>,
    jobs: Arc<JobStore>,
    settings: LiveSettings,
    renderers: Arc<Renderers>,
    context: Context,
    figures: Arc<ReactorFigures>,
    states: AtomicU64,
}

/// The reactions that are in force.
#[derive(Debug)]
struct InForce {
    list: Arc<Vec<Reaction>>,
    /// For each reaction, the place of each of its files: it does not react to what was stored before that.
    begins: Vec<Vec<EventCursor>>,
}

impl InForce {
    /// Has these reactions begin at the start of the stores.
    fn from_the_start(reactions: Vec<Reaction>) -> Self {
        let begins = reactions.iter();
        let begins = begins.map(|reaction| vec![EventCursor::default(); reaction.files.len()]);
        Self {
            begins: begins.collect(),
            list: Arc::new(reactions),
        }
    }

    /// Has these reactions follow: what was in force keeps its place, and what is new begins after `end`.
    fn followed_by(&self, reactions: Vec<Reaction>, end: EventCursor) -> Self {
        let begin = |tag: &str, file: &ReactionFile| {
            let known = self.list.iter().zip(&self.begins);
            let mut known = known.filter(|(known, _)| known.tag == tag);
            known.find_map(|(known, begins)| {
                let place = known.files.iter().position(|known| known == file)?;
                begins.get(place).copied()
            })
        };
        let begins = reactions.iter().map(|reaction| {
            let files = reaction.files.iter();
            files
                .map(|file| begin(&reaction.tag, file).unwrap_or(end))
                .collect()
        });
        Self {
            begins: begins.collect(),
            list: Arc::new(reactions),
        }
    }

    /// Returns the files that react to an event with this tag and number, and the tag as they see it. An event without a
    /// number is a new one.
    fn reacting<'a>(
        &'a self,
        tag: &'a str,
        number: Option<i64>,
    ) -> impl Iterator<Item = (&'a ReactionFile, &'a str)> {
        let own = EventTag::chosen_by_minion(tag);
        let reactions = self.list.iter().zip(&self.begins);
        reactions
            .filter_map(move |(reaction, begins)| {
                let seen = match own {
                    _ if reaction.glob.matches(tag) => tag,
                    Some(own) if reaction.glob.matches(own) => own,
                    _ => return None,
                };
                Some((reaction.files.iter().zip(begins), seen))
            })
            .flat_map(move |(files, seen)| {
                let reacting = files.filter(move |(_, begin)| {
                    number.is_none_or(|number| !begin.is_past(tag, number))
                });
                reacting.map(move |(file, _)| (file, seen))
            })
    }
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
        (durable, jobs): (Arc<DurableEvents>, Arc<JobStore>),
        settings: LiveSettings,
        renderers: Arc<Renderers>,
        context: &Context,
    ) -> Self {
        Self(Arc::new(Parts {
            in_force: RwLock::new(Arc::new(InForce::from_the_start(reactions))),
            durable,
            jobs,
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
        Arc::clone(&self.in_force().list)
    }

    fn in_force(&self) -> Arc<InForce> {
        let in_force = self.0.in_force.read();
        Arc::clone(&in_force.unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes others over. A file that did not react to a tag before does not react to what was stored before. Blocks on the
    /// disk when events are to be kept for the first time.
    pub(crate) fn set(&self, reactions: Vec<Reaction>) {
        let filter = filter_of(&reactions);
        {
            let in_force = self.0.in_force.write();
            let mut in_force = in_force.unwrap_or_else(PoisonError::into_inner);
            let end = EventCursor {
                event: self.0.durable.last_number(),
                receipt: self.0.jobs.last_receipt(),
            };
            *in_force = Arc::new(in_force.followed_by(reactions, end));
        }
        self.0.durable.set_reacted(filter);
        // The task reads on to the end of the stores, so that its place passes what nothing reacts to.
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

    /// Whether a file reacts to the stored event with this tag and number.
    pub(crate) fn reacts_to(&self, tag: &str, number: i64) -> bool {
        self.in_force().reacting(tag, Some(number)).next().is_some()
    }

    /// Returns the files that react to an event, in the order of the configuration, each once. The number is that of a stored
    /// event. Blocks on the disk.
    pub(crate) fn matching(&self, event: &Event, number: Option<i64>) -> Vec<Matched> {
        let mut matched: Vec<Matched> = Vec::new();
        let in_force = self.in_force();
        for (file, tag) in in_force.reacting(&event.tag, number) {
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

#[cfg(test)]
impl Reactions {
    /// Takes others over as a start of the master with them does.
    pub(crate) fn start_with(&self, reactions: Vec<Reaction>) {
        self.set(reactions.clone());
        let mut in_force = self.0.in_force.write().unwrap();
        *in_force = Arc::new(InForce::from_the_start(reactions));
    }
}
