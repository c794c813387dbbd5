//! The rule set: which applications get which policies.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use petasos_engine::Policy;
use serde::Deserialize;

use crate::budget::Budget;
use crate::made::{Kind, Made};
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

/// What there is when policies are read: the plug-ins, and the rules in force. What is read goes on
/// from these rules ([`rules`]).
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

/// Rules of these lines. One that is in force already has its number, and so has, of those that are
/// left, one of the same kind for the same applications: it goes on from that one's state. A
/// plug-in's policy does so already; the others are made again by whoever puts them in force.
///
/// # Errors
/// A text that says what is wrong.
pub fn rules(lines: Vec<Line>, before: Before<'_>) -> Result<Vec<Rule>, String> {
    if lines.len() > RULES_MAX {
        return Err(format!("more than {RULES_MAX} policies"));
    }
    let at = |index: usize| move |wrong: String| format!("policy {}: {wrong}", index + 1);
    let read = lines.into_iter().enumerate();
    let read = read.map(|(index, line)| Read::of(line, before.plugins).map_err(at(index)));
    let read: Vec<Read> = read.collect::<Result<_, _>>()?;
    let from = goes_on_from(&read, before.rules);
    let rules = read.into_iter().zip(from).enumerate();
    rules.map(|(index, (read, from))| read.rule(from).map_err(at(index))).collect()
}

/// A line that was read.
struct Read {
    line: Line,
    kind: Kind,
    configuration: String,
}

impl Read {
    fn of(line: Line, plugins: &Plugins) -> Result<Read, String> {
        let kind = Kind::find(&line.kind, plugins).map_err(|error| error.to_string())?;
        let configuration = serde_json::Value::Object(line.configuration.clone()).to_string();
        Ok(Read { line, kind, configuration })
    }

    fn is_like(&self, rule: &Rule) -> bool {
        *rule.application == *self.line.application && rule.made.kind_name() == self.kind.name()
    }

    fn is_same(&self, rule: &Rule) -> bool {
        let is_configured_so = *rule.made.configuration == *self.configuration;
        self.is_like(rule) && is_configured_so && rule.made.kind.is(&self.kind)
    }

    /// The rule that goes on from this one.
    fn rule(self, from: Option<&Rule>) -> Result<Rule, String> {
        let made = match (from, &self.kind) {
            (Some(from), _) if self.is_same(from) => Ok(from.made.clone()),
            (Some(from), Kind::Plugin(_)) => {
                from.made.anew_by(self.kind, Some(&self.configuration))
            }
            _ => Made::new(self.kind, &self.configuration),
        };
        let made = made.map_err(|error| error.to_string())?;
        let budget = self.line.budget.map(Budget::checked).transpose();
        let budget = budget.map_err(|error| error.to_string())?;
        let id = from.map_or(0, |from| from.id);
        Ok(Rule { id, budget, ..Rule::new(&self.line.application, made) })
    }
}

/// Which rule each line goes on from. None goes on twice, and those that are the same come first.
fn goes_on_from<'a>(read: &[Read], before: &'a [Rule]) -> Vec<Option<&'a Rule>> {
    let mut left: Vec<&Rule> = before.iter().collect();
    let mut from = vec![None; read.len()];
    for is_it in [Read::is_same, Read::is_like] {
        for (from, read) in from.iter_mut().zip(read).filter(|(from, _)| from.is_none()) {
            let index = left.iter().position(|rule| is_it(read, rule));
            *from = index.map(|index| left.remove(index));
        }
    }
    from
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
    fn lines_go_on_from_the_rules_that_they_are_and_then_from_those_that_they_are_like() {
        let limit = |rate: u32| {
            format!(
                r#"{{"application": "*", "kind": "rate_limit", "configuration":
                     {{"rate_per_s": {rate}, "burst": 1}}}}"#
            )
        };
        let text = |rates: &[u32]| {
            format!("[{}]", rates.iter().map(|rate| limit(*rate)).collect::<Vec<_>>().join(","))
        };
        let before = Policies::new(parsed(&text(&[10, 20, 30])).expect("it is right"));
        let rules = before.rules();
        let ids = |rates: &[u32]| -> Vec<u64> {
            let before = Before { plugins: &Plugins::default(), rules };
            let read = parse(&text(rates), before).expect("it is right");
            read.iter().map(|rule| rule.id).collect()
        };
        assert_eq!(ids(&[10, 20, 30]), [1, 2, 3]);
        assert_eq!(ids(&[5, 10, 20, 30]), [0, 1, 2, 3], "a new one takes no other's state");
        assert_eq!(ids(&[5, 10]), [2, 1]);
        assert_eq!(ids(&[10, 10, 10, 10]), [1, 2, 3, 0]);
        assert_eq!(ids(&[]), [0; 0]);
    }

    #[test]
    fn the_books_policies_are_right_and_all_kinds_are_in_it() {
        let book = include_str!("../../../docs/book/src/policies.md");
        let (mut kinds, mut count) = (Vec::new(), 0);
        for block in book.split("```json\n").skip(1) {
            let text = block.split("```").next().expect("it has an end");
            let rules = parsed(text).unwrap_or_else(|error| panic!("{error}: {text}"));
            kinds.extend(rules.iter().map(|rule| rule.made.kind_name().to_owned()));
            count += 1;
        }
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds, crate::made::kinds(), "in {count} examples");
    }

    #[test]
    fn what_is_wrong_says_where() {
        let error = |text| parsed(text).expect_err("it is wrong");
        let unknown = error(r#"[{"application": "*", "kind": "nul"}]"#);
        assert!(unknown.starts_with("policy 1: there is no kind `nul`; there are access, "));
        let wrong = r#"[{"application": "*", "kind": "rate_limit", "configuration": {"x": 1}}]"#;
        assert!(error(wrong).starts_with("policy 1: the configuration of `rate_limit` is wrong"));
        assert!(error("[").contains("line 1"));
        let mirror = r#"[{"application": "*", "kind": "mirror", "configuration": {"share": 1}}]"#;
        assert!(error(mirror).contains("missing field `to`"));
        let budget = r#"[{"application": "*", "kind": "null", "budget": {"percent": 0}}]"#;
        assert!(error(budget).starts_with("policy 1: a budget is more than 0"));
        let many = vec![r#"{"application": "*", "kind": "null"}"#; RULES_MAX + 1].join(",");
        assert_eq!(error(&format!("[{many}]")), "more than 256 policies");
    }
}
