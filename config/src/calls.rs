//! The words of a command line for several functions (Salt's compound execution):
//!
//! ```text
//! saline '*' cmd.run,test.ping,test.echo 'df /' , , hello
//! saline '*' cmd.run,test.ping,test.echo 'df /',,hello
//! ```

use saline_messages::{Arguments, is_compound};

use crate::parse_call;

/// Returns the calls of a job, with the words that belong to each function. Those of one function are all its own. Words for
/// several are divided by separators: these stand alone when there are as many alone as are needed, and may stand inside
/// of words otherwise.
///
/// # Errors
/// When a name is missing, or the words are not divided among all functions.
pub fn parse_calls(
    functions: &str,
    words: &[String],
    separator: &str,
) -> Result<Vec<(String, Arguments)>, String> {
    if !is_compound(functions) {
        return Ok(vec![(functions.to_owned(), parse_call(functions, words))]);
    }
    let names: Vec<&str> = functions.split(',').collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(format!(
            "a name is missing in the list of functions '{functions}'"
        ));
    }
    if words.is_empty() {
        let call = |name: &str| (name.to_owned(), Arguments::default());
        return Ok(names.into_iter().map(call).collect());
    }
    let alone = words.iter().filter(|word| *word == separator).count();
    let divided = match alone == names.len() - 1 {
        true => words
            .split(|word| word == separator)
            .map(<[String]>::to_vec)
            .collect(),
        false => divide(words, separator),
    };
    if divided.len() != names.len() {
        return Err(format!(
            "{} functions need {} '{separator}' between their arguments, and there are {}",
            names.len(),
            names.len() - 1,
            divided.len() - 1
        ));
    }
    let calls = names.into_iter().zip(divided);
    let calls = calls.map(|(name, words)| (name.to_owned(), parse_call(name, &words)));
    Ok(calls.collect())
}

/// Divides words at separators inside of them, too.
fn divide(words: &[String], separator: &str) -> Vec<Vec<String>> {
    let mut divided = vec![Vec::new()];
    for word in words {
        for (at, part) in word.split(separator).enumerate() {
            if at > 0 {
                divided.push(Vec::new());
            }
            if let Some(last) = divided.last_mut().filter(|_| !part.is_empty()) {
                last.push(part.to_owned());
            }
        }
    }
    divided
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(functions: &str, words: &[&str], separator: &str) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match parse_calls(functions, &words, separator) {
            Err(message) => message,
            Ok(calls) => {
                let shown = calls.iter().map(|(name, arguments)| {
                    let list = saline_data::json::line(&arguments.to_salt());
                    format!("{name}{}", String::from_utf8(list).unwrap())
                });
                shown.collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn words_are_divided_as_in_salt() {
        let three = "cmd.run,test.ping,test.echo";
        let expected = r#"cmd.run["df /"] test.ping[] test.echo["hello"]"#;
        assert_eq!(told(three, &["df /", ",", ",", "hello"], ","), expected);
        assert_eq!(told(three, &["df /,,hello"], ","), expected);
        assert_eq!(told(three, &["df /,", ",hello"], ","), expected);
        assert_eq!(told(three, &["df /", "::", "::", "hello"], "::"), expected);
        assert_eq!(
            told("test.echo,cmd.run", &["a,b", ",", "yes", "runas=anna"], ","),
            r#"test.echo["a,b"] cmd.run["yes", {"__kwarg__": true, "runas": "anna"}]"#
        );
        assert_eq!(told("test.echo", &["a,b"], ","), r#"test.echo["a,b"]"#);
        assert_eq!(
            told("cmd.which_bin", &["[a, b]"], ","),
            r#"cmd.which_bin[["a", "b"]]"#
        );
    }

    #[test]
    fn what_is_not_divided_among_all_is_refused() {
        assert_eq!(
            told("test.ping,test.echo,test.arg", &["a,b"], ","),
            "3 functions need 2 ',' between their arguments, and there are 1"
        );
        assert_eq!(
            told("test.ping,", &[], ","),
            "a name is missing in the list of functions 'test.ping,'"
        );
    }

    #[test]
    fn functions_without_arguments_need_no_separators() {
        assert_eq!(
            told("test.ping,test.version", &[], ","),
            "test.ping[] test.version[]"
        );
    }
}
