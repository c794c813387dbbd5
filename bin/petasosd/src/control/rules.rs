//! Changes of the rule set, which apply to the datapaths that are there at once.

use petasos_admin as proto;
use petasos_engine::{Application as Number, Place};

use super::change::Changer;
use super::{Known, StepError, is_same};
use crate::budget::{Budget, Over};
use crate::policies::{Made, NAME_BYTES_MAX, RULES_MAX, Rule};

impl Changer<'_, '_> {
    /// Adds a policy, and its engines.
    pub(super) fn add_policy(&mut self, step: &proto::AddPolicy) -> Result<String, StepError> {
        let mut rules = self.rules();
        if rules.len() >= RULES_MAX {
            return Err(StepError::TooManyRules);
        }
        if step.application().len() > NAME_BYTES_MAX {
            return Err(StepError::NameTooLong);
        }
        let index = step.index().map_or(rules.len(), |index| index as usize);
        if index > rules.len() {
            return Err(StepError::NoIndex { index, rules: rules.len() });
        }
        let made = Made::new(step.kind(), step.configuration())?;
        let budget = step.budget().map(budget_of).transpose()?;
        rules.insert(index, Rule { budget, ..Rule::new(step.application(), made) });
        self.set_rules(rules);
        let rules = self.rules();
        let rule = &rules[index];
        for number in self.applications_of(rule) {
            let place = self.place_behind(number, &rules[..index]);
            self.attach(number, place, known(rule))?;
        }
        Ok(format!("added policy {}, {} for `{}`", rule.id, step.kind(), step.application()))
    }

    /// Removes a policy, and its engines.
    pub(super) fn remove_policy(&mut self, id: u64) -> Result<String, StepError> {
        let mut rules = self.rules();
        let removed = rules.remove(index_of(&rules, id)?);
        self.set_rules(rules);
        for number in self.numbers() {
            self.detach_all(number, |rule| rule == id)?;
        }
        Ok(format!(
            "removed policy {id}, {} for `{}`",
            removed.made.kind_name(),
            removed.application
        ))
    }

    /// Gives a policy another configuration, wherever it has engines.
    pub(super) fn configure_policy(
        &mut self,
        id: u64,
        configuration: &str,
    ) -> Result<String, StepError> {
        let mut rules = self.rules();
        let index = index_of(&rules, id)?;
        rules[index].made = rules[index].made.anew(Some(configuration))?;
        let rule = rules[index].clone();
        self.set_rules(rules);
        for number in self.numbers() {
            if let Some(place) = self.place_of(number, id) {
                self.replace(number, place, known(&rule))?;
            }
        }
        Ok(format!("configured policy {id}, {} for `{}`", rule.made.kind_name(), rule.application))
    }

    /// Sets or removes the budget of a policy. Engines that were taken out come back.
    pub(super) fn set_budget(&mut self, step: &proto::SetBudget) -> Result<String, StepError> {
        let (mut rules, id) = (self.rules(), step.id());
        let index = index_of(&rules, id)?;
        rules[index].budget = step.budget().map(budget_of).transpose()?;
        let rule = rules[index].clone();
        self.set_rules(rules);
        for number in self.numbers() {
            let Some(place) = self.place_of(number, id) else { continue };
            let made = &self.engines(number)[place].made;
            if made.without().is_some() {
                // The one that was there, which may have a configuration of its own.
                let made = made.present();
                self.replace(number, place, Known { made, rule: Some(id) })?;
            }
        }
        let budget = match rule.budget {
            Some(budget) => format!("{} %, then {}", budget.percent(), budget.over.name()),
            None => "none".to_owned(),
        };
        Ok(format!("set the budget of policy {id}: {budget}"))
    }

    /// Brings all to what the file says.
    pub(super) fn reload(&mut self) -> Result<String, StepError> {
        let read = match &self.read {
            None => return Err(StepError::NoFile),
            Some(Err(wrong)) => return Err(StepError::File(wrong.clone())),
            Some(Ok(read)) => *read,
        };
        let rules = matched(self.rules(), read)?;
        self.set_rules(rules);
        let rules = self.rules();
        for number in self.numbers() {
            self.conform(number, &rules)?;
        }
        Ok(format!("reloaded {} policies", rules.len()))
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

    fn rules(&self) -> Vec<Rule> {
        self.world.control.policies().rules().to_vec()
    }

    fn numbers(&self) -> Vec<Number> {
        self.world.applications().iter().map(|application| application.number()).collect()
    }

    fn applications_of(&self, rule: &Rule) -> Vec<Number> {
        let its = self.world.applications().into_iter().filter(|its| rule.is_for(its.name()));
        its.map(|application| application.number()).collect()
    }

    /// Where the engine of a rule stands.
    fn place_of(&mut self, number: Number, id: u64) -> Option<Place> {
        self.engines(number).iter().position(|known| known.rule == Some(id))
    }

    /// The place behind the engine of the last of these rules that has one; 0 if none has.
    fn place_behind(&mut self, number: Number, rules: &[Rule]) -> Place {
        let engines = self.engines(number);
        let place = |rule: &Rule| engines.iter().position(|known| known.rule == Some(rule.id));
        rules.iter().rev().find_map(place).map_or(0, |place| place + 1)
    }

    /// Takes out the engines of some rules.
    fn detach_all(
        &mut self,
        number: Number,
        is_meant: impl Fn(u64) -> bool,
    ) -> Result<(), StepError> {
        let engines = self.engines(number);
        for (place, known) in engines.iter().enumerate().rev() {
            if known.rule.is_some_and(&is_meant) {
                self.detach(number, place)?;
            }
        }
        Ok(())
    }
}

fn known(rule: &Rule) -> Known {
    Known { made: rule.made.clone(), rule: Some(rule.id) }
}

/// A budget that an operator wants.
fn budget_of(wanted: &proto::Budget) -> Result<Budget, StepError> {
    let over = Over::ALL.into_iter().find(|over| over.name() == wanted.over());
    let over = over.ok_or_else(|| StepError::NoOver(wanted.over().to_owned()))?;
    Ok(Budget::new(wanted.percent(), over)?)
}

fn index_of(rules: &[Rule], id: u64) -> Result<usize, StepError> {
    rules.iter().position(|rule| rule.id == id).ok_or(StepError::NoRule(id))
}

/// The rules of a file. Those that are in the rule set as they are stay; one that is there with
/// another configuration goes on from its state.
fn matched(mut before: Vec<Rule>, read: &[Rule]) -> Result<Vec<Rule>, StepError> {
    let is_like = |a: &Rule, b: &Rule| {
        a.application == b.application && a.made.kind_name() == b.made.kind_name()
    };
    let mut rules: Vec<Option<Rule>> = vec![None; read.len()];
    for (rule, read) in rules.iter_mut().zip(read) {
        let is_same =
            |old: &Rule| is_like(old, read) && old.made.configuration == read.made.configuration;
        *rule = before.iter().position(is_same).map(|index| before.remove(index));
    }
    let filled = rules.into_iter().zip(read).map(|(rule, read)| {
        let budget = read.budget;
        if let Some(rule) = rule {
            return Ok(Rule { budget, ..rule });
        }
        let Some(index) = before.iter().position(|old| is_like(old, read)) else {
            return Ok(read.clone());
        };
        let old = before.remove(index);
        let made = old.made.anew(Some(&read.made.configuration))?;
        Ok(Rule { made, budget, ..old })
    });
    filled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(id: u64, application: &str, rate: u32) -> Rule {
        let configuration = format!(r#"{{"rate_per_s": {rate}, "burst": 1}}"#);
        let made = Made::new("rate_limit", &configuration).expect("it is right");
        Rule { id, ..Rule::new(application, made) }
    }

    #[test]
    fn a_reload_keeps_what_is_there_and_configures_what_differs() {
        let before = vec![rule(1, "*", 10), rule(2, "shop", 20), rule(3, "gone", 30)];
        let kept = before[1].made.policy.clone();
        let read = [rule(0, "shop", 20), rule(0, "new", 5), rule(0, "*", 11)];
        let rules = matched(before, &read).expect("all can be made");
        assert_eq!(rules.iter().map(|rule| rule.id).collect::<Vec<_>>(), [2, 0, 1]);
        assert!(is_same(&rules[0].made.policy, &kept), "its state is kept");
        assert!(rules[2].made.configuration.contains("11"), "{}", rules[2].made.configuration);
    }
}
