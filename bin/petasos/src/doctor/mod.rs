//! `petasos doctor`: checks what this host supports, and explains what is missing.
//!
//! Everything is tried as the backends would do it, except what could interrupt others' traffic.
//! Nothing is changed, and nothing stays behind.

mod host;
mod optional;
mod packets;

use clap::Args;
use petasos_report::{Column, Machine, Table};
use serde_json::{Value, json};

use petasos_cli::failure::Failure;
use petasos_cli::output;

/// The arguments of `petasos doctor`.
#[derive(Args)]
pub struct DoctorArgs {
    /// Print the findings as one JSON object.
    #[arg(long)]
    json: bool,
    /// Fail if this is missing: a name from the first column. May be given several times.
    #[arg(long, value_name = "NAME")]
    require: Vec<String>,
}

/// The level of support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Yes,
    /// It works, but could work better.
    Limited,
    No,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Yes => "yes",
            State::Limited => "limited",
            State::No => "no",
        }
    }
}

/// One row of the findings.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facility {
    name: String,
    state: State,
    /// What was found, or what is missing.
    found: String,
    /// What to do about it; empty if nothing needs to be done.
    advice: String,
}

impl Facility {
    fn new(name: &str, state: State, found: impl ToString, advice: &str) -> Facility {
        let advice = if state == State::Yes { "" } else { advice };
        let (name, found, advice) = (name.to_owned(), found.to_string(), advice.to_owned());
        Facility { name, state, found, advice }
    }

    fn yes(name: &str, found: impl ToString) -> Facility {
        Facility::new(name, State::Yes, found, "")
    }

    fn no(name: &str, found: impl ToString, advice: &str) -> Facility {
        Facility::new(name, State::No, found, advice)
    }
}

/// Prints the findings.
///
/// # Errors
/// If a required facility is missing or unknown.
pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let mut findings = packets::findings();
    findings.extend(host::findings());
    if args.json {
        output::answer(format!("{:#}", to_json(&findings)).as_bytes())?;
    } else {
        output::answer(Machine::read().to_string().as_bytes())?;
        output::finished(table(&findings).print())?;
    }
    args.require.iter().try_for_each(|name| check(&findings, name))
}

fn to_json(findings: &[Facility]) -> Value {
    let each = |facility: &Facility| {
        json!({
            "name": facility.name,
            "state": facility.state.word(),
            "found": facility.found,
            "advice": facility.advice,
        })
    };
    let facilities: Vec<_> = findings.iter().map(each).collect();
    json!({ "machine": Machine::read(), "facilities": facilities })
}

fn table(findings: &[Facility]) -> Table {
    let columns = ["Facility", "State", "What was found, and what to do"];
    let mut table = Table::new(columns.map(Column::text));
    for Facility { name, state, found, advice } in findings {
        let text = match advice.as_str() {
            "" => found.clone(),
            advice => format!("{found}; {advice}"),
        };
        table.push([name.clone(), state.word().to_owned(), text]);
    }
    table
}

/// Checks whether the facility `name` is available.
fn check(findings: &[Facility], name: &str) -> Result<(), Failure> {
    match findings.iter().find(|facility| facility.name == name) {
        Some(Facility { state: State::Yes | State::Limited, .. }) => Ok(()),
        Some(Facility { found, advice, .. }) => {
            let advice = if advice.is_empty() { "nothing can be done about it" } else { advice };
            Err(Failure::with_advice(format_args!("{name} is missing: {found}"), advice))
        }
        None => Err(Failure::with_advice(
            format_args!("`{name}` is no facility"),
            "`petasos doctor` without --require lists them",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_must_be_there() {
        let findings = [
            Facility::yes("sun", "shines"),
            Facility::new("rain", State::Limited, "drips", "wait"),
            Facility::no("snow", "it is June", "come back in winter"),
        ];
        assert_eq!(check(&findings, "sun"), Ok(()));
        assert_eq!(check(&findings, "rain"), Ok(()));
        let missing = check(&findings, "snow").unwrap_err().to_string();
        assert_eq!(missing, "snow is missing: it is June; come back in winter");
        assert!(check(&findings, "hail").unwrap_err().to_string().contains("no facility"));
    }
}
