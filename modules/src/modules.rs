//! The registry of the functions of a minion, and the call of one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use saline_data::Value;
use saline_functions::{Failure, Function, Parameter, Registry, RunsIn, hide_panic, take_secrets};
use saline_messages::{ArgumentPlace, Arguments, calls, is_compound};

use crate::executables::Executables;
use crate::functions::{BUILT_IN, preparation};
use crate::hidden_values::HiddenValues;
use crate::job::JobControl;
use crate::module::Module;
use crate::{Host, JobContext, Outcome, Prepared, ended_before_start};

/// The modules of a minion.
#[derive(Debug, Default)]
pub struct Modules {
    pub(crate) registry: Registry<JobContext<'static>>,
    /// The modules that were left out, each with what the machine lacks.
    pub(crate) absent: BTreeMap<String, String>,
    pub(crate) executables: Executables,
    is_of_this_machine: bool,
}

/// The modules of a running minion, which may change with what the machine has.
#[derive(Debug)]
pub struct LiveModules(Mutex<Arc<Modules>>);

impl LiveModules {
    /// Begins with these modules.
    pub fn new(modules: Modules) -> Self {
        Self(Mutex::new(Arc::new(modules)))
    }

    /// Returns the modules as they are now.
    pub fn now(&self) -> Arc<Modules> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks again which modules work on this machine, and which executables there are. Jobs that run keep what they have.
    pub fn refresh(&self) {
        if let Some(modules) = self.now().looked_up_again() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(modules);
        }
    }
}

impl Modules {
    /// Creates the set of all modules, whatever the machine lacks.
    pub fn built_in() -> Self {
        let none = Self::default();
        BUILT_IN.iter().fold(none, |modules, module| {
            modules.with(module.name, module.functions)
        })
    }

    /// Creates the set of the modules that work on this machine.
    pub fn of_this_machine() -> Self {
        Self::working(BUILT_IN.iter())
    }

    /// Creates the set of those of these modules that work on this machine.
    fn working(all: impl Iterator<Item = &'static Module>) -> Self {
        let none = Self {
            is_of_this_machine: true,
            ..Self::default()
        };
        all.fold(none, |mut modules, module| match (module.lacks)() {
            None => modules.with(module.name, module.functions),
            Some(lacks) => {
                modules.absent.insert(module.name.to_owned(), lacks);
                modules
            }
        })
    }

    /// Creates the set that a process needs which runs the call of `fun` and no other: the modules of its functions. Some functions look
    /// at all modules, and so does the error of an unknown function: with them it is the set of all that work on this machine.
    pub(crate) fn for_call(fun: &str) -> Self {
        const LOOK_AT_ALL: [&str; 2] = ["sys", "test"];
        let mut needed = Vec::new();
        for fun in fun.split(',') {
            let found = fun.split_once('.').and_then(|(module, name)| {
                let module = BUILT_IN.iter().find(|known| known.name == module)?;
                let has_it = module.functions.iter().any(|known| known.name == name);
                (has_it && !LOOK_AT_ALL.contains(&module.name)).then_some(module)
            });
            let Some(module) = found else {
                return Self::of_this_machine();
            };
            if !needed.contains(&module.name) {
                needed.push(module.name);
            }
        }
        Self::working(
            BUILT_IN
                .iter()
                .filter(|module| needed.contains(&module.name)),
        )
    }

    /// Returns the set of the modules that work on this machine now, with the same executables; the same set if it was not made
    /// for this machine.
    fn looked_up_again(&self) -> Option<Self> {
        self.is_of_this_machine.then(|| Self {
            executables: self.executables.again(),
            ..Self::of_this_machine()
        })
    }

    /// Adds a module; its functions replace those of the same name.
    #[must_use]
    pub fn with(mut self, module: &str, functions: &[&Function<JobContext<'static>>]) -> Self {
        self.registry = self.registry.with(module, functions.iter().copied());
        self
    }

    /// Returns the modules that were left out, each with what the machine lacks.
    pub fn absent(&self) -> impl Iterator<Item = (&str, &str)> {
        let absent = self.absent.iter();
        absent.map(|(name, lacks)| (name.as_str(), lacks.as_str()))
    }

    /// Returns the full names of the functions, in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        self.registry
            .iter()
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// Whether no function blocks, so that a job needs no thread: it is run where the minion serves its master.
    pub fn return_at_once(&self) -> bool {
        self.registry.iter().all(|(_, function)| !function.blocks)
    }

    /// Whether `fun` waits until other jobs leave it a thread.
    pub fn blocks(&self, fun: &str) -> bool {
        self.registry
            .get(fun)
            .is_none_or(|function| function.blocks)
    }

    /// Whether the call of `fun`, which may be of several functions, runs in a process of its own: one of them wants that, and
    /// none needs the process of the minion.
    pub fn wants_own_process(&self, fun: &str) -> bool {
        let places: Vec<RunsIn> = fun.split(',').map(|fun| self.runs_in(fun)).collect();
        places.contains(&RunsIn::OwnProcess) && !places.contains(&RunsIn::MinionsProcess)
    }

    fn runs_in(&self, fun: &str) -> RunsIn {
        match (self.registry.get(fun), fun.split_once('.')) {
            (Some(function), _) => function.runs_in,
            // Executables run commands.
            (None, Some((module, _)))
                if !self.is_built_in(module) && self.executables.path(module).is_some() =>
            {
                RunsIn::OwnProcess
            }
            (None, _) => RunsIn::AnyProcess,
        }
    }

    /// Takes the arguments of secret parameters out of a call; of an unknown function it has none.
    pub fn take_secrets(
        &self,
        fun: &str,
        arguments: &mut Arguments,
    ) -> Vec<(ArgumentPlace, Value)> {
        let parameters: &[Parameter] = self
            .registry
            .get(fun)
            .map_or(&[], |found| &found.parameters);
        take_secrets(parameters, arguments)
    }

    /// Takes the executables in these folders for modules, beside those that are there. They never replace one.
    #[must_use]
    pub fn with_executables(mut self, folders: Vec<PathBuf>) -> Self {
        self.executables = Executables::in_folders(folders);
        self
    }

    /// Returns all functions, with those of executables, which are asked for them.
    pub fn registry(&self, job: &JobContext<'_>) -> Cow<'_, Registry<JobContext<'static>>> {
        match self.executables.are_wanted() {
            false => Cow::Borrowed(&self.registry),
            true => Cow::Owned(self.executables.beside(
                &self.registry,
                |module| self.is_built_in(module),
                job,
            )),
        }
    }

    /// Returns the versions of the operator's own modules that have described one. Blocks on the disk.
    pub(crate) fn versions_of_own(&self) -> BTreeMap<String, String> {
        let mut versions = self.executables.versions();
        versions.retain(|module, _| !self.is_built_in(module));
        versions
    }

    /// Whether the name of a module belongs to none of the executables.
    pub(crate) fn is_built_in(&self, module: &str) -> bool {
        let mut names = self
            .registry
            .iter()
            .filter_map(|(fun, _)| fun.split_once('.'));
        self.absent.contains_key(module) || names.any(|(name, _)| name == module)
    }

    /// Returns the function of a call; as an outcome, why there is none.
    pub(crate) fn find(
        &self,
        context: &JobContext<'_>,
    ) -> Result<Cow<'_, Function<JobContext<'static>>>, Outcome> {
        let fun = context.function;
        if let Some(function) = self.registry.get(fun) {
            return Ok(Cow::Borrowed(function));
        }
        let (module, _) = fun.split_once('.').unwrap_or((fun, ""));
        if !self.is_built_in(module) {
            let found = self.executables.get(fun, context);
            let found = found.map_err(|failure| Outcome::of_failure(&failure, fun, ""))?;
            if let Some(function) = found {
                return Ok(Cow::Owned(function));
            }
        }
        Err(self.not_available(fun))
    }

    /// Returns the outcome of a call of a function that neither the minion nor an executable has. Blocks on the disk.
    pub(crate) fn not_available(&self, fun: &str) -> Outcome {
        let (module, _) = fun.split_once('.').unwrap_or((fun, ""));
        if let Some(lacks) = self.absent.get(module) {
            return Outcome::lacking(fun, lacks);
        }
        if !self.is_built_in(module)
            && let Some(path) = self.executables.misnamed(module)
        {
            return Outcome::misnamed(fun, &path);
        }
        let own = self.described_functions();
        let own = own.iter().map(String::as_str);
        let mut known: Vec<&str> = self
            .registry
            .iter()
            .map(|(name, _)| name)
            .chain(own)
            .collect();
        known.sort_unstable();
        Outcome::not_available(fun, &known)
    }

    /// Returns the functions that the executables have described. Blocks on the disk.
    fn described_functions(&self) -> Vec<String> {
        let own = self.executables.known().into_iter();
        let own = own.filter(|(module, _)| !self.is_built_in(module));
        own.flat_map(|(module, functions)| {
            let functions = functions.unwrap_or_default().into_iter();
            functions.map(move |name| format!("{module}.{name}"))
        })
        .collect()
    }

    /// Gets what the functions of a call need of the minion, before they run in a process of their own. What cannot be got is
    /// the failure of its function there.
    ///
    /// # Errors
    /// When the job is ended or the minion stops meanwhile.
    pub fn prepare(
        &self,
        fun: &str,
        arguments: &Arguments,
        hidden: &[ArgumentPlace],
        host: &Host,
        job: &JobControl,
    ) -> Result<Prepared, Failure> {
        let mut prepared = Prepared::default();
        if !fun.split(',').any(|fun| preparation(fun).is_some()) {
            return Ok(prepared);
        }
        let each = match is_compound(fun) {
            // Malformed ones are refused when they are called.
            true => calls(fun, arguments.clone()).unwrap_or_default(),
            false => vec![(fun.to_owned(), arguments.clone())],
        };
        for (fun, arguments) in each {
            let (Some(prepare), Some(function)) = (preparation(&fun), self.registry.get(&fun))
            else {
                continue;
            };
            // Arguments that do not fit are refused when the function is called.
            let Ok(bound) = function.bind_hiding(arguments, hidden) else {
                continue;
            };
            let context = JobContext {
                host,
                job,
                function: &fun,
                modules: self,
            };
            prepare(&context, bound, &mut prepared)?;
        }
        Ok(prepared)
    }

    /// Runs `fun` for `job` to its end on this thread. Never panics: the panic of a function becomes
    /// its return.
    pub fn call(&self, fun: &str, arguments: Arguments, host: &Host, job: &JobControl) -> Outcome {
        self.call_hiding(fun, arguments, &[], host, job)
    }

    /// Runs a function as [`call`](Self::call) does. No failure shows the values of the arguments in `hidden`,
    /// and the text of a panic is left out if there are any: the code may have put a value into it.
    pub fn call_hiding(
        &self,
        fun: &str,
        arguments: Arguments,
        hidden: &[ArgumentPlace],
        host: &Host,
        job: &JobControl,
    ) -> Outcome {
        if is_compound(fun) {
            return self.call_each(fun, arguments, host, job);
        }
        let context = JobContext {
            host,
            job,
            function: fun,
            modules: self,
        };
        let function = match self.find(&context) {
            Ok(function) => function,
            Err(outcome) => return outcome,
        };
        let values = HiddenValues::of(&arguments, hidden);
        let run = || (function.code)(&context, function.bind_hiding(arguments, hidden)?);
        let run = || match hidden {
            [] => run(),
            _ => hide_panic(run),
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(outcome)) => judged(outcome),
            Ok(Err(failure)) => {
                let documentation = function.indented_documentation();
                values.hide_in(Outcome::of_failure(&failure, fun, &documentation))
            }
            Err(panic) => {
                let text = match hidden {
                    [] => panic_text(panic.as_ref()),
                    _ => "it panicked; the text is left out, since the call has secret arguments"
                        .to_owned(),
                };
                tracing::error!("{fun} panicked: {text}");
                Outcome::of_failure(&Failure::Exception(text), fun, "")
            }
        }
    }
}

impl Modules {
    /// Runs the functions of a job of several one after the other. The return is a mapping of their names to their returns,
    /// and the retcode is that of the first that failed. A function that is named twice has the return of its last run, as
    /// in Salt.
    fn call_each(&self, fun: &str, arguments: Arguments, host: &Host, job: &JobControl) -> Outcome {
        let calls = match calls(fun, arguments) {
            Ok(calls) => calls,
            Err(error) => {
                return Outcome::of_failure(&Failure::Invocation(error.to_string()), fun, "");
            }
        };
        let mut retcode = 0;
        let mut returns: Vec<(String, Value)> = Vec::new();
        for (fun, arguments) in calls {
            let outcome = match job.ending() {
                Some(ending) => Outcome::of_failure(&ended_before_start(&ending), &fun, ""),
                None => self.call_hiding(&fun, arguments, &[], host, job),
            };
            if retcode == 0 {
                retcode = outcome.retcode;
            }
            match returns.iter_mut().find(|(name, _)| *name == fun) {
                Some((_, value)) => *value = outcome.value,
                None => returns.push((fun, outcome.value)),
            }
        }
        Outcome {
            value: Value::Map(returns),
            retcode,
        }
    }
}

/// As in Salt, a mapping that says `result: False` or `success: False` is a failure.
fn judged(mut outcome: Outcome) -> Outcome {
    let says_no = |key| outcome.value.get(key).and_then(Value::as_bool) == Some(false);
    if outcome.retcode == 0 && (says_no("result") || says_no("success")) {
        outcome.retcode = 1;
    }
    outcome
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".to_owned())
}
