//! Changes entries of metadata: of requests, of the heads of streams' responses, and of ends.

use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{
    Declare, Decompose, Direction, Engine, FieldError, Item, ItemKind, Metadata, MetadataError,
    MethodId, Policy, PolicyError, PolicyKind, State, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{self, Kind, RULES_MAX, listed};
use crate::pattern::{ByMethod, Methods};

/// The kind `metadata`.
#[derive(Debug)]
pub struct MetadataChange;

const VERSION: Version = Version { kind: "metadata", version: 1 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    methods: Methods,
    on: Vec<On>,
    /// Made in this order.
    changes: Vec<Change>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum On {
    Requests,
    /// What streams' responses begin with.
    Heads,
    /// What calls end with; of unary ones, their responses.
    Ends,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Change {
    /// In place of all entries with the key.
    Set { key: String, value: String },
    /// Behind those with the key.
    Append { key: String, value: String },
    /// All with the key.
    Remove { key: String },
    /// All with the key, which keep their order and come behind the others.
    Rename { key: String, to: String },
}

/// What outlives the policy.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    changed: u64,
}

struct Shared {
    rules: Vec<Rule>,
    changed: AtomicU64,
}

impl PolicyKind for MetadataChange {
    fn version(&self) -> Version {
        VERSION
    }

    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &Kind = self;
        let Configuration { rules } = config::parse(kind, configuration)?;
        listed(kind, "rules", &rules, RULES_MAX)?;
        for rule in &rules {
            listed(kind, "rules.on", &rule.on, 3)?;
            listed(kind, "rules.changes", &rule.changes, RULES_MAX)?;
            let tried = rule.changes.iter().try_for_each(Change::check);
            tried.map_err(|why| kind.wrong(format!("`rules.changes`: {why}")))?;
        }
        let contents: Contents = config::contents(state, VERSION)?;
        let changed = AtomicU64::new(contents.changed);
        Ok(Box::new(Changed(Arc::new(Shared { rules, changed }))))
    }
}

impl Change {
    /// Whether the change can be made at all.
    fn check(&self) -> Result<(), String> {
        let append = |key: &str, value: &str| {
            let tried = Metadata::new().append(key, value);
            tried.map_err(|error| format!("key `{key}`, value `{value}`: {error}"))
        };
        match self {
            Change::Set { key, value } | Change::Append { key, value } => append(key, value),
            Change::Remove { .. } => Ok(()),
            Change::Rename { key, to } => {
                if key.ends_with("-bin") != to.ends_with("-bin") {
                    return Err(format!("`{key}` to `{to}`: {}", MetadataError::Kind));
                }
                append(to.strip_suffix("-bin").unwrap_or(to), "")
            }
        }
    }

    fn make(&self, metadata: &mut Metadata) {
        match self {
            Change::Set { key, value } => {
                metadata.remove(key);
                metadata.append(key, value).expect("it was tried");
            }
            Change::Append { key, value } => metadata.append(key, value).expect("it was tried"),
            Change::Remove { key } => drop(metadata.remove(key)),
            Change::Rename { key, to } => rename(metadata, key, to),
        }
    }
}

fn rename(metadata: &mut Metadata, key: &str, to: &str) {
    let renamed = metadata.iter().filter(|(known, _)| *known == key);
    let values: Vec<Vec<u8>> = renamed.map(|(_, value)| value.to_owned()).collect();
    metadata.remove(key);
    for value in values {
        metadata.append_bytes(to.as_bytes(), &value).expect("the keys are of one kind");
    }
}

struct Changed(Arc<Shared>);

impl Policy for Changed {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        config::no_state(state, VERSION)?;
        Ok(Box::new(MetadataEngine { shared: Arc::clone(&self.0), about: ByMethod::default() }))
    }

    fn state(&self) -> State {
        State::new(VERSION, &Contents { changed: self.0.changed.load(Ordering::Relaxed) })
    }

    fn report(&self) -> Value {
        json!({"changed": self.0.changed.load(Ordering::Relaxed)})
    }
}

struct MetadataEngine {
    shared: Arc<Shared>,
    /// The rules that are about each method.
    about: ByMethod<Vec<usize>>,
}

impl Engine for MetadataEngine {
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        _: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        let rules = self.shared.rules.iter().map(|rule| &rule.methods);
        self.about.insert(method, Methods::about(rules, name));
        Ok(())
    }

    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                let on = match work.kind(&item) {
                    ItemKind::Request => Some(On::Requests),
                    ItemKind::Head => Some(On::Heads),
                    ItemKind::End => Some(On::Ends),
                    ItemKind::Message | ItemKind::Close | ItemKind::Cancel => None,
                };
                if let Some(on) = on {
                    self.change(work, &item, on);
                }
                work.forward(item);
            }
        }
    }

    fn decompose(self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
        None
    }
}

impl MetadataEngine {
    fn change(&self, work: &mut Work<'_>, item: &Item, on: On) {
        let about = self.about.get(work.call(item).method).map_or(&[][..], Vec::as_slice);
        let rules = about.iter().map(|at| &self.shared.rules[*at]);
        let mut is_changed = false;
        for rule in rules.filter(|rule| rule.on.contains(&on)) {
            rule.changes.iter().for_each(|change| change.make(work.metadata_mut(item)));
            is_changed = true;
        }
        self.shared.changed.fetch_add(u64::from(is_changed), Ordering::Relaxed);
    }
}
