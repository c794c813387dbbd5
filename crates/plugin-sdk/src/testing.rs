//! Tests of policies without a service: a policy and one engine, and items that a test makes.
//!
//! What an engine declares, reads and writes is checked as the service checks it. Random bits are
//! the same in each run.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use petasos_plugin_abi::{Fact, Failure, FieldKind, IS_FROM_CALLER, ItemKind};

use crate::declare::Declare;
use crate::item::{Item, MethodId};
use crate::policy::{Engine, Policy, Refusal, Status};
use crate::service::{Deciding, Declaring};
use crate::value::Value;

/// A policy, and an engine of it.
pub struct Rig<P: Policy> {
    policy: Arc<P>,
    engine: P::Engine,
    fake: Fake,
}

/// An item that a test makes.
#[derive(Clone, Debug, PartialEq)]
pub struct TestItem {
    /// Its kind.
    pub kind: ItemKind,
    /// Its method.
    pub method: MethodId,
    /// The fields of its message, by their paths.
    pub fields: HashMap<String, Value<'static>>,
    /// Its metadata.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// Who the other end is.
    pub identity: Option<String>,
    /// Other things to know of it; 0 for others.
    pub facts: HashMap<Fact, u64>,
}

impl TestItem {
    /// A request of a unary call, without a deadline.
    pub fn request(method: MethodId) -> TestItem {
        let from_caller = u64::from(IS_FROM_CALLER);
        let facts = HashMap::from([(Fact::Flags, from_caller), (Fact::Deadline, u64::MAX)]);
        let (fields, metadata) = Default::default();
        TestItem { kind: ItemKind::Request, method, fields, metadata, identity: None, facts }
    }

    /// The same, with a field.
    #[must_use]
    pub fn with(mut self, path: &str, value: Value<'static>) -> TestItem {
        self.fields.insert(path.to_owned(), value);
        self
    }
}

impl<P: Policy> Rig<P> {
    /// Makes a policy and an engine.
    ///
    /// # Errors
    /// Why they are refused.
    pub fn new(configuration: &str) -> Result<Rig<P>, Refusal> {
        Rig::from_states(configuration, None, None)
    }

    /// The same, from states of an earlier policy and of its engine.
    ///
    /// # Errors
    /// Why they are refused.
    pub fn from_states(
        configuration: &str,
        policy: Option<&str>,
        engine: Option<&str>,
    ) -> Result<Rig<P>, Refusal> {
        let policy = Arc::new(P::new(configuration, policy)?);
        let engine = policy.engine(engine)?;
        Ok(Rig { policy, engine, fake: Fake::default() })
    }

    /// Replaces the policy, as an operator does who configures it or loads another version of the
    /// plug-in. Methods are to be told again.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn replace<Q: Policy>(self, configuration: &str) -> Result<Rig<Q>, Refusal> {
        let (policy, engine) = (self.policy.state(), self.engine.state());
        Rig::from_states(configuration, policy.as_deref(), engine.as_deref())
    }

    /// Tells of a method whose requests have these fields, by their paths.
    ///
    /// # Errors
    /// Why the engine does not want it.
    pub fn method(&mut self, name: &str, fields: &[(&str, FieldKind)]) -> Result<MethodId, String> {
        let number = self.fake.methods.len() as u32;
        let fields = fields.iter().map(|(path, kind)| ((*path).to_owned(), *kind));
        self.fake.methods.push(fields.collect());
        let method = MethodId(number);
        self.engine.method(method, name, &mut Declare::new(&mut self.fake))?;
        Ok(method)
    }

    /// Has the engine decide about an item, which it may change.
    ///
    /// # Errors
    /// With what its call ends.
    ///
    /// # Panics
    /// If the item's kind is not among [`Policy::INTERESTS`].
    pub fn decide(&mut self, item: &mut TestItem) -> Result<(), Status> {
        assert!(P::INTERESTS.contains(&item.kind), "the policy is not asked about such items");
        let mut call = Call { fake: &mut self.fake, item };
        self.engine.item(&mut Item::new(&mut call))
    }

    /// What operators would see.
    pub fn report(&self) -> Option<String> {
        self.policy.report()
    }

    /// What the engine that replaces this one would go on from.
    pub fn state(&self) -> Option<String> {
        self.engine.state()
    }
}

/// A declared field, by its number.
struct Declared {
    method: usize,
    path: String,
    is_written: bool,
}

/// What stands for the service.
#[derive(Default)]
struct Fake {
    /// By their numbers. The last is the one that is told of.
    methods: Vec<HashMap<String, FieldKind>>,
    declared: Vec<Declared>,
    chance: u64,
}

impl Declaring for Fake {
    fn declare_field(
        &mut self,
        path: &str,
        kind: Option<FieldKind>,
        is_written: bool,
    ) -> Result<u32, Failure> {
        let method = self.methods.len() - 1;
        let found = *self.methods[method].get(path).ok_or(Failure::Absent)?;
        if kind.is_some_and(|kind| kind != found) {
            return Err(Failure::Absent);
        }
        self.declared.push(Declared { method, path: path.to_owned(), is_written });
        Ok(self.declared.len() as u32 - 1)
    }
}

/// While an engine decides.
struct Call<'a> {
    fake: &'a mut Fake,
    item: &'a mut TestItem,
}

impl Call<'_> {
    /// A declared field, if the item is of its method.
    fn declared(&self, field: u32) -> Option<&Declared> {
        let declared = self.fake.declared.get(field as usize)?;
        (declared.method == self.item.method.0 as usize).then_some(declared)
    }
}

impl Deciding for Call<'_> {
    fn fact(&self, fact: Fact) -> u64 {
        match fact {
            Fact::Kind => self.item.kind as u64,
            Fact::Method => self.item.method.0.into(),
            other => self.item.facts.get(&other).copied().unwrap_or(0),
        }
    }

    fn identity(&self) -> Option<&str> {
        self.item.identity.as_deref()
    }

    fn field(&self, field: u32) -> Option<Value<'_>> {
        self.item.fields.get(&self.declared(field)?.path).cloned()
    }

    fn set_field(&mut self, field: u32, value: &Value<'_>) -> Result<(), Failure> {
        let declared = self.declared(field).ok_or(Failure::Absent)?;
        if !declared.is_written {
            return Err(Failure::Invalid);
        }
        let path = declared.path.clone();
        self.item.fields.insert(path, value.clone().into_owned());
        Ok(())
    }

    fn metadata(&self, key: &str) -> Option<Cow<'_, [u8]>> {
        let found = self.item.metadata.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| Cow::Borrowed(&**value))
    }

    fn set_metadata(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Failure> {
        self.item.metadata.retain(|(known, _)| known != key);
        let value = value.map(|value| (key.to_owned(), value.to_vec()));
        self.item.metadata.extend(value);
        Ok(())
    }

    fn random(&mut self) -> u64 {
        // Its bits look random enough for a test (SplitMix64's increment and last step).
        self.fake.chance = self.fake.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.fake.chance ^ self.fake.chance >> 31
    }
}

#[cfg(test)]
#[path = "testing_tests.rs"]
mod tests;
