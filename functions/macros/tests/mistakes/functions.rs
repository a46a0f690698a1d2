use saline_functions_macros::function;

struct Place;

#[function]
fn without_documentation(_: &Place) {}

/// Has no context.
#[function]
fn without_context() {}

/// Has a context that is no reference.
#[function]
fn owned_context(_: Place) {}

/// Is generic.
#[function]
fn generic<T>(_: &Place, value: T) {}

/// Has an unknown option.
#[function(blocking)]
fn unknown_option(_: &Place) {}

/// Does not say what it would change.
#[function(changes)]
fn changes_untested(_: &Place, path: String) {}

/// Has `test`, and changes nothing.
#[function]
fn tests_nothing(_: &Place, #[default(false)] test: bool) {}

/// Runs in two processes.
#[function(own_process, in_minion)]
fn in_two_processes(_: &Place) {}

fn main() {}
