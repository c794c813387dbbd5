//! `petasos ctl apply`: a plan from a file.

use clap::Args;
use petasos::Msg;
use petasos_admin::{BudgetMut, ChangeRequest, EngineAtMut, STEPS_MAX, StepMut};
use petasos_cli::admin::ServiceArgs;
use petasos_cli::failed::Failed;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::plugin::{LoadPluginArgs, UnloadPluginArgs};
use super::quota::Values;
use super::runtime::{AddArgs, MoveArgs, PinArgs, RemoveArgs};
use super::schema::LoadArgs;
use super::transport::TransportArgs;
use super::{read, schema};

/// The arguments of `petasos ctl apply`.
#[derive(Args)]
pub struct ApplyArgs {
    /// The plan: a JSON list of steps, such as {"attach": {"application": "shop", "kind": "null"}};
    /// `-` is standard input. A step is one of attach, detach, move, configure, upgrade,
    /// add_policy, remove_policy, configure_policy, set_budget, reload, set_quota, remove_quota,
    /// load_plugin, unload_plugin, configure_transport, load_schema, evict_schema, add_runtime,
    /// remove_runtime, pin_runtime, move_application.
    #[arg(value_name = "FILE")]
    file: String,
}

type Object = Map<String, Value>;

/// A step, with the names of the commands' arguments.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    Attach(Attach),
    Detach(Engine),
    Move(Move),
    Configure(Configure),
    Upgrade(Engine),
    AddPolicy(AddPolicy),
    RemovePolicy(Id),
    ConfigurePolicy(ConfigurePolicy),
    SetBudget(SetBudget),
    Reload(Nothing),
    LoadPlugin(LoadPluginArgs),
    UnloadPlugin(UnloadPluginArgs),
    SetQuota(SetQuota),
    RemoveQuota(Name),
    LoadSchema(LoadArgs),
    EvictSchema(Evict),
    ConfigureTransport(TransportArgs),
    AddRuntime(AddArgs),
    RemoveRuntime(RemoveArgs),
    PinRuntime(PinArgs),
    MoveApplication(MoveArgs),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Id {
    id: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Name {
    application: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    application: String,
    kind: String,
    #[serde(default)]
    configuration: Object,
    place: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    application: String,
    place: Option<u32>,
    #[serde(default)]
    kind: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    application: String,
    place: Option<u32>,
    #[serde(default)]
    kind: String,
    to: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configure {
    application: String,
    place: Option<u32>,
    #[serde(default)]
    kind: String,
    configuration: Object,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddPolicy {
    application: String,
    kind: String,
    #[serde(default)]
    configuration: Object,
    index: Option<u32>,
    budget: Option<Budget>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    percent: f64,
    #[serde(default = "report")]
    over: String,
}

fn report() -> String {
    "report".to_owned()
}

impl Budget {
    fn fill(&self, mut to: BudgetMut<'_>) {
        to.set_percent(self.percent).set_over(&self.over);
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetBudget {
    id: u64,
    budget: Option<Budget>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigurePolicy {
    id: u64,
    configuration: Object,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetQuota {
    #[serde(default)]
    application: String,
    items: Option<u64>,
    message_bytes: Option<u64>,
    metadata_bytes: Option<u64>,
    held_bytes: Option<u64>,
    descriptors: Option<u64>,
    processor_percent: Option<f64>,
    calls: Option<u64>,
    send_heap_bytes: Option<u64>,
    receive_heap_bytes: Option<u64>,
}

impl SetQuota {
    fn values(&self) -> Values {
        Values {
            items: self.items,
            message_bytes: self.message_bytes,
            metadata_bytes: self.metadata_bytes,
            held_bytes: self.held_bytes,
            descriptors: self.descriptors,
            processor_percent: self.processor_percent,
            calls: self.calls,
            send_heap_bytes: self.send_heap_bytes,
            receive_heap_bytes: self.receive_heap_bytes,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evict {
    digest: String,
}

/// Has the service do a plan.
pub fn run(service: &ServiceArgs, args: &ApplyArgs) -> Result<(), Failed> {
    let text = read(&args.file)?;
    let mut plan = plan(&text).map_err(|error| {
        Failed::new(format!("{} is no plan: {error}", args.file))
            .with_advice("`petasos ctl apply --help` says what a plan is; nothing was done")
    })?;
    service.change(request_at(service, &mut plan)?)
}

/// The request for a plan, with what its files have, and with whole digests of the schemas that the
/// service knows.
pub fn request_at(service: &ServiceArgs, plan: &mut [Step]) -> Result<Msg<ChangeRequest>, Failed> {
    for step in &mut *plan {
        if let Step::EvictSchema(Evict { digest }) = step {
            *digest = schema::whole(service, digest)?;
        }
    }
    request(plan)
}

fn plan(text: &str) -> Result<Vec<Step>, String> {
    let plan: Vec<Step> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if plan.is_empty() || plan.len() > STEPS_MAX {
        return Err(format!("it has {} steps, and not 1 to {STEPS_MAX}", plan.len()));
    }
    Ok(plan)
}

/// The request for a plan, with what its files have.
fn request(plan: &[Step]) -> Result<Msg<ChangeRequest>, Failed> {
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    let mut steps = edit.steps_mut();
    for step in plan {
        write(step, &mut steps.add())?;
    }
    Ok(request)
}

fn write(step: &Step, to: &mut StepMut<'_>) -> Result<(), Failed> {
    match step {
        Step::Attach(step) => {
            let mut attach = to.attach_engine_mut();
            attach.set_application(&step.application).set_kind(&step.kind);
            attach.set_configuration(json(&step.configuration));
            step.place.map(|place| attach.set_place(place).place());
        }
        Step::Detach(step) => at(&mut to.detach_engine_mut().engine_mut(), step),
        Step::Move(step) => {
            let mut change = to.move_engine_mut();
            change.set_to(step.to);
            let Move { application, place, kind, .. } = step;
            let (application, kind) = (application.clone(), kind.clone());
            at(&mut change.engine_mut(), &Engine { application, place: *place, kind });
        }
        Step::Configure(step) => {
            let mut change = to.configure_engine_mut();
            change.set_configuration(json(&step.configuration));
            let Configure { application, place, kind, .. } = step;
            let (application, kind) = (application.clone(), kind.clone());
            at(&mut change.engine_mut(), &Engine { application, place: *place, kind });
        }
        Step::Upgrade(step) => at(&mut to.upgrade_engine_mut().engine_mut(), step),
        Step::AddPolicy(step) => {
            let mut add = to.add_policy_mut();
            add.set_application(&step.application).set_kind(&step.kind);
            add.set_configuration(json(&step.configuration));
            step.index.map(|index| add.set_index(index).index());
            step.budget.iter().for_each(|budget| budget.fill(add.budget_mut()));
        }
        Step::SetBudget(step) => {
            let mut set = to.set_budget_mut();
            set.set_id(step.id);
            step.budget.iter().for_each(|budget| budget.fill(set.budget_mut()));
        }
        Step::RemovePolicy(step) => {
            to.remove_policy_mut().set_id(step.id);
        }
        Step::ConfigurePolicy(step) => {
            let mut change = to.configure_policy_mut();
            change.set_id(step.id).set_configuration(json(&step.configuration));
        }
        Step::Reload(Nothing {}) => {
            to.reload_mut();
        }
        Step::LoadPlugin(step) => step.fill(to)?,
        Step::UnloadPlugin(step) => step.fill(to),
        Step::SetQuota(step) => {
            let mut set = to.set_quota_mut();
            let mut quota = set.quota_mut();
            quota.set_application(&step.application);
            step.values().fill(&mut quota);
        }
        Step::RemoveQuota(step) => {
            to.remove_quota_mut().set_application(&step.application);
        }
        Step::LoadSchema(files) => {
            to.load_schema_mut().set_schema(schema::read(files)?.as_slice());
        }
        Step::EvictSchema(step) => {
            to.evict_schema_mut().set_digest(&step.digest);
        }
        Step::ConfigureTransport(step) => step.fill(to),
        _ => write_runtime(step, to),
    }
    Ok(())
}

/// Steps that change runtimes.
fn write_runtime(step: &Step, to: &mut StepMut<'_>) {
    match step {
        Step::AddRuntime(step) => step.fill(to),
        Step::RemoveRuntime(step) => step.fill(to),
        Step::PinRuntime(step) => step.fill(to),
        Step::MoveApplication(step) => step.fill(to),
        _ => unreachable!("the caller has written the others"),
    }
}

fn at(to: &mut EngineAtMut<'_>, engine: &Engine) {
    to.set_application(&engine.application).set_kind(&engine.kind);
    if let Some(place) = engine.place {
        to.set_place(place);
    }
}

fn json(object: &Object) -> String {
    serde_json::to_string(object).expect("it was read as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_whole_or_refused() {
        let text = r#"[{"attach": {"application": "shop", "kind": "rate_limit", "place": 0,
                                   "configuration": {"rate_per_s": 5}}},
                       {"detach": {"application": "3", "kind": "null"}},
                       {"set_quota": {"items": 7}}, {"reload": {}},
                       {"evict_schema": {"digest": "5f6c"}}, {"add_runtime": {"for": "shop"}},
                       {"move_application": {"application": "shop", "runtime": 1}}]"#;
        let request = request(&plan(text).expect("it is a plan")).expect("it reads no files");
        assert_eq!(request.steps().len(), 7);
        let attach = format!("{:?}", request.steps()[0]);
        assert!(attach.contains("rate_per_s"), "{attach}");
        for wrong in [
            "",
            "{}",
            "[]",
            r#"[{"attach": {}}]"#,
            r#"[{"detatch": {"application": "a"}}]"#,
            r#"[{"detach": {"application": "a", "plase": 1}}]"#,
            r#"[{"move": {"application": "a"}}]"#,
            r#"[{"load_schema": {"import_path": ["."]}}]"#,
            r#"[{"evict_schema": {}}]"#,
        ] {
            assert!(plan(wrong).is_err(), "{wrong}");
        }
        let many = format!("[{}]", vec![r#"{"reload": {}}"#; STEPS_MAX + 1].join(","));
        assert!(plan(&many).is_err_and(|error| error.contains("257 steps")));
    }
}
