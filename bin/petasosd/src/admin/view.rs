//! What operators see, as messages.

use std::collections::HashMap;
use std::sync::Arc;

use petasos::{Msg, Status};
use petasos_admin as proto;
use petasos_engine::{Application as Number, Policy, Without};
use petasos_plugin::Mapping;
use petasos_service::{Application, Digest, KeptSchema, PolicyNames};

use crate::control::{StepError, World};
use crate::made;
use crate::member::{Heaps, Member};
use crate::processor::Allowance;
use crate::quotas::{HeapQuotas, Quota};
use crate::reports::name_numbers;
use crate::runtime::set::State;

/// The longest report of a policy, in bytes; a longer one is left out.
const REPORT_BYTES_MAX: usize = 256 << 10;
/// The most schemas of an answer.
const SCHEMAS_MAX: usize = 4096;
/// The most bytes of a service's name in it.
const NAME_BYTES_MAX: usize = 256;
/// Bytes of all reports of an answer.
const REPORTS_BYTES_MAX: usize = 16 << 20;

pub fn applications(world: &World<'_>) -> Msg<proto::ListApplicationsResponse> {
    let mut response = proto::ListApplicationsResponse::new();
    fill_applications(world, &mut response.edit());
    response
}

fn fill_applications(world: &World<'_>, edit: &mut proto::ListApplicationsResponseMut<'_>) {
    let mut list = edit.applications_mut();
    let members: HashMap<_, _> = world.members().collect();
    for application in world.applications() {
        let mut one = list.add();
        let (load, counts) = (application.load(), application.datapath().counts());
        one.set_number(application.number().0)
            .set_name(application.name())
            .set_calls(load.calls as u64)
            .set_held_bytes(load.held_bytes as u64)
            .set_descriptors_waiting(load.descriptors as u64)
            .set_items_queued(counts.queued)
            .set_items_held(counts.held)
            .set_engines(application.datapath().len() as u32)
            .set_bindings(application.bindings().len() as u32)
            .set_policy_number(application.policy_number().0);
        let serves = world.first.hub.served_by(application.number());
        one.serves_mut().extend(serves.iter().map(|name| &**name));
        if let Some((runtime, member)) = members.get(&application.number()) {
            one.set_runtime(runtime.0);
            one.set_uid(member.who.uid).set_gid(member.who.gid);
            if let Some(allowance) = member.allowance() {
                one.set_processor_ns(application.processor_ns());
                one.set_is_over_quota(allowance.is_spent());
            }
            if let Some(pid) = member.who.pid {
                one.set_pid(pid);
            }
        }
    }
}

pub fn datapaths(
    world: &World<'_>,
    request: &proto::ListDatapathsRequest,
    names: PolicyNames,
) -> Result<Msg<proto::ListDatapathsResponse>, Status> {
    let only = match request.application() {
        "" => None,
        named => Some(world.find(named)?),
    };
    let mut response = proto::ListDatapathsResponse::new();
    let reports_bytes_max = if request.with_reports() { REPORTS_BYTES_MAX } else { 0 };
    let what = Wanted { only, names, reports_bytes_left: reports_bytes_max, is_short: false };
    fill_datapaths(world, what, &mut response.edit());
    Ok(response)
}

/// What is wanted of datapaths.
struct Wanted {
    only: Option<Number>,
    /// For the numbers in reports.
    names: PolicyNames,
    reports_bytes_left: usize,
    /// Configurations are left out that policies of the rule set have, too.
    is_short: bool,
}

fn fill_datapaths(
    world: &World<'_>,
    mut what: Wanted,
    edit: &mut proto::ListDatapathsResponseMut<'_>,
) {
    let mut list = edit.datapaths_mut();
    let only = what.only;
    let is_meant =
        |application: &&Application<Heaps>| only.is_none_or(|only| application.number() == only);
    for application in world.applications().into_iter().filter(is_meant) {
        let mut one = list.add();
        one.set_number(application.number().0).set_name(application.name());
        let mut engines = one.engines_mut();
        let datapath = application.datapath();
        for policy in (0..datapath.len()).filter_map(|place| datapath.policy(place)) {
            describe(world, policy, &mut what, &mut engines.add());
        }
    }
}

fn describe(
    world: &World<'_>,
    policy: &Arc<dyn Policy>,
    what: &mut Wanted,
    engine: &mut proto::EngineMut<'_>,
) {
    let known = world.control.known(policy);
    let mut rules = world.control.policies().rules().iter();
    let rule = rules.find(|rule| Some(rule.id) == known.rule);
    let is_overridden =
        rule.is_some_and(|rule| rule.made.configuration != known.made.configuration);
    engine
        .set_kind(known.made.kind_name())
        .set_version(known.made.kind.version())
        .set_policy(rule.map_or(0, |rule| rule.id))
        .set_is_overridden(is_overridden);
    if let Some(without) = known.made.without() {
        engine.set_without(match without {
            Without::Open => "open",
            Without::Closed => "closed",
        });
    }
    if rule.is_none() || is_overridden || !what.is_short {
        engine.set_configuration(&*known.made.configuration);
    }
    if what.reports_bytes_left > 0 {
        let mut report = policy.report();
        name_numbers(&mut report, &what.names);
        let report = report.to_string();
        if report.len() <= REPORT_BYTES_MAX.min(what.reports_bytes_left) {
            what.reports_bytes_left -= report.len();
            engine.set_report(report);
        }
    }
}

/// All of it, but what is counted, and the audit log.
pub fn overview(world: &World<'_>) -> Msg<proto::Overview> {
    let mut response = proto::Overview::new();
    let mut edit = response.edit();
    fill_applications(world, &mut edit.applications_mut());
    let names = PolicyNames::default();
    let what = Wanted { only: None, names, reports_bytes_left: 0, is_short: true };
    fill_datapaths(world, what, &mut edit.datapaths_mut());
    fill_policies(world, &mut edit.policies_mut());
    fill_quotas(world, &mut edit.quotas_mut());
    response
}

pub fn kinds() -> Msg<proto::ListKindsResponse> {
    let mut response = proto::ListKindsResponse::new();
    let mut edit = response.edit();
    let mut list = edit.kinds_mut();
    for name in made::kinds() {
        let kind = petasos_engines::find(name).expect("it was found just now");
        list.add().set_name(name).set_version(kind.version().version);
    }
    response
}

pub fn plugins(world: &World<'_>) -> Msg<proto::ListPluginsResponse> {
    let mut response = proto::ListPluginsResponse::new();
    let mut edit = response.edit();
    let mut list = edit.plugins_mut();
    for plugin in world.control.plugins.iter() {
        let (policies, engines) = world.uses_of(&plugin.name);
        list.add()
            .set_name(&*plugin.name)
            .set_path(plugin.path.display().to_string())
            .set_version(plugin.kind().version().version)
            .set_policies(policies as u32)
            .set_engines(engines as u32);
    }
    let mut list = edit.left_mut();
    for left in world.control.left() {
        list.add()
            .set_name(&*left.name)
            .set_path(left.path.display().to_string())
            .set_is_used(left.mapping() == Mapping::InUse);
    }
    response
}

pub fn policies(world: &World<'_>) -> Msg<proto::ListPoliciesResponse> {
    let mut response = proto::ListPoliciesResponse::new();
    fill_policies(world, &mut response.edit());
    response
}

fn fill_policies(world: &World<'_>, edit: &mut proto::ListPoliciesResponseMut<'_>) {
    edit.set_file(world.control.file().unwrap_or_default());
    let mut list = edit.policies_mut();
    let mut placed = HashMap::<u64, u32>::new();
    for application in world.applications() {
        let datapath = application.datapath();
        for policy in (0..datapath.len()).filter_map(|place| datapath.policy(place)) {
            if let Some(id) = world.control.known(policy).rule {
                *placed.entry(id).or_default() += 1;
            }
        }
    }
    for rule in world.control.policies().rules() {
        let mut one = list.add();
        one.set_id(rule.id)
            .set_application(&*rule.application)
            .set_kind(rule.made.kind_name())
            .set_configuration(&*rule.made.configuration)
            .set_datapaths(placed.get(&rule.id).copied().unwrap_or(0));
        if let Some(budget) = rule.budget {
            one.budget_mut().set_percent(budget.percent()).set_over(budget.over.name());
        }
    }
}

pub fn schemas(world: &World<'_>) -> Msg<proto::ListSchemasResponse> {
    let mut response = proto::ListSchemasResponse::new();
    let mut edit = response.edit();
    let (bytes, bytes_max) = world.first.hub.schema_bytes();
    edit.set_bytes(bytes as u64).set_bytes_max(bytes_max as u64);
    let mut list = edit.bindings_mut();
    for application in world.applications() {
        for binding in application.bindings() {
            list.add()
                .set_number(application.number().0)
                .set_name(application.name())
                .set_service(&*binding.service)
                .set_methods(binding.methods.len() as u32)
                .set_schema_bytes(binding.known().bytes().len() as u64);
        }
    }
    let mut list = edit.schemas_mut();
    for kept in world.schemas().all().iter().take(SCHEMAS_MAX) {
        describe_schema(&mut list.add(), kept);
    }
    response
}

fn describe_schema(one: &mut proto::KnownSchemaMut<'_>, kept: &KeptSchema<'_>) {
    let schema = kept.schema.types().schema();
    let first = schema.services().next().map_or("", |(_, service)| service.full_name());
    one.set_digest(kept.schema.digest().to_string())
        .set_bytes(kept.schema.bytes().len() as u64)
        .set_messages(schema.messages().len() as u32)
        .set_services(schema.services().len() as u32)
        .set_first_service(&first[..first.floor_char_boundary(NAME_BYTES_MAX)])
        .set_bindings(kept.bindings as u32)
        .set_is_loaded(kept.is_loaded);
}

/// A schema.
pub fn schema(
    world: &World<'_>,
    request: &proto::GetSchemaRequest,
) -> Result<Msg<proto::GetSchemaResponse>, Status> {
    let digest: Digest = request.digest().parse().map_err(StepError::from)?;
    let known = world.schemas().get(digest).cloned().ok_or(StepError::NoSchema(digest))?;
    let mut response = proto::GetSchemaResponse::new();
    response.edit().set_schema(known.bytes());
    Ok(response)
}

pub fn runtimes(world: &World<'_>) -> Msg<proto::ListRuntimesResponse> {
    let mut response = proto::ListRuntimesResponse::new();
    let mut edit = response.edit();
    let mut list = edit.runtimes_mut();
    for row in world.set.rows() {
        let mut one = list.add();
        one.set_id(row.id.0)
            .set_dedicated_to(row.dedicated_to.as_deref().unwrap_or_default())
            .set_is_leaving(row.state == State::Leaves);
        row.cpu.map(|cpu| one.set_cpu(cpu).id());
        row.processor_ns().map(|ns| one.set_processor_ns(ns).id());
        if let Some(runtime) = world.runtimes().find(|runtime| runtime.id() == row.id) {
            let loads = runtime.hub.applications().map(|application| application.load().calls);
            one.set_applications(runtime.members.len() as u32)
                .set_calls(loads.sum::<usize>() as u64);
        }
    }
    response
}

pub fn transport(world: &World<'_>) -> Msg<proto::GetTransportResponse> {
    let mut response = proto::GetTransportResponse::new();
    let mut edit = response.edit();
    if let Some(packets) = &world.control.packets {
        edit.set_carrier(packets.by.name());
        if let Some(gathering) = &packets.gathering {
            edit.set_gathered(gathering.is_on());
        }
        if let Some(fusing) = &packets.fusing {
            edit.set_fused(fusing.is_on());
        }
    }
    response
}

pub fn quotas(world: &World<'_>) -> Msg<proto::ListQuotasResponse> {
    let mut response = proto::ListQuotasResponse::new();
    fill_quotas(world, &mut response.edit());
    response
}

fn fill_quotas(world: &World<'_>, edit: &mut proto::ListQuotasResponseMut<'_>) {
    let mut list = edit.quotas_mut();
    for (name, quota) in world.control.quotas.all() {
        fill(&mut list.add(), name, quota);
    }
    let mut list = edit.attached_mut();
    let members: HashMap<_, _> = world.members().collect();
    for application in world.applications() {
        let mut one = list.add();
        one.set_number(application.number().0);
        let member = members.get(&application.number()).map(|(_, member)| *member);
        let processor = member.and_then(Member::allowance).map(Allowance::share);
        let heaps = HeapQuotas::from(&application.heaps().0.limits());
        let quota = Quota { limits: *application.limits(), heaps, processor };
        fill(&mut one.quota_mut(), application.name(), &quota);
    }
}

fn fill(quota: &mut proto::QuotaMut<'_>, name: &str, of: &Quota) {
    let limits = &of.limits;
    if let Some(share) = of.processor {
        quota.set_processor_percent(share.percent());
    }
    quota
        .set_application(name)
        .set_items_max(limits.items_max as u64)
        .set_message_bytes_max(limits.message_bytes_max as u64)
        .set_metadata_bytes_max(limits.metadata_bytes_max as u64)
        .set_held_bytes_max(limits.held_bytes_max as u64)
        .set_descriptors_max(limits.descriptors_max as u64)
        .set_calls_max(limits.calls_max as u64)
        .set_send_heap_bytes(of.heaps.send as u64)
        .set_receive_heap_bytes(of.heaps.receive as u64);
}
