//! What a request asks for: Salt's lowstate, one chunk for each call.

mod body;
mod call_arguments;
mod chunk;
#[cfg(test)]
mod tests;

pub(crate) use body::{check_calls, chunks, form, map, parsed};
pub(crate) use call_arguments::call_arguments;
pub(crate) use chunk::Chunk;
