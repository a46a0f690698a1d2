//! The attributes that make a Rust function a function of Saline. The crate `saline-functions` describes them, and
//! its paths are what they expand to.

mod documentation;
mod function;
mod parameter;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemFn, parse_macro_input};

/// Makes a Rust function a function of Saline: writes a static `saline_functions::Function` beside it, whose name is
/// that of the function in capitals.
///
/// Its documentation comment is what `sys.doc` prints. Options stand in parentheses, with commas between them:
///
/// | option | declares that the function |
/// |---|---|
/// | `nonblocking` | never waits |
/// | `changes` | changes something that lasts; it has a parameter `test: bool` then |
/// | `acts_once` | must not be run twice for the same request |
/// | `own_process` | runs in a process of its own, which outlives the minion; one that `changes` something does so without this |
/// | `in_minion` | uses more of the minion than its grains and its configuration: it runs in the minion's process, even if it `changes` something |
/// | `seconds = 60` | may take so long if its caller does not say |
#[proc_macro_attribute]
pub fn function(options: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    function::expand(options.into(), function)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes the fields of a struct parameters that several functions share: each has one parameter with the attribute
/// `#[parameters]`, of this struct.
#[proc_macro_attribute]
pub fn parameters(options: TokenStream, item: TokenStream) -> TokenStream {
    let fields = parse_macro_input!(item as DeriveInput);
    parameter::expand(&options.into(), fields)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
