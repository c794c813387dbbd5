//! What operators control: the rule set, quotas, and the engines of applications.
//!
//! All of it belongs to the daemon's thread. An operator's request is done between two turns, with
//! the whole [`World`] in hand, all runtimes: no call passes meanwhile, and nobody else changes
//! anything.
//!
//! # Invariants
//! - Each policy that an engine or a rule has is known ([`Control::known`]), with its kind and its
//!   configuration.
//! - A change that fails in one of its steps leaves all as it was ([`change::change`]).

mod budgets;
mod carried;
pub mod change;
mod error;
mod in_force;
mod kept;
mod plan;
mod plugins;
pub mod prepare;
mod ready;
mod reload;
mod rules;
mod runtimes;
mod undo;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard};

use petasos::grpc::Refusals;
use petasos_engine::{Application as Number, Policy};
use petasos_service::{Application, Gone, HubId, Schemas};

use carried::Awaited;
use kept::Kept;

use crate::configuration::{Live, Whole};
use crate::made::Made;
use crate::member::{Heaps, Member};
use crate::names::Names;
use crate::plugins::{LeftPlugin, Plugins};
use crate::policies::Policies;
use crate::quotas::Quotas;
use crate::runtime::Runtime;
use crate::runtime::set::RuntimeSet;
use crate::schemas::Keeper;
use crate::transport::{Carried, TransportSet};
pub use budgets::Meter;
pub use error::{ChangeFailed, StepError};
pub use kept::{Keep, Undone};
pub use plan::describe;

/// All that operators see and change.
pub struct World<'a> {
    /// The daemon's runtime.
    pub first: &'a mut Runtime,
    /// The others, whose threads wait meanwhile.
    pub others: Vec<MutexGuard<'a, Runtime>>,
    /// What operators have set of them.
    pub set: &'a mut RuntimeSet,
    /// What applies to applications.
    pub control: &'a mut Control,
    /// To and from other hosts, if there is one.
    pub transport: Option<&'a mut TransportSet>,
}

/// What applies to applications.
#[derive(Default)]
pub struct Control {
    policies: Policies,
    /// What those that attach may have.
    pub quotas: Quotas,
    /// Who may attach under which name.
    pub names: Names,
    /// Of which policies can be made.
    pub plugins: Plugins,
    /// Plug-ins that were there.
    left: Vec<LeftPlugin>,
    /// Another process has got what is in force, and does not serve yet, or does.
    pub is_handing_over: bool,
    /// The latest changes, if they can be undone.
    kept: Option<Kept>,
    /// By the address of the policy.
    known: HashMap<usize, Known>,
    file: Option<String>,
    /// Who keeps schemas on disk, if they are kept.
    pub keeper: Option<Keeper>,
    /// Applications of the process before this one that had engines of their own.
    awaited: Vec<Awaited>,
    /// What engines take.
    pub meter: Meter,
    /// What carries packets between hosts, if calls leave this one or come in.
    pub packets: Option<Carried>,
    /// What counts what the port of gRPC clients refuses, if there is one.
    pub grpc_refusals: Vec<Refusals>,
}

/// A policy that is in use.
#[derive(Clone)]
pub struct Known {
    /// What it was made from.
    pub made: Made,
    /// The rule for which it was made.
    pub rule: Option<u64>,
}

impl Control {
    /// With what was configured, which is reloaded from this file.
    pub fn new(live: Live, file: Option<&str>) -> Control {
        let Live { plugins, rules, whole } = live;
        let file = file.map(str::to_owned);
        let mut control = Control { file, plugins, ..Control::default() };
        if let Some(Whole { names, quotas, .. }) = whole {
            (control.names, control.quotas) = (names, quotas);
        }
        control.set_policies(Policies::new(rules.unwrap_or_default()));
        control
    }

    /// The rule set.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// From what it is reloaded.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// What is known of a policy that an engine has.
    pub fn known(&self, policy: &Arc<dyn Policy>) -> &Known {
        self.known.get(&address(policy)).expect("policies are made here, and known while used")
    }

    fn set_policies(&mut self, policies: Policies) {
        self.policies = policies;
        for rule in self.policies.rules() {
            let known = Known { made: rule.made.clone(), rule: Some(rule.id) };
            self.known.insert(address(&rule.made.policy), known);
        }
    }

    /// A policy is about to be used.
    fn know(&mut self, known: Known) {
        self.known.insert(address(&known.made.policy), known);
    }

    /// Forgets policies that nobody has any more.
    fn forget_unused(&mut self) {
        // What stands for an engine that was taken out holds its policy: that goes after it.
        let mut before = usize::MAX;
        while self.known.len() < before {
            before = self.known.len();
            self.known.retain(|_, known| Arc::strong_count(&known.made.policy) > 1);
        }
    }
}

impl World<'_> {
    /// The runtimes.
    pub fn runtimes(&self) -> impl Iterator<Item = &Runtime> {
        std::iter::once(&*self.first).chain(self.others.iter().map(|other| &**other))
    }

    /// The runtimes, to be changed.
    pub fn runtimes_mut(&mut self) -> impl Iterator<Item = &mut Runtime> {
        let others = self.others.iter_mut().map(|other| &mut **other);
        std::iter::once(&mut *self.first).chain(others)
    }

    /// The runtime that has an application.
    pub fn runtime_of(&mut self, number: Number) -> Option<&mut Runtime> {
        self.runtimes_mut().find(|runtime| runtime.hub.heaps(number).is_some())
    }

    /// The applications, by number.
    pub fn applications(&self) -> Vec<&Application<Heaps>> {
        let mut all: Vec<_> =
            self.runtimes().flat_map(|runtime| runtime.hub.applications()).collect();
        all.sort_unstable_by_key(|application| application.number());
        all
    }

    /// An application.
    pub fn application(&mut self, number: Number) -> Option<&mut Application<Heaps>> {
        self.runtimes_mut().find_map(|runtime| runtime.hub.application(number))
    }

    /// The applications' processes and lanes, by their numbers, each with its runtime.
    pub fn members(&self) -> impl Iterator<Item = (Number, (HubId, &Member))> {
        let all = self
            .runtimes()
            .flat_map(|runtime| runtime.members.iter().map(|member| (runtime.id(), member)));
        all.map(|(id, member)| (member.number, (id, member)))
    }

    /// All policies of rules and of engines; not those that are kept to undo a change.
    pub fn policies_in_use(&self) -> Vec<&Known> {
        let rules = self.control.policies().rules().iter().map(|rule| &rule.made.policy);
        let applications = self.applications();
        let engines = applications.iter().flat_map(|application| {
            let datapath = application.datapath();
            (0..datapath.len()).filter_map(|place| datapath.policy(place))
        });
        let used: HashSet<usize> = rules.chain(engines).map(address).collect();
        let known = self.control.known.iter().filter(|(address, _)| used.contains(address));
        known.map(|(_, known)| known).collect()
    }

    /// The schemas that are known.
    pub fn schemas(&self) -> MutexGuard<'_, Schemas> {
        self.first.hub.schemas()
    }

    /// What applications had counted that have gone.
    pub fn gone(&self) -> Gone {
        let mut all = Gone::default();
        self.runtimes().for_each(|runtime| all.merge(runtime.hub.gone()));
        all
    }

    /// The application that an operator names: by its number, or by its name.
    ///
    /// # Errors
    /// There is none, or several have the name.
    pub fn find(&self, named: &str) -> Result<Number, StepError> {
        let is_number = !named.is_empty() && named.bytes().all(|byte| byte.is_ascii_digit());
        let number = named.parse().ok().filter(|_| is_number);
        let applications = self.applications();
        let mut found = applications.iter().filter(|application| match number {
            Some(number) => application.number() == Number(number),
            None => application.name() == named,
        });
        let first = found.next().ok_or_else(|| StepError::NoApplication {
            named: named.to_owned(),
            there: self.names(|_| true),
        })?;
        if found.next().is_some() {
            let those = self.names(|name| name == named);
            return Err(StepError::Ambiguous { named: named.to_owned(), those });
        }
        Ok(first.number())
    }

    /// Some of the applications that there are, for people.
    fn names(&self, is_meant: impl Fn(&str) -> bool) -> String {
        let all = self.applications().into_iter();
        let all = all.filter(|application| is_meant(application.name()));
        let texts: Vec<String> = all
            .take(NAMES_SHOWN + 1)
            .map(|application| format!("`{}` ({})", application.name(), application.number().0))
            .collect();
        match texts.len() {
            0 => "none".to_owned(),
            len if len > NAMES_SHOWN => format!("{}, …", texts[..NAMES_SHOWN].join(", ")),
            _ => texts.join(", "),
        }
    }
}

/// So many applications are named in an error.
const NAMES_SHOWN: usize = 16;

/// Whether two are one policy.
fn is_same(one: &Arc<dyn Policy>, other: &Arc<dyn Policy>) -> bool {
    address(one) == address(other)
}

fn address(policy: &Arc<dyn Policy>) -> usize {
    Arc::as_ptr(policy).cast::<()>() as usize
}

#[cfg(test)]
mod tests {
    use petasos_engine::Without;

    use super::*;
    use crate::made::Kind;

    #[test]
    fn a_policy_is_forgotten_with_what_stands_for_its_engine() {
        let mut control = Control::default();
        // Many, since the order in which they are looked at is any.
        for _ in 0..64 {
            let kind = Kind::built_in("null").expect("it is one");
            let made = Made::new(kind, "").expect("it is right");
            let absent = made.absent(Without::Open);
            control.know(Known { made, rule: None });
            control.know(Known { made: absent, rule: None });
        }
        control.forget_unused();
        assert_eq!(control.known.len(), 0);
    }
}
