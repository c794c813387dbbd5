//! The step that brings all to what the configuration says.

use petasos_engine::{Application as Number, Place};

use super::change::Changer;
use super::ready::Ready;
use super::rules::known;
use super::undo::Undo;
use super::{StepError, World, is_same};
use crate::configuration::{Live, Whole};
use crate::made::Kind;
use crate::policies::Rule;
use crate::transport::{ApplicationTransport, Peers};

/// Why other hosts are not reached at all.
const NO_HOSTS: &str = "the service was started without other hosts: with `listen`, \
                        `listen-grpc`, a peer or the transport of an application, they can be \
                        called";

impl Changer<'_, '_> {
    /// Brings all to what the configuration says.
    pub(super) fn reload(&mut self) -> Result<String, StepError> {
        let Ready::Configuration(read) = std::mem::take(&mut self.ready) else {
            return Err(StepError::Changed);
        };
        let (Live { plugins, rules, whole }, anew) = *read.map_err(StepError::Configuration)?;
        let mut said = Vec::new();
        if let Some(whole) = whole {
            self.set_whole(whole)?;
            self.set_rules_to(&rules.unwrap_or_default())?;
            let stay = self.set_plugins(&plugins, anew)?;
            said.extend(stay.iter().map(|name| format!("plug-in `{name}` stays, it is in use")));
        } else {
            let rules = rules.ok_or(StepError::NoFile)?;
            if !rules.iter().all(|rule| self.has_plugin_of(&rule.made)) {
                return Err(StepError::Changed);
            }
            self.set_rules_to(&rules)?;
        }
        let policies = self.rules().len();
        said.insert(0, format!("reloaded {policies} policies"));
        Ok(said.join("; "))
    }

    /// All that a configuration says besides policies and plug-ins.
    fn set_whole(&mut self, whole: Whole) -> Result<(), StepError> {
        let Whole { names, quotas, peers, transports } = whole;
        *self.quotas() = quotas;
        let before = std::mem::replace(&mut self.world.control.names, names);
        self.undo(Undo::Names(before));
        let before = self.world.set_peers(peers);
        if let Some(before) = before.map_err(StepError::Configuration)? {
            self.undo(Undo::Peers(Box::new(before)));
        }
        let may = self.world.transport.as_ref().map(|transport| transport.may_become(&transports));
        may.transpose().map_err(StepError::Configuration)?;
        let before = self.world.set_transports(transports);
        if let Some(before) = before.map_err(StepError::Configuration)? {
            self.undo(Undo::Transports(before));
        }
        Ok(())
    }

    fn set_rules_to(&mut self, read: &[Rule]) -> Result<(), StepError> {
        let rules = matched(&self.rules(), read)?;
        self.set_rules(rules);
        self.conform_all()
    }

    /// Gives all applications the engines of the rules for them.
    fn conform_all(&mut self) -> Result<(), StepError> {
        self.conform_from(Number(0))
    }

    /// Gives applications with this number and greater ones the engines of the rules for them.
    pub(super) fn conform_from(&mut self, first: Number) -> Result<(), StepError> {
        let rules = self.rules();
        for number in self.numbers().into_iter().filter(|number| *number >= first) {
            self.conform(number, &rules)?;
        }
        Ok(())
    }

    /// Gives an application the engines of the rules for it, in their order. Others stay.
    fn conform(&mut self, number: Number, rules: &[Rule]) -> Result<(), StepError> {
        let name = self.application(number).name().to_owned();
        let its: Vec<&Rule> = rules.iter().filter(|rule| rule.is_for(&name)).collect();
        self.detach_all(number, |id| its.iter().all(|rule| rule.id != id))?;
        let mut next: Place = 0;
        for rule in its {
            match self.place_of(number, rule.id) {
                None => self.attach(number, next, known(rule))?,
                Some(place) => {
                    let at = self.application(number).datapath().policy(place);
                    if !at.is_some_and(|policy| is_same(policy, &rule.made.policy)) {
                        self.replace(number, place, known(rule))?;
                    }
                    if place < next {
                        // Those between the two places move by one.
                        next -= 1;
                        self.reorder(number, place, next)?;
                    } else {
                        next = place;
                    }
                }
            }
            next += 1;
        }
        Ok(())
    }
}

impl World<'_> {
    /// Puts other hosts in the place of those that there are. Gives those, if anything changes.
    ///
    /// # Errors
    /// What is wrong with them. Nothing has changed then.
    pub(super) fn set_peers(&mut self, peers: Peers) -> Result<Option<Peers>, String> {
        match &mut self.transport {
            Some(transport) => transport.set_peers(peers, &mut self.first.hub),
            None if peers.peers.is_empty() => Ok(None),
            None => Err(NO_HOSTS.to_owned()),
        }
    }

    /// Gives applications transports of their own in the place of those that there are. Gives
    /// those, if anything changes.
    ///
    /// # Errors
    /// What is wrong with them. Nothing has changed then.
    pub(super) fn set_transports(
        &mut self,
        transports: Vec<ApplicationTransport>,
    ) -> Result<Option<Vec<ApplicationTransport>>, String> {
        let Some(transport) = &mut self.transport else {
            return if transports.is_empty() { Ok(None) } else { Err(NO_HOSTS.to_owned()) };
        };
        let reached = transport.reached();
        let now = self.first.now();
        let before = transport.set_applications(transports, &mut self.first.hub, now)?;
        if before.is_some() {
            transport.announce(&reached);
            self.control.packets = Some(transport.carried());
            self.control.grpc_refusals = transport.grpc_refusals();
        }
        Ok(before)
    }
}

/// The rules that were read, each with the number of the one that it goes on from. That is kept if
/// it is the same, and otherwise a policy that is built in goes on from its state of now.
fn matched(before: &[Rule], read: &[Rule]) -> Result<Vec<Rule>, StepError> {
    let one = |read: &Rule| {
        if read.id == 0 {
            return Ok(read.clone());
        }
        let old = before.iter().find(|old| old.id == read.id).ok_or(StepError::Changed)?;
        let is_same = old.made.configuration == read.made.configuration;
        let made = match &read.made.kind {
            kind if is_same && old.made.kind.is(kind) => old.made.clone(),
            Kind::BuiltIn(_) => old.made.anew(Some(&read.made.configuration))?,
            // Whoever has read it has made it so.
            Kind::Plugin(_) => read.made.clone(),
        };
        Ok(Rule { made, budget: read.budget, ..old.clone() })
    };
    read.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    fn rule(id: u64, rate: u32) -> Rule {
        let configuration = format!(r#"{{"rate_per_s": {rate}, "burst": 1}}"#);
        let made = Made::new(Kind::built_in("rate_limit").expect("it is one"), &configuration);
        Rule { id, ..Rule::new("*", made.expect("it is right")) }
    }

    #[test]
    fn a_reload_keeps_what_is_there_and_configures_what_differs() {
        let before = [rule(1, 10), rule(2, 20), rule(3, 30)];
        let read = [rule(2, 20), rule(0, 5), rule(1, 11)];
        let rules = matched(&before, &read).expect("all can be made");
        assert_eq!(rules.iter().map(|rule| rule.id).collect::<Vec<_>>(), [2, 0, 1]);
        assert!(is_same(&rules[0].made.policy, &before[1].made.policy), "its state is kept");
        assert!(rules[2].made.configuration.contains("11"), "{}", rules[2].made.configuration);
        let gone = matched(&before, &[rule(9, 20)]);
        assert!(matches!(gone, Err(StepError::Changed)));
    }
}
