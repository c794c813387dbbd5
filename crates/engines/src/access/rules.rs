//! Rules and their conditions.

use std::collections::HashSet;

use petasos_engine::{
    Call, Declare, FieldError, FieldId, FieldKind, Item, PolicyError, Value as Field, Work,
};
use serde::Deserialize;
use serde_json::{Number, Value};

use crate::config::{Kind, RULES_MAX, listed};
use crate::pattern::{Methods, Pattern};

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// The call goes on.
    Allow,
    /// The call ends.
    Deny,
}

/// A rule holds if all of its conditions do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) action: Action,
    #[serde(default)]
    pub(super) methods: Methods,
    #[serde(default)]
    fields: Vec<FieldRule>,
    #[serde(default)]
    metadata: Vec<MetadataRule>,
    /// Who is at the other end. Whoever has not proved that, is nobody.
    #[serde(default)]
    identity: Option<Pattern>,
    #[serde(default)]
    sealed: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldRule {
    path: String,
    is: Test,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetadataRule {
    key: String,
    /// Without a test, the key has to be there.
    #[serde(default)]
    is: Option<TextTest>,
}

/// What the value of a field has to be.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Test {
    Equals(Value),
    OneOf(Vec<Value>),
    Prefix(String),
    /// Both ends belong to it; either may be left out.
    Range {
        #[serde(default)]
        min: Option<Number>,
        #[serde(default)]
        max: Option<Number>,
    },
}

/// What the value of an entry of metadata has to be.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum TextTest {
    Equals(String),
    OneOf(HashSet<String>),
    Prefix(String),
}

/// A rule that is about a method.
#[derive(Debug)]
pub(super) struct Bound {
    /// Which one.
    pub(super) rule: usize,
    /// Its fields, in order.
    fields: Vec<FieldId>,
}

/// How a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Holds,
    Fails,
    /// Messages decide.
    Later,
}

/// Checks what the form of rules does not say.
pub(super) fn check(kind: &Kind, rules: &[Rule]) -> Result<(), PolicyError> {
    if !rules.is_empty() {
        listed(kind, "rules", rules, RULES_MAX)?;
    }
    let mut names = HashSet::new();
    for rule in rules {
        let wrong = |why: &str| Err(kind.wrong(format!("rule `{}`: {why}", rule.name)));
        if rule.name.is_empty() || rule.name.len() > 100 {
            return wrong("`name` must have 1 to 100 bytes");
        }
        if !names.insert(&rule.name) {
            return wrong("`name` is the name of an earlier rule, too");
        }
        for FieldRule { path, is } in &rule.fields {
            if let Some(why) = is.mistake() {
                return wrong(&format!("field `{path}`: {why}"));
            }
        }
    }
    Ok(())
}

impl Rule {
    /// The rule of `require_sealing`.
    pub(super) fn not_sealed() -> Rule {
        Rule {
            name: "require_sealing".to_owned(),
            action: Action::Deny,
            methods: Methods::default(),
            fields: Vec::new(),
            metadata: Vec::new(),
            identity: None,
            sealed: Some(false),
        }
    }

    /// Declares the fields of a method that the rule looks at.
    pub(super) fn bind(
        &self,
        rule: usize,
        method: &str,
        declare: &mut Declare<'_>,
    ) -> Result<Bound, FieldError> {
        let mut fields = Vec::new();
        for FieldRule { path, is } in &self.fields {
            let (field, found) = declare.reads_any(path)?;
            if let Some(expected) = is.lacks(found) {
                let (method, path) = (method.to_owned(), path.clone());
                return Err(FieldError::Kind { method, path, expected, found });
            }
            fields.push(field);
        }
        Ok(Bound { rule, fields })
    }

    /// Whether the conditions hold that are not about fields.
    #[inline]
    pub(super) fn holds_for_request(&self, call: &Call, work: &Work<'_>, item: &Item) -> bool {
        let is_identity =
            |pattern: &Pattern| call.identity.as_ref().is_some_and(|name| pattern.matches(name));
        self.sealed.is_none_or(|sealed| sealed == call.is_sealed)
            && self.identity.as_ref().is_none_or(is_identity)
            && self.metadata.iter().all(|rule| rule.holds(work, item))
    }
}

impl Bound {
    /// Whether the conditions on fields hold.
    #[inline]
    pub(super) fn outcome(
        &self,
        rule: &Rule,
        work: &Work<'_>,
        item: &Item,
        has_message: bool,
    ) -> Outcome {
        if !has_message && !self.fields.is_empty() {
            return Outcome::Later;
        }
        let holds = |(field, rule): (&FieldId, &FieldRule)| {
            work.field(item, *field).is_some_and(|value| rule.is.holds(value))
        };
        let all = self.fields.iter().zip(&rule.fields).all(holds);
        if all { Outcome::Holds } else { Outcome::Fails }
    }
}

impl MetadataRule {
    fn holds(&self, work: &Work<'_>, item: &Item) -> bool {
        let metadata = work.metadata(item);
        match &self.is {
            None => metadata.iter().any(|(key, _)| key == self.key),
            Some(test) => metadata.get_all(&self.key).any(|value| match test {
                TextTest::Equals(text) => value == text,
                TextTest::OneOf(texts) => texts.contains(value),
                TextTest::Prefix(text) => value.starts_with(text),
            }),
        }
    }
}

impl Test {
    #[inline]
    fn holds(&self, value: Field<'_>) -> bool {
        match self {
            Test::Equals(expected) => equals(value, expected),
            Test::OneOf(list) => list.iter().any(|expected| equals(value, expected)),
            Test::Prefix(prefix) => match value {
                Field::Text(text) => text.starts_with(prefix),
                Field::Bytes(bytes) => bytes.starts_with(prefix.as_bytes()),
                _ => false,
            },
            Test::Range { min, max } => {
                min.as_ref().is_none_or(|min| compare(value, min).is_some_and(|is| is.is_ge()))
                    && max
                        .as_ref()
                        .is_none_or(|max| compare(value, max).is_some_and(|is| is.is_le()))
            }
        }
    }

    /// What is wrong with the test itself.
    fn mistake(&self) -> Option<&'static str> {
        let is_single =
            |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
        match self {
            Test::Equals(value) if !is_single(value) => {
                Some("`equals` must be a string, a number or a boolean")
            }
            Test::OneOf(list) if list.is_empty() || !list.iter().all(is_single) => {
                Some("`one_of` must have strings, numbers or booleans, at least one")
            }
            Test::Range { min: None, max: None } => Some("`range` must have `min`, `max` or both"),
            _ => None,
        }
    }

    /// What a field would have to be for the test to make sense, if it is not.
    fn lacks(&self, found: FieldKind) -> Option<FieldKind> {
        match self {
            Test::Equals(value) => lacks(value, found),
            Test::OneOf(list) => list.iter().find_map(|value| lacks(value, found)),
            Test::Prefix(_) => lacks(&Value::String(String::new()), found),
            Test::Range { .. } => lacks(&Value::from(0), found),
        }
    }
}

fn lacks(value: &Value, found: FieldKind) -> Option<FieldKind> {
    let (is_right, expected) = match value {
        Value::String(_) => (matches!(found, FieldKind::Text | FieldKind::Bytes), FieldKind::Text),
        Value::Bool(_) => (found == FieldKind::Bool, FieldKind::Bool),
        _ => {
            let numbers = [FieldKind::Signed, FieldKind::Unsigned, FieldKind::Float];
            (numbers.contains(&found), FieldKind::Signed)
        }
    };
    (!is_right).then_some(expected)
}

#[inline]
fn equals(value: Field<'_>, expected: &Value) -> bool {
    match (value, expected) {
        (Field::Text(text), Value::String(expected)) => text == expected,
        (Field::Bytes(bytes), Value::String(expected)) => bytes == expected.as_bytes(),
        (Field::Bool(value), Value::Bool(expected)) => value == *expected,
        (_, Value::Number(expected)) => compare(value, expected).is_some_and(|is| is.is_eq()),
        _ => false,
    }
}

/// Integers are compared exactly, if both are.
fn compare(value: Field<'_>, with: &Number) -> Option<std::cmp::Ordering> {
    let integer = match value {
        Field::Signed(value) => Some(i128::from(value)),
        Field::Unsigned(value) => Some(i128::from(value)),
        _ => None,
    };
    if let (Some(value), Some(with)) = (integer, with.as_i128()) {
        return Some(value.cmp(&with));
    }
    let float = match value {
        Field::Signed(value) => value as f64,
        Field::Unsigned(value) => value as f64,
        Field::Float(value) => value,
        _ => return None,
    };
    float.partial_cmp(&with.as_f64()?)
}
