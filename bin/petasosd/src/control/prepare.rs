//! What takes time of a change, done before the loop makes it.
//!
//! Policies of plug-ins are tried in a child process before they are made, plug-ins before they are
//! loaded, and files are read. The loop must wait for none of that. So a change is made in three
//! parts: the loop tells what there is that it is about ([`Survey`]), another thread makes what is
//! new ([`prepare`]), and the loop puts that in place. What an operator has changed meanwhile is
//! found then, and the change is refused ([`StepError::Changed`](super::StepError)).

use std::path::Path;
use std::sync::Arc;

use petasos_admin as proto;
use petasos_admin::step::What;

use super::World;
use super::change::Changer;
pub use super::ready::Ready;
use super::ready::{Anew, Loaded};
use crate::configuration::Reader;
use crate::made::{Kind, Made};
use crate::plugins::{Plugin, Plugins};
use crate::policies::{Before, Rule};

/// What there is that the steps of a change are about.
pub struct Survey {
    plugins: Plugins,
    rules: Vec<Rule>,
    /// For each step, the policies that it makes anew, if they are of plug-ins.
    concerned: Vec<Vec<Made>>,
}

/// Whether nothing of a change takes time, or has to wait for what does. The loop can tell of what
/// is made anew.
pub fn is_quick(world: &mut World<'_>, steps: &[proto::Step]) -> bool {
    steps.iter().all(|step| match step.what() {
        Some(What::AttachEngine(step)) => Kind::built_in(step.kind()).is_some(),
        Some(What::AddPolicy(step)) => Kind::built_in(step.kind()).is_some(),
        Some(What::LoadPlugin(_) | What::UnloadPlugin(_) | What::Reload(_)) => false,
        _ => concerned(world, step).is_empty(),
    })
}

impl Survey {
    /// What there is. To be called by the loop.
    pub fn take(world: &mut World<'_>, steps: &[proto::Step]) -> Survey {
        let plugins = world.control.plugins.clone();
        let rules = world.control.policies().rules().to_vec();
        let concerned = steps.iter().map(|step| concerned(world, step)).collect();
        Survey { plugins, rules, concerned }
    }
}

/// The policies of plug-ins that a step makes anew.
fn concerned(world: &mut World<'_>, step: &proto::Step) -> Vec<Made> {
    let of_plugin = |made: &Made| made.plugin().is_some();
    let at = match step.what() {
        Some(What::ConfigureEngine(step)) => step.engine(),
        Some(What::UpgradeEngine(step)) => step.engine(),
        Some(What::ConfigurePolicy(step)) => {
            let rule = world.control.policies().rule(step.id());
            return rule.map(|rule| rule.made.clone()).filter(of_plugin).into_iter().collect();
        }
        Some(What::LoadPlugin(step)) => {
            let known = world.control.known.values().map(|known| &known.made);
            let its = known.filter(|made| made.plugin().is_some_and(|of| of.name == step.name()));
            // One whose engine was taken out is there, too.
            return its.filter(|made| made.without().is_none()).cloned().collect();
        }
        // Engines that operators have attached: a reload may bring another version.
        Some(What::Reload(_)) => {
            let known = world.control.known.values().filter(|known| known.rule.is_none());
            let made = known.map(|known| &known.made).filter(|made| made.without().is_none());
            return made.filter(|made| of_plugin(made)).cloned().collect();
        }
        _ => return Vec::new(),
    };
    // One that is not there is found when the step is done.
    let known = Changer::look(world).known_at(at);
    known.ok().map(|known| known.made).filter(of_plugin).into_iter().collect()
}

/// Makes what the steps need, in their order. Waits for the trials of plug-ins and their policies.
/// A configuration is this text, if there is one.
pub fn prepare(
    survey: Survey,
    steps: &[proto::Step],
    (reader, text): (&Reader, Option<&str>),
) -> Vec<Ready> {
    let Survey { mut plugins, rules, concerned } = survey;
    let steps = steps.iter().zip(concerned);
    let ready = steps.map(|(step, concerned)| {
        let Some(what) = step.what() else { return Ready::Nothing };
        match what {
            What::AttachEngine(step) => policy(step.kind(), step.configuration(), &plugins),
            What::AddPolicy(step) => policy(step.kind(), step.configuration(), &plugins),
            What::ConfigureEngine(step) => {
                Ready::Anew(anew(&concerned, &plugins, Some(step.configuration())))
            }
            What::ConfigurePolicy(step) => {
                Ready::Anew(anew(&concerned, &plugins, Some(step.configuration())))
            }
            What::UpgradeEngine(_) => Ready::Anew(anew(&concerned, &plugins, None)),
            What::LoadPlugin(step) => {
                Ready::Plugin(load((step.name(), step.path()), &concerned, &mut plugins))
            }
            What::UnloadPlugin(step) => {
                plugins.take(step.name());
                Ready::Nothing
            }
            What::Reload(_) => {
                let before = Before { plugins: &plugins, rules: &rules };
                let live = reader.read(text, before);
                Ready::Configuration(live.map(|live| {
                    let anew = replaced(concerned, &live.plugins);
                    Box::new((live, anew))
                }))
            }
            _ => Ready::Nothing,
        }
    });
    ready.collect()
}

/// A policy of a plug-in. One that is built in is made by the loop.
fn policy(kind: &str, configuration: &str, plugins: &Plugins) -> Ready {
    match plugins.find(kind) {
        Some(plugin) => {
            Ready::Policy(Box::new(Made::new(Kind::Plugin(plugin.clone()), configuration)))
        }
        None => Ready::Nothing,
    }
}

/// Policies of plug-ins that another version takes the place of.
fn replaced(before: Vec<Made>, plugins: &Plugins) -> Vec<Anew> {
    let other = |made: &Made| {
        let its = made.plugin().expect("the loop has looked");
        plugins.find(&its.name).is_some_and(|there| !Arc::ptr_eq(there, its))
    };
    let before: Vec<_> = before.into_iter().filter(other).collect();
    anew(&before, plugins, None)
}

/// Policies of plug-ins, of the versions that there are.
fn anew(before: &[Made], plugins: &Plugins, configuration: Option<&str>) -> Vec<Anew> {
    let made = before.iter().map(|before| {
        let plugin = before.plugin().and_then(|its| plugins.find(&its.name));
        let kind = plugin.map_or_else(|| before.kind.clone(), |its| Kind::Plugin(its.clone()));
        Anew { before: before.policy.clone(), made: before.anew_by(kind, configuration) }
    });
    made.collect()
}

fn load(
    (name, path): (&str, &str),
    concerned: &[Made],
    plugins: &mut Plugins,
) -> Result<Loaded, String> {
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err(format!("plug-in `{name}`: give an absolute path, not {}", path.display()));
    }
    let plugin = Arc::new(Plugin::load(name, path)?);
    plugins.put(plugin.clone())?;
    Ok((plugin, anew(concerned, plugins, None)))
}
