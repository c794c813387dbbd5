//! What the process does with it that takes over.

use std::sync::Arc;

use petasos_engine::{ClockShift, Left, Policy, State};
use petasos_service::Host;

use super::{Carried, Chain, Clocks, OwnPolicy};
use crate::control::{Control, Known};
use crate::made::{Kind, Made, MakeError};
use crate::plugins::Plugins;
use crate::ports::Owner;

/// An application whose engines go on from what others have left, until it attaches here.
pub struct Awaited {
    name: String,
    owner: Owner,
    /// The rules for it, by number. With others in force, it gets what they say.
    rules: Vec<u64>,
    engines: Vec<Engine>,
    clock: ClockShift,
}

/// An engine, of a rule or of a policy of its own.
struct Engine {
    rule: Option<u64>,
    own: Option<Made>,
    left: Option<State>,
}

impl Control {
    /// Lets policies go on from what those of another process have counted. To be called with the
    /// rules of that process in force, and before anybody attaches. What begins anew is told.
    ///
    /// # Errors
    /// Why all of it begins anew.
    pub fn go_on(&mut self, text: &[u8], host: &Host) -> Result<(), String> {
        let carried: Carried = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let Carried { clock, numbers, policies: states, applications } = carried;
        let mut policies = self.policies().clone();
        let mut rules = policies.rules().to_vec();
        if states.len() != rules.len() {
            return Err(format!("{} states for {} policies", states.len(), rules.len()));
        }
        host.inherit(numbers.into()).map_err(|error| error.to_string())?;
        let clock = Clocks::here().ahead_of(clock);
        for (rule, state) in rules.iter_mut().zip(states) {
            let Some(state) = state else { continue };
            match rule.made.going_on(state.into(), clock) {
                Ok(made) => rule.made = made,
                Err(error) => eprintln!("petasosd: policy {} begins anew: {error}", rule.id),
            }
        }
        policies.set(rules);
        self.set_policies(policies);
        self.forget_unused();
        self.awaited = applications.into_iter().map(|chain| self.made(chain, clock)).collect();
        Ok(())
    }

    /// Makes the policies of one application.
    fn made(&self, chain: Chain, clock: ClockShift) -> Awaited {
        let Chain { application: name, uid, pid, engines } = chain;
        let rules = self.policies().rules();
        let engines = engines.into_iter().filter_map(|link| {
            let rule = link.rule.and_then(|index| rules.get(index)).map(|rule| rule.id);
            let left = link.left.map(State::from);
            let Some(own) = link.own else { return Some(Engine { rule, own: None, left }) };
            let kind = own.kind.clone();
            match own.make(&self.plugins, clock) {
                Ok(made) => Some(Engine { rule, own: Some(made), left }),
                Err(error) => {
                    eprintln!("petasosd: `{name}` gets no engine of `{kind}`: {error}");
                    None
                }
            }
        });
        let engines = engines.collect();
        Awaited { rules: self.rules_for(&name), name, owner: (uid, pid), engines, clock }
    }

    fn rules_for(&self, name: &str) -> Vec<u64> {
        let rules = self.policies().rules().iter();
        rules.filter(|rule| rule.is_for(name)).map(|rule| rule.id).collect()
    }

    /// The policies of an application that attaches, the one next to it first, with what engines of
    /// them go on from. `owner` is the process that it comes from, if it comes from the process
    /// before this one.
    pub fn engines_for(
        &mut self,
        name: &str,
        owner: Option<Owner>,
    ) -> Vec<(Arc<dyn Policy>, Left)> {
        let is_it = |its: &Awaited| its.name == name && Some(its.owner) == owner;
        let awaited = self.awaited.iter().position(is_it).map(|index| self.awaited.remove(index));
        match awaited {
            Some(awaited) if awaited.rules == self.rules_for(name) => self.awaited_engines(awaited),
            Some(_) => {
                eprintln!("petasosd: engines of `{name}` begin anew, since the rules have changed");
                self.ruled_engines(name)
            }
            None => self.ruled_engines(name),
        }
    }

    fn ruled_engines(&self, name: &str) -> Vec<(Arc<dyn Policy>, Left)> {
        self.policies().of(name).map(|policy| (policy, Left::default())).collect()
    }

    fn awaited_engines(&mut self, awaited: Awaited) -> Vec<(Arc<dyn Policy>, Left)> {
        let Awaited { name, engines, clock, .. } = awaited;
        let mut placed = Vec::new();
        for Engine { rule, own, left } in engines {
            let ruled = rule.and_then(|id| self.policies().rule(id)).map(|rule| &rule.made);
            let Some(made) = own.or_else(|| ruled.cloned()) else { continue };
            let left = left.map(|state| made.engine_going_on(state, clock)).transpose();
            let left = left.unwrap_or_else(|error| {
                eprintln!("petasosd: an engine of `{name}` begins anew: {error}");
                None
            });
            placed.push((made.policy.clone(), left.unwrap_or_default()));
            self.know(Known { made, rule });
        }
        placed
    }

    /// The process before this one has ended: who has not come by now does not.
    pub fn forget_awaited(&mut self) {
        self.awaited.clear();
    }
}

impl OwnPolicy {
    /// The policy, from its state if it goes on from that.
    fn make(self, plugins: &Plugins, clock: ClockShift) -> Result<Made, MakeError> {
        let made = Made::new(Kind::find(&self.kind, plugins)?, &self.configuration.to_string())?;
        let Some(state) = self.state else { return Ok(made) };
        match made.going_on(State::from(state), clock) {
            Ok(made) => Ok(made),
            Err(error) => {
                eprintln!("petasosd: a policy of one application begins anew: {error}");
                Ok(made)
            }
        }
    }
}
