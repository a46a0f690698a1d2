//! Panics of functions that have secret arguments: their texts may have the values in them.
//!
//! Rust reports a panic before anybody can catch it, by the one hook of the process. So this hook is the state that all
//! threads share; which text it leaves out is a matter of the thread that panics.

use std::cell::Cell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether this thread runs something whose panics are reported without their texts.
    static HIDES: Cell<bool> = const { Cell::new(false) };
}

static INSTALLED: Once = Once::new();

/// Runs `act` on this thread. A panic of it is reported with its place and without its text; it goes on to the caller.
pub fn hide_panic<R>(act: impl FnOnce() -> R) -> R {
    INSTALLED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| match HIDES.get() {
            true => report(panic),
            false => before(panic),
        }));
    });
    let _hidden = Hidden(HIDES.replace(true));
    act()
}

/// What the thread did before, which it does again also after a panic.
struct Hidden(bool);

impl Drop for Hidden {
    fn drop(&mut self) {
        HIDES.set(self.0);
    }
}

fn report(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    eprintln!(
        "a function with secret arguments panicked at {}; the text is left out",
        place.unwrap_or_default()
    );
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn the_text_reaches_the_caller_and_no_hook() {
        let reported: Arc<Mutex<Vec<String>>> = Arc::default();
        let (before, own) = (take_hook(), Arc::clone(&reported));
        set_hook(Box::new(move |panic| {
            own.lock().unwrap().push(panic.to_string());
            before(panic);
        }));
        let hidden = catch_unwind(|| hide_panic(|| panic!("p4ss"))).unwrap_err();
        assert_eq!(hidden.downcast_ref::<&str>(), Some(&"p4ss"));
        assert!(catch_unwind(|| panic!("not a secret")).is_err());
        let reported = reported.lock().unwrap();
        let has = |text: &str| reported.iter().any(|line| line.contains(text));
        assert!(!has("p4ss") && has("not a secret"), "{reported:?}");
    }
}
