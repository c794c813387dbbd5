//! Keys of a configuration file as options of the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgAction, CommandFactory};
use toml::{Table, Value};

use crate::options::Options;

/// Options that only the command line has: what a process does with its configuration.
const ONLY_COMMAND_LINE: [&str; 5] = ["config", "check", "takeover", "help", "version"];

/// What a file says, as arguments.
pub struct Arguments {
    /// All that the command line does not say itself.
    pub list: Vec<OsString>,
    /// By key.
    pub fixed: BTreeMap<String, Vec<OsString>>,
}

impl Arguments {
    /// Those of a file's keys. `matches` is the command line.
    ///
    /// # Errors
    /// A key that is no option's, or a value that is none of its.
    pub fn of(table: &Table, matches: &clap::ArgMatches) -> Result<Arguments, String> {
        let command = Options::command();
        let (mut list, mut fixed) = (Vec::new(), BTreeMap::new());
        for (key, value) in table {
            let option = command.get_arguments().find(|option| option.get_long() == Some(key));
            let option = option.filter(|_| !ONLY_COMMAND_LINE.contains(&&**key));
            let option = option.ok_or_else(|| unknown(key, &command))?;
            let values = values(value, option.get_action());
            let values = values.map_err(|form| format!("`{key}` is {form}"))?;
            let name = format!("--{key}");
            let its: Vec<OsString> = match option.get_action() {
                ArgAction::SetTrue => values.iter().map(|_| OsString::from(&name)).collect(),
                // As one argument: a value may begin with a hyphen.
                _ => values.iter().map(|value| format!("{name}={value}").into()).collect(),
            };
            let id = option.get_id().as_str();
            if matches.value_source(id) != Some(ValueSource::CommandLine) {
                list.extend(its.iter().cloned());
                // What says nothing is as if it were not there.
                if !its.is_empty() {
                    fixed.insert(key.clone(), its);
                }
            }
        }
        Ok(Arguments { list, fixed })
    }
}

/// The values of an option. A flag has one if it is set.
fn values(value: &Value, action: &ArgAction) -> Result<Vec<String>, &'static str> {
    match (action, value) {
        (ArgAction::SetTrue, Value::Boolean(is_set)) => {
            Ok(is_set.then(String::new).into_iter().collect())
        }
        (ArgAction::SetTrue, _) => Err("true or false"),
        (ArgAction::Append, Value::Array(all)) => {
            let texts = all.iter().map(|one| text(one).ok_or("a list of texts or numbers"));
            texts.collect()
        }
        (ArgAction::Append, Value::Table(all)) => {
            let pair = |(name, one): (&String, &Value)| {
                text(one).map(|one| format!("{name}={one}")).ok_or("a table of texts")
            };
            all.iter().map(pair).collect()
        }
        (ArgAction::Append, _) => Err("a list, or a table of names"),
        _ => text(value).map(|one| vec![one]).ok_or("a text or a number"),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

fn unknown(key: &str, command: &clap::Command) -> String {
    let keys = command.get_arguments().filter_map(|option| option.get_long());
    let mut keys: Vec<&str> =
        keys.filter(|key| !ONLY_COMMAND_LINE.contains(key)).chain(["quota"]).collect();
    keys.sort_unstable();
    format!("there is no key `{key}`; there are {}", keys.join(", "))
}

/// What is wrong with an option, without the advice for a command line.
pub fn explain(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.trim_start_matches("error: ").trim_end().replace('\n', " ")
}
