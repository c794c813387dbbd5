//! Parses arguments of the forms `--name value` and `--name=value`.

use std::collections::HashMap;

/// The arguments by name. Only the names in `known` are allowed.
///
/// # Errors
/// If an argument is not understood; the text is for users.
pub fn parse(
    arguments: impl IntoIterator<Item = String>,
    known: &[&str],
) -> Result<HashMap<String, String>, String> {
    let mut found = HashMap::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let text = argument.strip_prefix("--").ok_or_else(|| format!("what is `{argument}`?"))?;
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let name = name.replace('_', "-");
        if !known.contains(&name.as_str()) {
            return Err(format!("there is no --{name}; there are --{}", known.join(", --")));
        }
        let value = value.or_else(|| arguments.next());
        found.insert(name.clone(), value.ok_or_else(|| format!("--{name} needs a value"))?);
    }
    Ok(found)
}
