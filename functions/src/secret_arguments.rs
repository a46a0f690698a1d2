//! Which arguments of a call are secret because of the parameters that they are for.

use saline_data::Value;
use saline_messages::{ArgumentPlace, Arguments};

use crate::{Parameter, ParameterKind};

/// Takes the arguments of secret parameters out of a call, in the order of their places. Where a function has a secret
/// parameter, so are the arguments that no parameter takes: the name of a secret may be misspelt.
pub fn take_secrets(
    parameters: &[Parameter],
    arguments: &mut Arguments,
) -> Vec<(ArgumentPlace, Value)> {
    if !parameters.iter().any(|parameter| parameter.secret) {
        return Vec::new();
    }
    let is_single = |parameter: &&Parameter| {
        !matches!(parameter.kind, ParameterKind::Args | ParameterKind::Kwargs)
    };
    let by_position: Vec<&Parameter> = parameters.iter().take_while(is_single).collect();
    let args = parameters
        .iter()
        .find(|parameter| parameter.kind == ParameterKind::Args);
    let mut secret = Vec::new();
    let mut number = 0;
    arguments.positional.retain_mut(|value| {
        let place = number;
        number += 1;
        let taker = by_position.get(place as usize).copied().or(args);
        let is_plain = taker.is_some_and(|parameter| !parameter.secret);
        if !is_plain {
            secret.push((ArgumentPlace::Positional(place), std::mem::take(value)));
        }
        is_plain
    });
    arguments.named.retain_mut(|(name, value)| {
        let mut single = parameters.iter().filter(is_single);
        let taker = single.find(|parameter| parameter.name == *name);
        let is_plain = taker.is_some_and(|parameter| !parameter.secret);
        if !is_plain {
            let place = ArgumentPlace::Named(std::mem::take(name));
            secret.push((place, std::mem::take(value)));
        }
        is_plain
    });
    secret
}
