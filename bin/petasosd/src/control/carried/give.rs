//! What the process tells that is taken over from.

use petasos_engine::{Application as Number, Place, State};

use super::{Carried, Chain, Clocks, Link, OwnPolicy, StateText};
use crate::control::{World, is_same};
use crate::made::Made;
use crate::policies::Rule;
use crate::ports::owner;
use crate::takeover::STATES_BYTES_MAX;

/// The most bytes of all states together: as JSON in JSON they are longer.
const JSON_BYTES_MAX: usize = STATES_BYTES_MAX / 3;

/// The room that is left for states.
struct Room(usize);

impl Room {
    /// A state of a policy of this kind, or of an engine, if there is room for it.
    fn take(&mut self, kind: &str, state: State) -> Option<StateText> {
        let bytes = state.json.len();
        match self.0.checked_sub(bytes) {
            Some(left) => {
                self.0 = left;
                Some(state.into())
            }
            None => {
                eprintln!("petasosd: `{kind}` begins anew somewhere: its state has {bytes} bytes");
                None
            }
        }
    }

    fn of_policy(&mut self, made: &Made) -> Option<StateText> {
        self.take(made.kind_name(), made.policy.state())
    }
}

/// An engine of an application.
struct Engine {
    /// The rule for which it was made, by its index.
    rule: Option<usize>,
    made: Made,
    /// Its policy is the rule's.
    is_rules: bool,
}

impl World<'_> {
    /// What policies have counted, for the process that takes over; nothing if it is too long.
    pub fn carried(&mut self) -> Vec<u8> {
        let mut room = Room(JSON_BYTES_MAX);
        let rules = self.control.policies().rules().iter();
        let policies = rules.map(|rule| room.of_policy(&rule.made)).collect();
        let applications = self.chains(&mut room);
        let numbers = self.first.common.host.policy_numbers().into();
        let carried = Carried { clock: Clocks::here(), numbers, policies, applications };
        let text = serde_json::to_vec(&carried).expect("it is plain data");
        if text.len() > STATES_BYTES_MAX {
            eprintln!("petasosd: policies begin anew: their states have {} bytes", text.len());
            return Vec::new();
        }
        text
    }

    /// The engines of the applications that have others than the rules say, or of which some have
    /// something of their own.
    fn chains(&mut self, room: &mut Room) -> Vec<Chain> {
        let members = self.members();
        let members: Vec<_> = members
            .map(|(number, (_, member))| (number, member.name.clone(), owner(member.who)))
            .collect();
        let chains = members.into_iter().filter_map(|(number, application, (uid, pid))| {
            let engines = self.links(number, room)?;
            Some(Chain { application, uid, pid, engines })
        });
        chains.collect()
    }

    fn links(&mut self, number: Number, room: &mut Room) -> Option<Vec<Link>> {
        let (engines, is_as_ruled) = self.engines_of(number)?;
        if is_as_ruled && !engines.iter().any(|engine| engine.made.carries_engines()) {
            return None;
        }
        let links = engines.into_iter().enumerate().map(|(place, engine)| {
            let Engine { rule, made, is_rules } = engine;
            let left = self.left((number, place), &made);
            let left = left.and_then(|state| room.take(made.kind_name(), state));
            let own = (!is_rules).then(|| OwnPolicy {
                kind: made.kind_name().to_owned(),
                configuration: serde_json::from_str(&made.configuration).expect("it was checked"),
                state: room.of_policy(&made),
            });
            Link { rule, own, left }
        });
        Some(links.collect())
    }

    /// The engines of an application, and whether they are those that the rules say. One that was
    /// taken out comes back at the other process (E8).
    fn engines_of(&self, number: Number) -> Option<(Vec<Engine>, bool)> {
        let mut applications = self.runtimes().flat_map(|runtime| runtime.hub.applications());
        let application = applications.find(|application| application.number() == number)?;
        let rules = self.control.policies().rules().iter().enumerate();
        let its: Vec<(usize, &Rule)> =
            rules.filter(|(_, rule)| rule.is_for(application.name())).collect();
        let datapath = application.datapath();
        let policies = (0..datapath.len()).filter_map(|place| datapath.policy(place));
        let engines = policies.map(|policy| {
            let known = self.control.known(policy);
            let made = known.made.present();
            let rule = its.iter().find(|(_, rule)| known.rule == Some(rule.id));
            let is_rules = rule.is_some_and(|(_, rule)| is_same(&rule.made.policy, &made.policy));
            Engine { rule: rule.map(|(index, _)| *index), made, is_rules }
        });
        let engines: Vec<Engine> = engines.collect();
        let as_ruled = its.iter().map(|(index, _)| Some(*index));
        let is_as_ruled = engines.iter().all(|engine| engine.is_rules)
            && engines.iter().map(|engine| engine.rule).eq(as_ruled);
        Some((engines, is_as_ruled))
    }

    /// What an engine has of its own, if other processes go on from that.
    fn left(&mut self, (number, place): (Number, Place), made: &Made) -> Option<State> {
        if !made.carries_engines() {
            return None;
        }
        let application = self.application(number)?;
        application.engine_state(place).unwrap_or_else(|error| {
            eprintln!("petasosd: an engine of `{}` is broken: {error}", application.name());
            None
        })
    }
}
