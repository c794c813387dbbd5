//! Policies, what they were made from, and the rule set: which applications get which.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use petasos_admin::CONFIGURATION_BYTES_MAX;
use petasos_engine::{Absent, Policy, PolicyError, PolicyKind, State, Without};
use serde::Deserialize;
use thiserror::Error;

use crate::budget::Budget;
use crate::plugins;

/// The longest file of policies, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The most policies of a rule set.
pub const RULES_MAX: usize = 256;
/// The longest name of applications in a rule or a quota, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// A policy that cannot be made. The operator's fault.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MakeError {
    /// There is no such kind.
    #[error("there is no kind `{name}`; there are {}", kinds().join(", "))]
    NoKind {
        /// What it was called.
        name: String,
    },
    /// A plug-in's policies cannot be made while calls run.
    #[error(
        "`{name}` is a plug-in: its policies are those of the file that the service starts with"
    )]
    Plugin {
        /// What it is called.
        name: String,
    },
    /// The configuration is not a JSON object.
    #[error("a configuration has to be a JSON object: {0}")]
    NoObject(serde_json::Error),
    /// The configuration is too long.
    #[error("a configuration has at most {CONFIGURATION_BYTES_MAX} bytes")]
    TooLong,
    /// The kind refuses the configuration, or the state.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// The names of the kinds that this service has, in order.
pub fn kinds() -> Vec<&'static str> {
    let mut names: Vec<_> =
        petasos_engines::kinds().iter().map(|kind| kind.version().kind).filter(is_here).collect();
    names.sort_unstable();
    names
}

/// The hub has nobody yet who takes copies of requests.
fn is_here(kind: &&str) -> bool {
    *kind != "mirror"
}

/// A policy, and what it was made from.
#[derive(Clone)]
pub struct Made {
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// What has made it.
    pub kind: &'static dyn PolicyKind,
    /// What policies call it, if it is a plug-in's.
    plugin: Option<&'static str>,
    /// From which configuration: a JSON object, without blanks, its keys in order.
    pub configuration: Arc<str>,
    /// Its engine was taken out: the policy that was there, and what its place does without it.
    absent: Option<(Arc<dyn Policy>, Without)>,
}

impl Made {
    /// Makes a policy of a kind that is built in. An empty configuration is `{}`.
    ///
    /// # Errors
    /// See [`MakeError`].
    pub fn new(kind: &str, configuration: &str) -> Result<Made, MakeError> {
        if plugins::find(kind).is_some() {
            return Err(MakeError::Plugin { name: kind.to_owned() });
        }
        let found = petasos_engines::find(kind).filter(|_| is_here(&kind));
        let kind = found.ok_or_else(|| MakeError::NoKind { name: kind.to_owned() })?;
        Made::of(kind, configuration, None)
    }

    /// The same, also of a plug-in's kind, which may take seconds.
    fn of_any(kind: &str, configuration: &str) -> Result<Made, MakeError> {
        match plugins::find(kind) {
            Some((name, plugin)) => {
                let made = Made::of(plugin, configuration, None)?;
                Ok(Made { plugin: Some(name), ..made })
            }
            None => Made::new(kind, configuration),
        }
    }

    /// Makes a policy of the same kind that goes on from the state of this one; of another
    /// configuration, if one is given.
    ///
    /// # Errors
    /// See [`MakeError`].
    pub fn anew(&self, configuration: Option<&str>) -> Result<Made, MakeError> {
        if let Some(name) = self.plugin {
            return Err(MakeError::Plugin { name: name.to_string() });
        }
        let configuration = configuration.unwrap_or(&self.configuration);
        Made::of(self.kind, configuration, Some(&self.policy.state()))
    }

    fn of(
        kind: &'static dyn PolicyKind,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Made, MakeError> {
        if configuration.len() > CONFIGURATION_BYTES_MAX {
            return Err(MakeError::TooLong);
        }
        let text = if configuration.is_empty() { "{}" } else { configuration };
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).map_err(MakeError::NoObject)?;
        let configuration = serde_json::Value::Object(object).to_string();
        let policy = Arc::from(kind.make(&configuration, state)?);
        let (plugin, configuration, absent) = (None, configuration.into(), None);
        Ok(Made { policy, kind, plugin, configuration, absent })
    }

    /// What stands where an engine of it was taken out.
    pub fn absent(&self, without: Without) -> Made {
        let policy = Arc::new(Absent::new(self.policy.clone(), without));
        Made { policy, absent: Some((self.policy.clone(), without)), ..self.clone() }
    }

    /// The same policy, with an engine of its own.
    pub fn present(&self) -> Made {
        let present = self.absent.as_ref().map(|(policy, _)| policy.clone());
        let policy = present.unwrap_or_else(|| self.policy.clone());
        Made { policy, absent: None, ..self.clone() }
    }

    /// What its place does without its engine, if that was taken out.
    pub fn without(&self) -> Option<Without> {
        self.absent.as_ref().map(|(_, without)| *without)
    }

    /// The name of its kind.
    pub fn kind_name(&self) -> &'static str {
        self.plugin.unwrap_or(self.kind.version().kind)
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind_name(), self.configuration)
    }
}

/// One line of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    application: String,
    kind: String,
    #[serde(default)]
    configuration: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    budget: Option<Budget>,
}

/// A policy for applications of a name, or for all (`*`).
#[derive(Clone, Debug)]
pub struct Rule {
    /// Given by the rule set, and never given twice; 0 before.
    pub id: u64,
    /// The name.
    pub application: Arc<str>,
    /// The policy, which all engines of the rule share.
    pub made: Made,
    /// What each of its engines may take, if that is limited.
    pub budget: Option<Budget>,
}

impl Rule {
    /// A rule that is in no rule set yet.
    pub fn new(application: &str, made: Made) -> Rule {
        Rule { id: 0, application: application.into(), made, budget: None }
    }

    /// Whether an application of this name gets it.
    pub fn is_for(&self, name: &str) -> bool {
        *self.application == *"*" || *self.application == *name
    }
}

/// Reads the rules of a file.
///
/// # Errors
/// A text that says where, and what is wrong.
pub fn read(path: &Path) -> Result<Vec<Rule>, String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{}: longer than {FILE_BYTES_MAX} bytes", path.display()));
    }
    parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The rules that a text has, as a file of them.
///
/// # Errors
/// A text that says what is wrong.
pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let lines: Vec<Line> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if lines.len() > RULES_MAX {
        return Err(format!("more than {RULES_MAX} policies"));
    }
    let rules = lines.into_iter().enumerate().map(|(index, line)| {
        let configuration = serde_json::Value::Object(line.configuration).to_string();
        let made = Made::of_any(&line.kind, &configuration);
        let made = made.map_err(|error| format!("policy {}: {error}", index + 1))?;
        let budget = line.budget.map(Budget::checked).transpose();
        let budget = budget.map_err(|error| format!("policy {}: {error}", index + 1))?;
        Ok(Rule { budget, ..Rule::new(&line.application, made) })
    });
    rules.collect()
}

/// Which application has which policies.
#[derive(Clone, Default)]
pub struct Policies {
    rules: Vec<Rule>,
    last_id: u64,
}

impl Policies {
    /// A rule set of these, which get numbers.
    pub fn new(rules: Vec<Rule>) -> Policies {
        let mut policies = Policies::default();
        policies.set(rules);
        policies
    }

    /// All rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule of this number.
    pub fn rule(&self, id: u64) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// Whether a policy has a budget.
    pub fn have_budgets(&self) -> bool {
        self.rules.iter().any(|rule| rule.budget.is_some())
    }

    /// Puts others in their place. Those without a number get one.
    pub fn set(&mut self, rules: Vec<Rule>) {
        self.rules = rules;
        for rule in self.rules.iter_mut().filter(|rule| rule.id == 0) {
            self.last_id += 1;
            rule.id = self.last_id;
        }
    }

    /// The policies of an application, the one next to it first.
    pub fn of<'a>(&'a self, application: &'a str) -> impl Iterator<Item = Arc<dyn Policy>> + 'a {
        let its = self.rules.iter().filter(move |rule| rule.is_for(application));
        its.map(|rule| rule.made.policy.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_of_an_application_or_of_all() {
        let text = r#"[{"application": "*", "kind": "null"},
                       {"application": "shop", "kind": "null"}]"#;
        let policies = Policies::new(parse(text).expect("it is right"));
        assert_eq!((policies.of("shop").count(), policies.of("other").count()), (2, 1));
        assert_eq!(policies.rules().iter().map(|rule| rule.id).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_is_wrong_says_where() {
        let error = |text| parse(text).expect_err("it is wrong");
        let unknown = error(r#"[{"application": "*", "kind": "nul"}]"#);
        assert!(unknown.starts_with("policy 1: there is no kind `nul`; there are access, "));
        let wrong = r#"[{"application": "*", "kind": "rate_limit", "configuration": {"x": 1}}]"#;
        assert!(error(wrong).starts_with("policy 1: the configuration of `rate_limit` is wrong"));
        assert!(error("[").contains("line 1"));
        let mirror = r#"[{"application": "*", "kind": "mirror", "configuration": {"peer": 1}}]"#;
        assert!(error(mirror).starts_with("policy 1: there is no kind `mirror`"));
        let budget = r#"[{"application": "*", "kind": "null", "budget": {"percent": 0}}]"#;
        assert!(error(budget).starts_with("policy 1: a budget is more than 0"));
        let many = vec![r#"{"application": "*", "kind": "null"}"#; RULES_MAX + 1].join(",");
        assert_eq!(error(&format!("[{many}]")), "more than 256 policies");
    }

    #[test]
    fn configurations_are_objects_of_a_bounded_length() {
        let made = Made::new("null", " { } ").expect("it is one");
        assert_eq!(&*made.configuration, "{}");
        for wrong in ["[]", "1", "{", "null"] {
            assert!(matches!(Made::new("null", wrong), Err(MakeError::NoObject(_))), "{wrong}");
        }
        let long = format!("{{}}{}", " ".repeat(CONFIGURATION_BYTES_MAX));
        assert!(matches!(Made::new("null", &long), Err(MakeError::TooLong)));
    }
}
