use saline_functions_macros::{function, parameters};

struct Place;

/// Asks for more after a default.
#[function]
fn required_after_default(_: &Place, #[default(1)] one: i64, two: i64) {}

/// Has parameters after kwargs.
#[function]
fn after_kwargs(_: &Place, #[kwargs] all: Mapping, one: Option<i64>) {}

/// Has args twice.
#[function]
fn args_twice(_: &Place, #[args] one: Vec<i64>, #[args] two: Vec<i64>) {}

/// Has a parameter of two kinds.
#[function]
fn two_kinds(_: &Place, #[args] #[default(1)] one: Vec<i64>) {}

/// Has a default that is computed.
#[function]
fn computed_default(_: &Place, #[default(1 + 1)] one: i64) {}

/// Has a parameter without a name.
#[function]
fn without_name(_: &Place, (one, two): (i64, i64)) {}

/// Has another parameter beside shared ones.
#[function]
fn beside_shared(_: &Place, #[parameters] shared: Shared, two: i64) {}

#[parameters]
struct WithoutNames(i64);

#[parameters]
enum Choice {
    One,
}

#[parameters(all)]
struct WithOption {
    one: i64,
}

fn main() {}
