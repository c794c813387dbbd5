//! Steps about plug-ins, and what is to be made of their policies.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_engine::{Place, Policy};
use petasos_plugin::Mapping;

use super::change::Changer;
use super::ready::{Anew, Ready, take_anew};
use super::undo::Undo;
use super::{Control, Known, StepError, World, address};
use crate::made::{Kind, Made, MakeError};
use crate::plugins::{LeftPlugin, Plugin, Plugins};

/// So many are remembered that were left.
const LEFT_MAX: usize = 64;

impl Changer<'_, '_> {
    /// A policy for this step, prepared if it is of a plug-in.
    pub(super) fn make(&mut self, kind: &str, configuration: &str) -> Result<Made, StepError> {
        if let Ready::Policy(made) = std::mem::take(&mut self.ready) {
            let made = (*made)?;
            return if self.has_plugin_of(&made) { Ok(made) } else { Err(StepError::Changed) };
        }
        match Kind::find(kind, &self.world.control.plugins)? {
            // It was loaded after this was prepared.
            Kind::Plugin(_) => Err(StepError::Changed),
            built_in => Ok(Made::new(built_in, configuration)?),
        }
    }

    /// Whether what has made a policy is there, of this version.
    pub(super) fn has_plugin_of(&self, made: &Made) -> bool {
        let plugins = &self.world.control.plugins;
        let is_there = |its: &Arc<Plugin>| {
            plugins.find(&its.name).is_some_and(|there| Arc::ptr_eq(there, its))
        };
        made.plugin().is_none_or(is_there)
    }

    /// A policy that goes on from one, prepared if it is of a plug-in.
    pub(super) fn make_anew(
        &mut self,
        before: &Made,
        configuration: Option<&str>,
    ) -> Result<Made, StepError> {
        if before.plugin().is_none() {
            return Ok(before.anew(configuration)?);
        }
        let Ready::Anew(all) = &mut self.ready else { return Err(StepError::Changed) };
        Ok(take_anew(all, &before.policy).ok_or(StepError::Changed)??)
    }

    /// Puts a plug-in that was loaded in place. Policies and engines of the one before go on with
    /// it.
    pub(super) fn load_plugin(&mut self) -> Result<String, StepError> {
        let Ready::Plugin(ready) = std::mem::take(&mut self.ready) else {
            return Err(StepError::Changed);
        };
        let (plugin, anew) = ready.map_err(StepError::Plugin)?;
        let (name, path) = (plugin.name.clone(), plugin.path.display().to_string());
        let before = self.plugins().put(plugin).map_err(StepError::Plugin)?;
        let Some(before) = before else {
            return Ok(format!("loaded plug-in `{name}` from {path}"));
        };
        self.left(&before);
        let (policies, engines) = self.go_on_with(&name, anew)?;
        Ok(format!(
            "replaced plug-in `{name}` by {path}: {policies} policies and {engines} engines go on"
        ))
    }

    /// Puts policies in the places of all that a plug-in has. Gives how many of the rule set, and
    /// how many engines.
    fn go_on_with(&mut self, name: &str, anew: Vec<Anew>) -> Result<(usize, usize), StepError> {
        let is_its = |made: &Made| made.plugin().is_some_and(|its| its.name == name);
        let mut made = Successors { anew, made: HashMap::new() };
        let mut rules = self.world.control.policies().rules().to_vec();
        let mut policies = 0;
        for rule in rules.iter_mut().filter(|rule| is_its(&rule.made)) {
            rule.made = made.of(&rule.made.policy)?;
            policies += 1;
        }
        self.set_rules(rules);
        let mut engines = 0;
        for number in self.numbers() {
            for (place, Known { made: before, rule }) in self.engines(number).iter().enumerate() {
                if is_its(before) {
                    let known = Known { made: made.of(&before.present().policy)?, rule: *rule };
                    self.replace(number, place as Place, known)?;
                    engines += 1;
                }
            }
        }
        Ok((policies, engines))
    }

    /// Forgets a plug-in that nothing is of.
    pub(super) fn unload_plugin(&mut self, name: &str) -> Result<String, StepError> {
        if self.world.control.plugins.find(name).is_none() {
            return Err(StepError::NoPlugin(name.to_owned()));
        }
        let (policies, engines) = self.world.uses_of(name);
        if policies + engines > 0 {
            return Err(StepError::PluginInUse { name: name.to_owned(), policies, engines });
        }
        let plugin = self.plugins().take(name).expect("it was just there");
        self.left(&plugin);
        Ok(format!("unloaded plug-in `{name}`"))
    }

    /// Puts the plug-ins in place that a configuration names, and forgets others that nothing is
    /// of. Gives those that stay although it does not name them.
    pub(super) fn set_plugins(
        &mut self,
        wanted: &Plugins,
        anew: Vec<Anew>,
    ) -> Result<Vec<String>, StepError> {
        let before = self.world.control.plugins.clone();
        let mut stay = Vec::new();
        for plugin in before.iter().filter(|plugin| wanted.find(&plugin.name).is_none()) {
            match self.world.uses_of(&plugin.name) {
                (0, 0) => {
                    self.plugins().take(&plugin.name);
                    self.left(plugin);
                }
                _ => stay.push(plugin.name.clone()),
            }
        }
        for plugin in wanted.iter() {
            if before.find(&plugin.name).is_none_or(|there| !Arc::ptr_eq(there, plugin)) {
                let replaced = self.plugins().put(plugin.clone()).map_err(StepError::Plugin)?;
                replaced.iter().for_each(|replaced| self.left(replaced));
            }
        }
        let mut made = Successors { anew, made: HashMap::new() };
        for number in self.numbers() {
            for (place, known) in self.engines(number).iter().enumerate() {
                if !self.has_plugin_of(&known.made) && wanted.find(known.made.kind_name()).is_some()
                {
                    let successor = made.of(&known.made.present().policy)?;
                    let known = Known { made: successor, rule: known.rule };
                    self.replace(number, place as Place, known)?;
                }
            }
        }
        Ok(stay)
    }

    /// Lets the plug-ins be changed.
    fn plugins(&mut self) -> &mut Plugins {
        self.undo(Undo::Plugins(self.world.control.plugins.clone()));
        &mut self.world.control.plugins
    }

    /// Puts the plug-ins in place that there were before.
    pub(super) fn put_back(&mut self, before: Plugins) {
        let put_out = std::mem::replace(&mut self.world.control.plugins, before);
        put_out.iter().for_each(|plugin| self.left(plugin));
    }

    fn left(&mut self, plugin: &Arc<Plugin>) {
        self.left.extend(plugin.left());
    }
}

/// What has taken the places of policies: engines that shared one share its successor.
struct Successors {
    anew: Vec<Anew>,
    made: HashMap<usize, Made>,
}

impl Successors {
    fn of(&mut self, before: &Arc<dyn Policy>) -> Result<Made, StepError> {
        if let Some(made) = self.made.get(&address(before)) {
            return Ok(made.clone());
        }
        // One that was not there when this was prepared.
        let made: Result<Made, MakeError> =
            take_anew(&mut self.anew, before).ok_or(StepError::Changed)?;
        let made = made?;
        self.made.insert(address(before), made.clone());
        Ok(made)
    }
}

impl Control {
    /// Remembers plug-ins that were unloaded or replaced, as long as they are mapped, and not those
    /// that are there again.
    pub(super) fn remember_left(&mut self, left: Vec<LeftPlugin>) {
        for one in left {
            if !self.left.iter().any(|known| known.is_same(&one)) {
                self.left.push(one);
            }
        }
        let plugins = &self.plugins;
        self.left.retain(|one| {
            one.mapping() != Mapping::Unmapped && !plugins.iter().any(|there| one.is(there))
        });
        let excess = self.left.len().saturating_sub(LEFT_MAX);
        self.left.drain(..excess);
    }

    /// Plug-ins that were unloaded or replaced, and are still mapped.
    pub fn left(&self) -> impl Iterator<Item = &LeftPlugin> {
        self.left.iter().filter(|one| one.mapping() != Mapping::Unmapped)
    }
}

impl World<'_> {
    /// How many policies of the rule set, and how many engines, are of a plug-in.
    pub fn uses_of(&self, plugin: &str) -> (usize, usize) {
        let is_its = |made: &Made| made.plugin().is_some_and(|its| its.name == plugin);
        let rules = self.control.policies().rules().iter();
        let policies = rules.filter(|rule| is_its(&rule.made)).count();
        let engines = self.applications().into_iter().map(|application| {
            let datapath = application.datapath();
            let policies = (0..datapath.len()).filter_map(|place| datapath.policy(place));
            policies.filter(|policy| is_its(&self.control.known(policy).made)).count()
        });
        (policies, engines.sum())
    }
}
