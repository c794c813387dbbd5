//! The steps of a plan, one by one.

use petasos_admin as proto;
use petasos_admin::step::What;
use petasos_engine::{Application as Number, Place};
use petasos_service::Digest;

use super::change::Changer;
use super::{Known, StepError};

/// The longest configuration in a description, in bytes.
const SHOWN_BYTES_MAX: usize = 512;

impl Changer<'_, '_> {
    /// Does a step. Gives what it has done.
    pub(super) fn step(&mut self, step: &proto::Step) -> Result<String, StepError> {
        match step.what().ok_or(StepError::Unknown)? {
            What::AttachEngine(step) => self.attach_engine(step),
            What::DetachEngine(step) => {
                let (number, place) = self.engine(step.engine())?;
                let kind = self.engines(number)[place].made.kind_name().to_owned();
                self.detach(number, place)?;
                Ok(format!("detached {kind} from {}", self.name_of(number)))
            }
            What::MoveEngine(step) => {
                let (number, from) = self.engine(step.engine())?;
                let kind = self.engines(number)[from].made.kind_name().to_owned();
                self.reorder(number, from, step.to() as Place)?;
                Ok(format!("moved {kind} of {} to place {}", self.name_of(number), step.to()))
            }
            What::ConfigureEngine(step) => {
                let configuration = step.configuration();
                self.renew(step.engine(), Some(configuration)).map(|of| format!("configured {of}"))
            }
            What::UpgradeEngine(step) => {
                self.renew(step.engine(), None).map(|of| format!("upgraded {of}"))
            }
            What::AddPolicy(step) => self.add_policy(step),
            What::RemovePolicy(step) => self.remove_policy(step.id()),
            What::ConfigurePolicy(step) => self.configure_policy(step.id(), step.configuration()),
            What::SetBudget(step) => self.set_budget(step),
            What::Reload(_) => self.reload(),
            What::SetQuota(step) => {
                let quota = step.quota().ok_or(StepError::Unknown)?;
                self.quotas().set(quota)?;
                Ok(format!("set the quota of {}", whose(quota.application())))
            }
            What::RemoveQuota(step) => {
                self.quotas().remove(step.application())?;
                Ok(format!("removed the quota of {}", whose(step.application())))
            }
            What::LoadSchema(step) => {
                let (digest, is_new) = self.load(step.schema())?;
                Ok(match is_new {
                    true => format!("loaded schema {digest}"),
                    false => format!("schema {digest} was loaded before"),
                })
            }
            What::EvictSchema(step) => {
                let digest = step.digest().parse()?;
                Ok(match self.evict(digest)? {
                    true => format!("evicted schema {digest}"),
                    false => format!("schema {digest} was not known; if it has a file, that goes"),
                })
            }
            What::ConfigureTransport(step) => {
                self.configure_transport(step)?;
                Ok(format!("configured the transport: {}", handed(step)))
            }
            What::AddRuntime(step) => self.add_runtime(step),
            What::RemoveRuntime(step) => self.remove_runtime(step.id()),
            What::PinRuntime(step) => self.pin_runtime(step),
            What::MoveApplication(step) => self.move_application(step),
            What::LoadPlugin(_) => self.load_plugin(),
            What::UnloadPlugin(step) => self.unload_plugin(step.name()),
        }
    }

    fn attach_engine(&mut self, step: &proto::AttachEngine) -> Result<String, StepError> {
        let number = self.world.find(step.application())?;
        let made = self.make(step.kind(), step.configuration())?;
        let kind = made.kind_name().to_owned();
        let last = self.application(number).datapath().len();
        let place = step.place().map_or(last, |place| place as Place);
        self.attach(number, place, Known { made, rule: None })?;
        Ok(format!("attached {kind} to {} at place {place}", self.name_of(number)))
    }

    /// Replaces an engine by one of the same kind that goes on from its policy's state and its own.
    fn renew(
        &mut self,
        at: Option<&proto::EngineAt>,
        configuration: Option<&str>,
    ) -> Result<String, StepError> {
        let (number, place) = self.engine(at)?;
        let Known { made, rule } = self.engines(number).swap_remove(place);
        let made = self.make_anew(&made, configuration)?;
        let kind = made.kind_name().to_owned();
        self.replace(number, place, Known { made, rule })?;
        Ok(format!("{kind} of {} at place {place}", self.name_of(number)))
    }

    /// What is known of the engine that is meant.
    pub(super) fn known_at(&mut self, at: Option<&proto::EngineAt>) -> Result<Known, StepError> {
        let (number, place) = self.engine(at)?;
        Ok(self.engines(number).swap_remove(place))
    }

    /// The engine that is meant.
    fn engine(&mut self, at: Option<&proto::EngineAt>) -> Result<(Number, Place), StepError> {
        let at = at.ok_or(StepError::Unknown)?;
        let number = self.world.find(at.application())?;
        let engines = self.engines(number);
        let is_kind = |place: &Place| {
            let kind = engines[*place].made.kind_name();
            at.kind().is_empty() || kind == at.kind()
        };
        let meant: Vec<Place> = match at.place() {
            Some(place) => Some(place as Place)
                .filter(|place| *place < engines.len())
                .into_iter()
                .filter(is_kind)
                .collect(),
            None => (0..engines.len()).filter(is_kind).collect(),
        };
        if let [place] = meant[..] {
            return Ok((number, place));
        }
        let kinds = engines.iter().enumerate();
        let kinds: Vec<_> =
            kinds.map(|(place, known)| format!("{place} {}", known.made.kind_name())).collect();
        let found = if meant.len() > 1 { "several engines are meant; " } else { "" };
        let those = if kinds.is_empty() { "no engines".to_owned() } else { kinds.join(", ") };
        Err(StepError::NoEngine(format!("{found}{} has {those}", self.name_of(number))))
    }
}

/// What a step is to do, for the audit log.
pub fn describe(step: &proto::Step) -> String {
    let Some(what) = step.what() else { return "nothing".to_owned() };
    match what {
        What::AttachEngine(step) => {
            let place = step.place().map_or(String::new(), |place| format!(" at {place}"));
            let (kind, configuration) = (step.kind(), shown(step.configuration()));
            format!("attach {kind}{place} to {}: {configuration}", step.application())
        }
        What::DetachEngine(step) => format!("detach {}", engine(step.engine())),
        What::MoveEngine(step) => format!("move {} to {}", engine(step.engine()), step.to()),
        What::ConfigureEngine(step) => {
            format!("configure {}: {}", engine(step.engine()), shown(step.configuration()))
        }
        What::UpgradeEngine(step) => format!("upgrade {}", engine(step.engine())),
        What::AddPolicy(step) => {
            let index = step.index().map_or(String::new(), |index| format!(" at {index}"));
            let (kind, configuration) = (step.kind(), shown(step.configuration()));
            let budget = step.budget().map_or(String::new(), |of| format!(", {}", budget(of)));
            format!("add policy {kind}{index} for {}: {configuration}{budget}", step.application())
        }
        What::RemovePolicy(step) => format!("remove policy {}", step.id()),
        What::ConfigurePolicy(step) => {
            format!("configure policy {}: {}", step.id(), shown(step.configuration()))
        }
        What::SetBudget(step) => {
            let budget = step.budget().map_or("no budget".to_owned(), budget);
            format!("set of policy {}: {budget}", step.id())
        }
        What::Reload(_) => "reload".to_owned(),
        What::SetQuota(step) => {
            let text = step.quota().map(|quota| format!("{quota:?}"));
            format!("set quota {}", shown(&text.unwrap_or_default()))
        }
        What::RemoveQuota(step) => format!("remove quota of {}", step.application()),
        What::LoadSchema(step) => {
            let schema = step.schema();
            format!("load schema {} of {} bytes", Digest::of(schema), schema.len())
        }
        What::EvictSchema(step) => format!("evict schema {}", shown(step.digest())),
        What::ConfigureTransport(step) => {
            format!("configure the transport: {}", handed(step))
        }
        What::AddRuntime(step) => {
            let cpu = step.cpu().map_or(String::new(), |cpu| format!(" on processor {cpu}"));
            format!("add a runtime for {}{cpu}", whose(shown(step.dedicated_to())))
        }
        What::RemoveRuntime(step) => format!("remove runtime {}", step.id()),
        What::PinRuntime(step) => {
            let cpu =
                step.cpu().map_or("any processor".to_owned(), |cpu| format!("processor {cpu}"));
            format!("let runtime {} run on {cpu}", step.id())
        }
        What::MoveApplication(step) => {
            format!("move {} to runtime {}", shown(step.application()), step.runtime())
        }
        What::LoadPlugin(step) => {
            format!("load plug-in {} from {}", shown(step.name()), shown(step.path()))
        }
        What::UnloadPlugin(step) => format!("unload plug-in {}", shown(step.name())),
    }
}

fn budget(budget: &proto::Budget) -> String {
    format!("budget {} %, then {}", budget.percent(), shown(budget.over()))
}

/// How packets are to be handed to what carries them.
fn handed(step: &proto::ConfigureTransport) -> &'static str {
    match (step.gathered(), step.fused()) {
        (Some(true), None) => "batches are gathered",
        (Some(false), None) => "each piece by itself",
        (None, Some(true)) => "batches share messages",
        (None, Some(false)) => "each packet by itself",
        (None, None) => "nothing",
        (Some(_), Some(_)) => "of two kinds",
    }
}

fn engine(at: Option<&proto::EngineAt>) -> String {
    let Some(at) = at else { return "nothing".to_owned() };
    let place = at.place().map_or(String::new(), |place| format!(" at {place}"));
    let kind = if at.kind().is_empty() { "engine" } else { at.kind() };
    format!("{kind}{place} of {}", at.application())
}

fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
}

fn whose(name: &str) -> String {
    if name.is_empty() { "others".to_owned() } else { format!("`{name}`") }
}
