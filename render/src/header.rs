//! The first line of a file that says how it is rendered: `#!jinja|yaml`.

/// The renderers that a file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// Through the template engine, then as YAML.
    JinjaYaml,
    /// As YAML alone.
    Yaml,
}

/// Reads the header of a file, if it has one.
///
/// # Errors
/// When it names a renderer that is absent.
pub(crate) fn header(text: &str) -> Result<Header, String> {
    let first = text.lines().next().unwrap_or_default();
    // `#!/usr/bin/env …` is the path of a program, which names no renderer.
    let Some(pipe) = first
        .strip_prefix("#!")
        .filter(|pipe| !pipe.starts_with('/'))
    else {
        return Ok(Header::JinjaYaml);
    };
    let stages: Vec<&str> = pipe
        .split('|')
        .map(|stage| stage.split_whitespace().next().unwrap_or_default())
        .collect();
    match stages.as_slice() {
        // JSON is YAML. The names with an underscore are old ones.
        ["jinja", "yaml" | "json"] | ["jinja" | "yaml_jinja" | "json_jinja"] => {
            Ok(Header::JinjaYaml)
        }
        ["yaml" | "json"] => Ok(Header::Yaml),
        _ => {
            let known = ["jinja", "yaml", "json"];
            let absent = stages.iter().find(|stage| !known.contains(stage));
            Err(format!(
                "the renderer {:?} is absent: a file is rendered by `#!jinja|yaml`, as without that line, or by `#!yaml`",
                absent.unwrap_or(&pipe.trim())
            ))
        }
    }
}
