//! Decides who may call what (mRPC, section 7.2: access control by arguments).
//!
//! The first rule whose conditions hold for a request decides. If no rule applies, the default
//! decides. A denied call ends with `PERMISSION_DENIED` and the rule's name. A field or an entry of
//! metadata that is absent fulfils no condition.
//!
//! Messages of a stream have no metadata of their own, and its request has no fields. So if a rule
//! looks at fields, the policy admits the request of a stream at that rule, keeps the result of the
//! request for each rule, and decides each message from the caller with it. The policy admits
//! streams whose request it has not seen: they began before the policy did.

mod rules;

use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{
    CallId, Code, Declare, Decompose, Direction, Engine, FieldError, Item, ItemKind, MethodId,
    Policy, PolicyError, PolicyKind, State, Status, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::calls::Calls;
use crate::config::{self, Kind, RULES_MAX};
use crate::pattern::ByMethod;
use rules::{Action, Bound, Outcome, Rule};

/// The kind `access`.
#[derive(Debug)]
pub struct Access;

/// The kind `require_sealing`: denies calls that are not sealed.
#[derive(Debug)]
pub struct RequireSealing;

const VERSION: Version = Version { kind: "access", version: 1 };
const SEALING_VERSION: Version = Version { kind: "require_sealing", version: 1 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    default: Action,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// What outlives the policy: how often each rule has decided, by its name.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    decided: Vec<(String, u64)>,
    #[serde(default)]
    by_default: u64,
}

/// What outlives an engine: for each stream, the rules whose other conditions hold.
#[derive(Default, Serialize, Deserialize)]
struct EngineContents {
    #[serde(default)]
    streams: Vec<(u64, u64)>,
}

struct Shared {
    version: Version,
    default: Action,
    rules: Vec<Rule>,
    /// Of each rule, and of the default at the end.
    decided: Vec<AtomicU64>,
}

impl PolicyKind for Access {
    fn version(&self) -> Version {
        VERSION
    }

    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &Kind = self;
        let Configuration { default, rules } = config::parse(kind, configuration)?;
        rules::check(kind, &rules)?;
        Shared::policy(VERSION, default, rules, state)
    }
}

impl PolicyKind for RequireSealing {
    fn version(&self) -> Version {
        SEALING_VERSION
    }

    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &Kind = self;
        let Nothing {} = config::parse(kind, configuration)?;
        Shared::policy(SEALING_VERSION, Action::Allow, vec![Rule::not_sealed()], state)
    }
}

impl Shared {
    fn policy(
        version: Version,
        default: Action,
        rules: Vec<Rule>,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let contents: Contents = config::contents(state, version)?;
        let earlier = |rule: &Rule| {
            let known = contents.decided.iter().find(|(name, _)| *name == rule.name);
            AtomicU64::new(known.map_or(0, |(_, count)| *count))
        };
        let by_default = AtomicU64::new(contents.by_default);
        let decided = rules.iter().map(earlier).chain([by_default]).collect();
        Ok(Box::new(Rules(Arc::new(Shared { version, default, rules, decided }))))
    }

    fn count(&self, rule: usize) -> u64 {
        self.decided[rule].load(Ordering::Relaxed)
    }

    fn counts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.rules.iter().enumerate().map(|(at, rule)| (&*rule.name, self.count(at)))
    }

    /// What the rule of this index, or the default behind the last one, decides.
    fn decide(&self, rule: usize) -> Option<Status> {
        let (action, name) = match self.rules.get(rule) {
            Some(rule) => (rule.action, &*rule.name),
            None => (self.default, "default"),
        };
        let denied = || Status::new(Code::PermissionDenied, format!("denied by rule `{name}`"));
        (action == Action::Deny).then(denied)
    }
}

struct Rules(Arc<Shared>);

impl Policy for Rules {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let version = self.0.version;
        let contents: EngineContents = config::contents(state, version)?;
        let mut streams = Calls::default();
        for (call, holds) in contents.streams {
            let _ = streams.insert(CallId::from_number(call), holds);
        }
        let (shared, bound) = (Arc::clone(&self.0), ByMethod::default());
        Ok(Box::new(AccessEngine { shared, bound, streams, uncounted: Uncounted::default() }))
    }

    fn state(&self) -> State {
        let decided = self.0.counts().map(|(name, count)| (name.to_owned(), count)).collect();
        let by_default = self.0.count(self.0.rules.len());
        State::new(self.0.version, &Contents { decided, by_default })
    }

    fn report(&self) -> Value {
        let rules: Vec<_> =
            self.0.counts().map(|(name, count)| json!({"rule": name, "decided": count})).collect();
        json!({"rules": rules, "by_default": self.0.count(self.0.rules.len())})
    }
}

struct AccessEngine {
    shared: Arc<Shared>,
    /// The rules that are about each method, with the fields that they look at.
    bound: ByMethod<Vec<Bound>>,
    /// Rules whose conditions on the request hold, a bit for each, of streams whose messages are to
    /// be looked at.
    streams: Calls<u64>,
    uncounted: Uncounted,
}

/// A rule that has decided so often, which others are not told yet: engines of other threads write
/// to the same counters, so they are written once for each batch, not for each item.
#[derive(Clone, Copy, Default)]
struct Uncounted {
    rule: usize,
    count: u64,
}

const _: () = assert!(RULES_MAX <= u64::BITS as usize);

impl Engine for AccessEngine {
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        let about = self.shared.rules.iter().enumerate();
        let about = about.filter(|(_, rule)| rule.methods.matches(name));
        let bound: Result<_, _> = about.map(|(at, rule)| rule.bind(at, name, declare)).collect();
        self.bound.insert(method, bound?);
        Ok(())
    }

    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                match self.decide(work, &item) {
                    None => work.forward(item),
                    Some(status) => work.end(item, status),
                }
            }
        }
        self.count();
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        let open = self.streams.into_open(decompose);
        let streams = open.map(|(call, holds)| (call.to_number(), holds)).collect();
        Some(State::new(self.shared.version, &EngineContents { streams }))
    }
}

impl AccessEngine {
    fn decide(&mut self, work: &Work<'_>, item: &Item) -> Option<Status> {
        match work.kind(item) {
            ItemKind::Request => self.decide_request(work, item),
            ItemKind::Message if work.direction(item) == work.call(item).requests => {
                let holds = *self.streams.get_mut(work.call_id(item))?;
                self.decide_message(work, item, holds)
            }
            ItemKind::End | ItemKind::Cancel => {
                if !self.streams.is_empty() {
                    self.streams.remove(work.call_id(item));
                }
                None
            }
            ItemKind::Message | ItemKind::Close | ItemKind::Head => None,
        }
    }

    fn decide_request(&mut self, work: &Work<'_>, item: &Item) -> Option<Status> {
        let call = work.call(item);
        let all = self.bound.get(call.method).map_or(&[][..], Vec::as_slice);
        let rules = &self.shared.rules;
        let mut decided = rules.len();
        for bound in all {
            let rule = &rules[bound.rule];
            if !rule.holds_for_request(call, work, item) {
                continue;
            }
            match bound.outcome(rule, work, item, !call.is_stream) {
                Outcome::Holds => {
                    decided = bound.rule;
                    break;
                }
                Outcome::Fails => {}
                Outcome::Later => {
                    let all = bound_bits(all, rules, work, item);
                    let too_many = || Status::resource_exhausted("too many streams to look at");
                    return self.streams.insert(work.call_id(item), all).err().map(|_| too_many());
                }
            }
        }
        self.decide_by(decided)
    }

    /// What a rule decides, or the default behind the last one.
    fn decide_by(&mut self, rule: usize) -> Option<Status> {
        if self.uncounted.rule != rule {
            self.count();
            self.uncounted.rule = rule;
        }
        self.uncounted.count += 1;
        self.shared.decide(rule)
    }

    fn count(&mut self) {
        let Uncounted { rule, count } = std::mem::take(&mut self.uncounted);
        if count > 0 {
            self.shared.decided[rule].fetch_add(count, Ordering::Relaxed);
        }
    }

    fn decide_message(&mut self, work: &Work<'_>, item: &Item, holds: u64) -> Option<Status> {
        let bound = self.bound.get(work.call(item).method)?;
        let rules = &self.shared.rules;
        let is_it = |bound: &&Bound| {
            holds >> bound.rule & 1 != 0
                && bound.outcome(&rules[bound.rule], work, item, true) == Outcome::Holds
        };
        self.decide_by(bound.iter().find(is_it).map_or(rules.len(), |bound| bound.rule))
    }
}

/// A bit for each rule whose conditions on the request hold.
fn bound_bits(bound: &[Bound], rules: &[Rule], work: &Work<'_>, item: &Item) -> u64 {
    let call = work.call(item);
    let holds = bound.iter().filter(|bound| rules[bound.rule].holds_for_request(call, work, item));
    holds.map(|bound| 1 << bound.rule).sum()
}
