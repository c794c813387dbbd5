//! Changes of the rule set, which apply to the datapaths that are there at once.

use petasos_admin as proto;
use petasos_engine::{Application as Number, Place};

use super::change::Changer;
use super::{Known, StepError};
use crate::budget::{Budget, Over};
use crate::policies::{NAME_BYTES_MAX, RULES_MAX, Rule};

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
        let made = self.make(step.kind(), step.configuration())?;
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
        let before = rules[index].made.clone();
        rules[index].made = self.make_anew(&before, Some(configuration))?;
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

    pub(super) fn rules(&self) -> Vec<Rule> {
        self.world.control.policies().rules().to_vec()
    }

    pub(super) fn numbers(&self) -> Vec<Number> {
        self.world.applications().iter().map(|application| application.number()).collect()
    }

    fn applications_of(&self, rule: &Rule) -> Vec<Number> {
        let its = self.world.applications().into_iter().filter(|its| rule.is_for(its.name()));
        its.map(|application| application.number()).collect()
    }

    /// Where the engine of a rule stands.
    pub(super) fn place_of(&mut self, number: Number, id: u64) -> Option<Place> {
        self.engines(number).iter().position(|known| known.rule == Some(id))
    }

    /// The place behind the engine of the last of these rules that has one; 0 if none has.
    fn place_behind(&mut self, number: Number, rules: &[Rule]) -> Place {
        let engines = self.engines(number);
        let place = |rule: &Rule| engines.iter().position(|known| known.rule == Some(rule.id));
        rules.iter().rev().find_map(place).map_or(0, |place| place + 1)
    }

    /// Takes out the engines of some rules.
    pub(super) fn detach_all(
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

pub(super) fn known(rule: &Rule) -> Known {
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
