//! What policies report, for operators: with names instead of numbers, and value by value for
//! Prometheus.
//!
//! Reports of plug-ins may be anything, so nothing is assumed of them, and what is taken out of
//! them is bounded.

use std::sync::Arc;

use petasos_engine::Policy;
use petasos_service::{Host, PolicyNames};
use serde_json::Value;

use crate::control::{Known, World};

/// As many values of a policy are shown.
const VALUES_MAX: usize = 64;
/// The longest name of a value, and of what it is about.
const NAME_BYTES_MAX: usize = 256;

/// The values that a policy reports.
pub struct PolicyValues {
    /// Its rule's number; 0 if it was placed without one.
    pub rule: u64,
    /// The application of the rule.
    pub application: Arc<str>,
    pub kind: String,
    pub values: Vec<Reported>,
    /// How many are not shown.
    pub left_out: usize,
}

/// A value of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// The names of the fields that lead to it, with dots between them.
    pub name: String,
    /// What it is about, of a list: a rule, or what calls of one limit have in common.
    pub of: Option<String>,
    pub value: f64,
}

impl PolicyValues {
    fn new(rule: u64, application: Arc<str>, kind: String) -> PolicyValues {
        PolicyValues { rule, application, kind, values: Vec::new(), left_out: 0 }
    }

    /// Values of the same name are added up.
    fn add(&mut self, values: Vec<Reported>) {
        for value in values {
            let is_it = |known: &Reported| known.name == value.name && known.of == value.of;
            match self.values.iter().position(is_it) {
                Some(at) => self.values[at].value += value.value,
                None if self.values.len() < VALUES_MAX => self.values.push(value),
                None => self.left_out += 1,
            }
        }
    }
}

/// All policies, to be asked by another thread than the loop's.
pub struct Reporters {
    policies: Vec<Reporter>,
    host: Arc<Host>,
}

struct Reporter {
    rule: u64,
    application: Arc<str>,
    kind: String,
    policy: Arc<dyn Policy>,
}

impl Reporters {
    /// Those that are in use, in the order of their rules.
    pub fn of(world: &World<'_>) -> Reporters {
        let rules = world.control.policies().rules();
        let reporter = |known: &Known| {
            let rule = rules.iter().find(|rule| Some(rule.id) == known.rule);
            Reporter {
                rule: rule.map_or(0, |rule| rule.id),
                application: rule.map_or("".into(), |rule| rule.application.clone()),
                kind: known.made.kind_name().to_owned(),
                policy: known.made.policy.clone(),
            }
        };
        let mut policies: Vec<_> = world.policies_in_use().into_iter().map(reporter).collect();
        policies.sort_by(|one, other| (one.rule, &one.kind).cmp(&(other.rule, &other.kind)));
        Reporters { policies, host: world.first.common.host.clone() }
    }

    /// What they report. Several policies of a rule, of which some applications have one that was
    /// configured for them alone, count as one.
    pub fn values(self) -> Vec<PolicyValues> {
        let names = self.host.policy_names();
        let mut all: Vec<PolicyValues> = Vec::new();
        for Reporter { rule, application, kind, policy } in self.policies {
            let mut report = policy.report();
            name_numbers(&mut report, &names);
            let values = values(&report);
            match all.last_mut().filter(|last| last.rule == rule && last.kind == kind) {
                Some(last) => last.add(values),
                None => {
                    let mut one = PolicyValues::new(rule, application, kind);
                    one.add(values);
                    all.push(one);
                }
            }
        }
        all
    }
}

/// Puts names in the place of numbers of applications and peers.
pub fn name_numbers(report: &mut Value, names: &PolicyNames) {
    match report {
        Value::Object(fields) => {
            for (field, value) in fields {
                match (field.as_str(), &*value) {
                    ("application" | "peer", Value::Number(number)) => {
                        let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
                        if let Some(name) = number.and_then(|number| name(field, number, names)) {
                            *value = name.into();
                        }
                    }
                    ("key", Value::String(key)) => *value = named_key(key, names).into(),
                    ("not_closed", Value::Array(keys)) => {
                        let named = |key: &Value| match key {
                            Value::String(key) => named_key(key, names).into(),
                            other => other.clone(),
                        };
                        *value = keys.iter().map(named).collect();
                    }
                    _ => name_numbers(value, names),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| name_numbers(value, names)),
        _ => {}
    }
}

fn name<'a>(what: &str, number: u32, names: &'a PolicyNames) -> Option<&'a str> {
    match what {
        "application" => names.application(number),
        "peer" => names.peer(number),
        _ => None,
    }
}

/// A key such as `application 1, peer 3`, with names.
fn named_key(key: &str, names: &PolicyNames) -> String {
    let named = key.split(", ").map(|part| {
        let (what, number) = part.split_once(' ')?;
        let name = name(what, number.parse().ok()?, names)?;
        Some(format!("{what} {name}"))
    });
    let parts = key.split(", ").zip(named);
    let parts = parts.map(|(part, named)| named.unwrap_or_else(|| part.to_owned()));
    parts.collect::<Vec<_>>().join(", ")
}

/// The numbers in a report. Of a list of texts, it is how many there are.
fn values(report: &Value) -> Vec<Reported> {
    let mut found = Vec::new();
    let Value::Object(fields) = report else { return found };
    for (field, value) in fields {
        match value {
            Value::Object(inner) => numbers(field, None, inner, &mut found),
            Value::Array(list) if list.iter().all(Value::is_string) => {
                found.extend(reported(field, None, list.len() as f64));
            }
            Value::Array(list) => {
                for inner in list.iter().filter_map(Value::as_object) {
                    // Spans, for example, are about nothing but themselves.
                    if let Some(of) = subject(inner) {
                        numbers(field, Some(&of), inner, &mut found);
                    }
                }
            }
            value => found.extend(number(value).and_then(|it| reported(field, None, it))),
        }
    }
    found
}

type Object = serde_json::Map<String, Value>;

fn numbers(field: &str, of: Option<&str>, inner: &Object, found: &mut Vec<Reported>) {
    for (name, value) in inner.iter().filter(|(name, _)| !SUBJECTS.contains(&name.as_str())) {
        let value = number(value);
        found.extend(value.and_then(|it| reported(&format!("{field}.{name}"), of, it)));
    }
}

/// Fields that say what the others are about.
const SUBJECTS: [&str; 5] = ["rule", "key", "application", "method", "peer"];

/// What an element of a list is about.
fn subject(of: &Object) -> Option<String> {
    if of.contains_key("context") {
        return None;
    }
    let parts = SUBJECTS.iter().filter_map(|subject| match (*subject, of.get(*subject)?) {
        ("rule" | "key", Value::String(text)) => Some(text.clone()),
        (subject, Value::String(text)) => Some(format!("{subject} {text}")),
        (subject, Value::Number(number)) => Some(format!("{subject} {number}")),
        _ => None,
    });
    let parts: Vec<_> = parts.collect();
    Some(if parts.is_empty() { "all".to_owned() } else { parts.join(", ") })
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        Value::Number(number) => number.as_f64(),
        _ => None,
    }
}

fn reported(name: &str, of: Option<&str>, value: f64) -> Option<Reported> {
    let is_short = name.len() <= NAME_BYTES_MAX && of.is_none_or(|of| of.len() <= NAME_BYTES_MAX);
    is_short.then(|| Reported { name: name.to_owned(), of: of.map(str::to_owned), value })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reported(name: &str, of: Option<&str>, value: f64) -> Reported {
        Reported { name: name.to_owned(), of: of.map(str::to_owned), value }
    }

    #[test]
    fn the_values_of_reports_are_their_numbers() {
        let report = json!({
            "refused": 3, "open": true, "text": "no", "null": null,
            "not_closed": ["peer 1", "peer 2"],
            "rest": {"calls": 4, "codes": {"OK": 1}},
            "rules": [{"rule": "no eve", "decided": 5}, 7],
            "series": [{"application": "shop", "peer": null, "method": "A/b", "calls": 6}],
            "spans": [{"context": "00-1", "method": 7, "began_ns": 9}],
        });
        let expected = [
            reported("not_closed", None, 2.0),
            reported("open", None, 1.0),
            reported("refused", None, 3.0),
            reported("rest.calls", None, 4.0),
            reported("rules.decided", Some("no eve"), 5.0),
            reported("series.calls", Some("application shop, method A/b"), 6.0),
        ];
        let mut found = values(&report);
        found.sort_by(|one, other| one.name.cmp(&other.name));
        assert_eq!(found, expected);
    }

    #[test]
    fn values_of_one_rule_are_added_up_and_bounded() {
        let mut all = PolicyValues::new(1, "*".into(), "rate_limit".to_owned());
        for times in 1..=2 {
            all.add(vec![reported("refused", None, 3.0), reported("refused", Some("x"), 1.0)]);
            let expected = [("refused", None, 3.0), ("refused", Some("x"), 1.0)];
            let expected = expected.map(|(name, of, it)| reported(name, of, it * f64::from(times)));
            assert_eq!(all.values, expected);
        }
        all.add((0..100).map(|at| reported(&format!("v{at}"), None, 1.0)).collect());
        assert_eq!((all.values.len(), all.left_out), (VALUES_MAX, 102 - VALUES_MAX));
    }

    #[test]
    fn reports_of_plug_ins_may_be_anything() {
        let long = "n".repeat(1 << 20);
        for report in [
            json!(null),
            json!(7),
            json!([1, 2]),
            json!({long.as_str(): 1, "key": 5, "not_closed": [1, {"x": 2}], "peer": -1}),
            json!({"list": [{"key": long, "calls": 1}]}),
        ] {
            let mut named = report.clone();
            name_numbers(&mut named, &PolicyNames::default());
            assert_eq!(named, report);
            let is_short = |text: &str| text.len() <= NAME_BYTES_MAX;
            let all_short = |value: &Reported| {
                is_short(&value.name) && value.of.as_deref().is_none_or(is_short)
            };
            assert!(values(&report).iter().all(all_short), "{report}");
        }
    }
}
