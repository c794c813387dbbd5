//! The rule set: which applications get which policies.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use petasos_engine::Policy;
use serde::Deserialize;

use crate::budget::Budget;
use crate::made::{Kind, Made, MakeError};
use crate::plugins::Plugins;

/// The longest file of policies, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The most policies of a rule set.
pub const RULES_MAX: usize = 256;
/// The longest name of applications in a rule or a quota, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// One policy of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
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

/// What policies are made of that are read: the plug-ins, and the rules in force. Of a plug-in's
/// kind, a policy that is like one of these is that one, or goes on from its state.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    /// The plug-ins.
    pub plugins: &'a Plugins,
    /// The rules.
    pub rules: &'a [Rule],
}

/// Reads the rules of a file. Waits for the trials of plug-ins' policies.
///
/// # Errors
/// A text that says where, and what is wrong.
pub fn read(path: &Path, before: Before<'_>) -> Result<Vec<Rule>, String> {
    let text = read_text(path)?;
    parse(&text, before).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads a file that an operator has written.
///
/// # Errors
/// A text that says what is wrong with it.
pub fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{}: longer than {FILE_BYTES_MAX} bytes", path.display()));
    }
    Ok(text)
}

/// The rules that a text has, as a file of them.
///
/// # Errors
/// A text that says what is wrong.
pub fn parse(text: &str, before: Before<'_>) -> Result<Vec<Rule>, String> {
    rules(serde_json::from_str(text).map_err(|error| error.to_string())?, before)
}

/// Rules of these lines.
///
/// # Errors
/// A text that says what is wrong.
pub fn rules(lines: Vec<Line>, before: Before<'_>) -> Result<Vec<Rule>, String> {
    if lines.len() > RULES_MAX {
        return Err(format!("more than {RULES_MAX} policies"));
    }
    let mut left = before.rules.to_vec();
    let rules = lines.into_iter().enumerate().map(|(index, line)| {
        let rule = rule(line, before.plugins, &mut left);
        rule.map_err(|error| format!("policy {}: {error}", index + 1))
    });
    rules.collect()
}

fn rule(line: Line, plugins: &Plugins, before: &mut Vec<Rule>) -> Result<Rule, String> {
    let configuration = serde_json::Value::Object(line.configuration).to_string();
    let kind = Kind::find(&line.kind, plugins).map_err(|error| error.to_string())?;
    let made = match kind {
        Kind::BuiltIn(_) => Made::new(kind, &configuration),
        Kind::Plugin(_) => made_of_plugin(kind, &line.application, &configuration, before),
    };
    let made = made.map_err(|error| error.to_string())?;
    let budget = line.budget.map(Budget::checked).transpose();
    let budget = budget.map_err(|error| error.to_string())?;
    Ok(Rule { budget, ..Rule::new(&line.application, made) })
}

/// Each policy that is there is taken once: the very one, or else one of another configuration.
fn made_of_plugin(
    kind: Kind,
    application: &str,
    configuration: &str,
    before: &mut Vec<Rule>,
) -> Result<Made, MakeError> {
    let is_like =
        |rule: &Rule| *rule.application == *application && rule.made.kind_name() == kind.name();
    let is_it = |rule: &Rule| {
        is_like(rule) && rule.made.kind.is(&kind) && *rule.made.configuration == *configuration
    };
    let found = before.iter().position(is_it);
    match found.or_else(|| before.iter().position(is_like)).map(|index| before.remove(index)) {
        Some(rule) if found.is_some() => Ok(rule.made),
        Some(rule) => rule.made.anew_by(kind, Some(configuration)),
        None => Made::new(kind, configuration),
    }
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

    fn parsed(text: &str) -> Result<Vec<Rule>, String> {
        parse(text, Before { plugins: &Plugins::default(), rules: &[] })
    }

    #[test]
    fn policies_are_of_an_application_or_of_all() {
        let text = r#"[{"application": "*", "kind": "null"},
                       {"application": "shop", "kind": "null"}]"#;
        let policies = Policies::new(parsed(text).expect("it is right"));
        assert_eq!((policies.of("shop").count(), policies.of("other").count()), (2, 1));
        assert_eq!(policies.rules().iter().map(|rule| rule.id).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_is_wrong_says_where() {
        let error = |text| parsed(text).expect_err("it is wrong");
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
}
