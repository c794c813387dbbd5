//! The service's methods: judged, done by the loop, written down.

use std::sync::Arc;
use std::time::Duration;

use petasos::grpc::Process;
use petasos::message::Message;
use petasos::{Msg, Request, Response, Sender, Status};
use petasos_admin::{self as proto, Admin, AdminServer, STEPS_MAX};
use petasos_base::{Clock, Time};
use petasos_operator::{Gate, Needs, Role, caller, fill_audit, shortened};
use petasos_service::PolicyNames;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, SemaphorePermit, oneshot};
use tokio::time::timeout;

use super::copies::Copies;
use super::{JobSender, stats, view};
use crate::configuration::Reader;
use crate::control::{World, describe};
use crate::metrics;
use crate::reports::Reporters;
use crate::stats::{METRIC_ROWS_MAX, ROWS_MAX, Snapshot};

/// The most callers who watch at a time.
const WATCHERS_MAX: usize = 8;
/// How often those may be told who watch, in ms.
const INTERVAL_MS: std::ops::RangeInclusive<u32> = 100..=60_000;
/// How long the loop may take. What it has not begun by then it does not do.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Answers operators.
#[derive(Clone)]
pub struct Front(pub(super) Arc<Inner>);

pub(super) struct Inner {
    sender: JobSender,
    pub(super) gate: Arc<Gate>,
    pub(super) reader: Arc<Reader>,
    watchers: Semaphore,
    copies: Copies,
    /// Held by changes that take time to prepare: what was read later is applied later.
    pub(super) preparing: AsyncMutex<()>,
}

impl Front {
    pub fn new(sender: JobSender, gate: Gate, reader: Reader) -> Front {
        let (gate, watchers) = (Arc::new(gate), Semaphore::new(WATCHERS_MAX));
        let (copies, reader, preparing) = (Copies::new(), Arc::new(reader), AsyncMutex::new(()));
        Front(Arc::new(Inner { sender, gate, reader, watchers, copies, preparing }))
    }

    /// What is counted, as a page for Prometheus.
    pub async fn metrics(self) -> Result<String, String> {
        let take = |world: &mut World<'_>| {
            Ok((Snapshot::take(world, None, METRIC_ROWS_MAX), Reporters::of(world)))
        };
        let taken = self.0.ask(take).await.map_err(|status| status.message().to_owned())?;
        let (snapshot, reporters) = taken;
        Ok(metrics::text(&snapshot, &reporters.values()))
    }

    /// As a service.
    pub fn served(self) -> AdminServer<Front> {
        AdminServer::new(self)
    }

    /// Lets those look who may.
    async fn look<Q: Message, R: Message>(
        &self,
        method: &'static str,
        request: Request<Q>,
        view: impl FnOnce(&World<'_>, &Q) -> Result<Msg<R>, Status> + Send + 'static,
    ) -> Result<Response<R>, Status> {
        let caller = caller(&request)?;
        let request = request.into_message();
        let needs = (Role::Viewer, method, Vec::new());
        self.judged(caller, needs, move |inner| async move {
            inner.ask(move |world| view(world, &request)).await
        })
        .await
    }

    /// Does what a caller with this role may do, and writes it down.
    async fn judged<R: Message, F>(
        &self,
        process: Process,
        needs: Needs,
        work: impl FnOnce(Arc<Inner>) -> F + Send + 'static,
    ) -> Result<Response<R>, Status>
    where
        F: Future<Output = Result<Msg<R>, Status>> + Send + 'static,
    {
        let inner = self.0.clone();
        self.0.gate.judged(process, needs, || work(inner)).await
    }
}

impl Inner {
    /// What is counted of all applications, or of the one that is named.
    async fn snapshot(&self, application: &str) -> Result<Arc<Snapshot>, Status> {
        let named = application.to_owned();
        let take = || {
            self.ask(move |world| {
                let only = if named.is_empty() { None } else { Some(world.find(&named)?) };
                Ok(Snapshot::take(world, only, ROWS_MAX))
            })
        };
        self.copies.get(application, take).await
    }

    /// All that there is to see, with so many entries of the audit log.
    async fn overview(&self, audit_entries_max: usize) -> Result<Msg<proto::Overview>, Status> {
        let snapshot = self.snapshot("").await?;
        let mut overview = self.ask(|world| Ok(view::overview(world))).await?;
        let mut edit = overview.edit();
        stats::fill(&snapshot, &mut edit.stats_mut());
        if audit_entries_max > 0 {
            fill_audit(&self.gate.newest(audit_entries_max), &mut edit.audit_mut());
        }
        Ok(overview)
    }

    /// Lets the loop do something.
    pub(super) async fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut World<'_>) -> Result<R, Status> + Send + 'static,
    ) -> Result<R, Status> {
        let (tell, told) = oneshot::channel();
        let job = move |world: &mut World<'_>| {
            if !tell.is_closed() {
                // Who asked may have stopped waiting just now.
                let _ = tell.send(work(world));
            }
        };
        if !self.sender.send(Box::new(job)) {
            let what = "too many requests wait for the service; nothing was done";
            return Err(Status::resource_exhausted(what));
        }
        let late = |_| Status::deadline_exceeded("the service does not answer");
        let gone = |_| Status::unavailable("the service has ended");
        timeout(ANSWER_MAX, told).await.map_err(late)?.map_err(gone)?
    }
}

impl Admin for Front {
    async fn list_applications(
        &self,
        request: Request<proto::ListApplicationsRequest>,
    ) -> Result<Response<proto::ListApplicationsResponse>, Status> {
        self.look("ListApplications", request, |world, _| Ok(view::applications(world))).await
    }

    async fn list_datapaths(
        &self,
        request: Request<proto::ListDatapathsRequest>,
    ) -> Result<Response<proto::ListDatapathsResponse>, Status> {
        let names = match request.with_reports() {
            true => self.0.names_for(caller(&request)?).await,
            false => PolicyNames::default(),
        };
        let view = |world: &World<'_>, request: &_| view::datapaths(world, request, names);
        self.look("ListDatapaths", request, view).await
    }

    async fn list_kinds(
        &self,
        request: Request<proto::ListKindsRequest>,
    ) -> Result<Response<proto::ListKindsResponse>, Status> {
        let process = caller(&request)?;
        let needs = (Role::Viewer, "ListKinds", Vec::new());
        self.judged(process, needs, |_| async { Ok(view::kinds()) }).await
    }

    async fn list_plugins(
        &self,
        request: Request<proto::ListPluginsRequest>,
    ) -> Result<Response<proto::ListPluginsResponse>, Status> {
        self.look("ListPlugins", request, |world, _| Ok(view::plugins(world))).await
    }

    async fn list_policies(
        &self,
        request: Request<proto::ListPoliciesRequest>,
    ) -> Result<Response<proto::ListPoliciesResponse>, Status> {
        self.look("ListPolicies", request, |world, _| Ok(view::policies(world))).await
    }

    async fn list_schemas(
        &self,
        request: Request<proto::ListSchemasRequest>,
    ) -> Result<Response<proto::ListSchemasResponse>, Status> {
        self.look("ListSchemas", request, |world, _| Ok(view::schemas(world))).await
    }

    async fn get_schema(
        &self,
        request: Request<proto::GetSchemaRequest>,
    ) -> Result<Response<proto::GetSchemaResponse>, Status> {
        self.look("GetSchema", request, view::schema).await
    }

    async fn list_quotas(
        &self,
        request: Request<proto::ListQuotasRequest>,
    ) -> Result<Response<proto::ListQuotasResponse>, Status> {
        self.look("ListQuotas", request, |world, _| Ok(view::quotas(world))).await
    }

    async fn list_runtimes(
        &self,
        request: Request<proto::ListRuntimesRequest>,
    ) -> Result<Response<proto::ListRuntimesResponse>, Status> {
        self.look("ListRuntimes", request, |world, _| Ok(view::runtimes(world))).await
    }

    async fn get_transport(
        &self,
        request: Request<proto::GetTransportRequest>,
    ) -> Result<Response<proto::GetTransportResponse>, Status> {
        self.look("GetTransport", request, |world, _| Ok(view::transport(world))).await
    }

    async fn list_audit(
        &self,
        request: Request<proto::ListAuditRequest>,
    ) -> Result<Response<proto::ListAuditResponse>, Status> {
        self.0.gate.list_audit(request).await
    }

    async fn stats(
        &self,
        request: Request<proto::StatsRequest>,
    ) -> Result<Response<proto::StatsResponse>, Status> {
        let process = caller(&request)?;
        let request = request.into_message();
        let needs = (Role::Viewer, "Stats", Vec::new());
        self.judged(process, needs, move |inner| async move {
            let snapshot = inner.snapshot(request.application()).await?;
            Ok(stats::response(&snapshot))
        })
        .await
    }

    async fn watch_stats(
        &self,
        request: Request<proto::WatchStatsRequest>,
        mut responses: Sender<proto::StatsResponse>,
    ) -> Result<(), Status> {
        let process = caller(&request)?;
        let inner = &self.0;
        let watched = inner.begin_watch(process, "WatchStats", request.interval_ms());
        let (_permit, interval) = watched?;
        loop {
            let application = request.stats().map_or("", |stats| stats.application());
            let snapshot = inner.snapshot(application).await.map_err(shortened)?;
            responses.send(stats::response(&snapshot)).await?;
            tokio::time::sleep(interval).await;
        }
    }

    async fn watch_overview(
        &self,
        request: Request<proto::WatchOverviewRequest>,
        mut responses: Sender<proto::Overview>,
    ) -> Result<(), Status> {
        let process = caller(&request)?;
        let inner = &self.0;
        let watched = inner.begin_watch(process, "WatchOverview", request.interval_ms());
        let (_permit, interval) = watched?;
        let most = request.audit_entries_max() as usize;
        loop {
            responses.send(inner.overview(most).await.map_err(shortened)?).await?;
            tokio::time::sleep(interval).await;
        }
    }

    async fn change(
        &self,
        request: Request<proto::ChangeRequest>,
    ) -> Result<Response<proto::ChangeResponse>, Status> {
        let process = caller(&request)?;
        let until = request.timeout().map_or(Time::NEVER, |left| Clock::system().now() + left);
        let request = request.into_message();
        let steps: Vec<String> = request.steps().iter().take(STEPS_MAX).map(describe).collect();
        let needs = (Role::Operator, "Change", steps);
        let inner = self.0.clone();
        let change = move || async move {
            let (done, chain) = inner.change(request, None, until).await?;
            let mut response = proto::ChangeResponse::new();
            let mut edit = response.edit();
            edit.set_chain(chain.unwrap_or_default());
            edit.done_mut().extend(done);
            Ok(response)
        };
        let can_be_undone = |answer: &Msg<proto::ChangeResponse>| {
            let chain = Some(answer.chain()).filter(|chain| *chain > 0);
            chain.map(|chain| format!("can be undone as the last of chain {chain}"))
        };
        self.0.gate.judged_noting(process, needs, change, can_be_undone).await
    }

    async fn undo(
        &self,
        request: Request<proto::UndoRequest>,
    ) -> Result<Response<proto::UndoResponse>, Status> {
        let process = caller(&request)?;
        let chain = request.chain();
        let needs = (Role::Operator, "Undo", vec![format!("undo the last of chain {chain}")]);
        self.judged(process, needs, move |inner| async move {
            let undone = inner.undo(chain).await?;
            let mut response = proto::UndoResponse::new();
            let mut edit = response.edit();
            edit.set_left(undone.left as u32);
            edit.not_undone_mut().extend(undone.not_undone);
            Ok(response)
        })
        .await
    }
}

impl Inner {
    /// The names of the numbers in reports, for a caller who may look. They may be many, so that it
    /// is not the loop that collects them.
    async fn names_for(&self, process: Process) -> PolicyNames {
        if self.gate.role_of(process) < Role::Viewer {
            return PolicyNames::default();
        }
        let host = self.ask(|world| Ok(world.first.common.host.clone())).await;
        host.map(|host| host.policy_names()).unwrap_or_default()
    }

    /// Whether a caller may watch, and how often it is told. That it has asked is written down.
    fn begin_watch(
        &self,
        process: Process,
        method: &'static str,
        interval_ms: u32,
    ) -> Result<(SemaphorePermit<'_>, Duration), Status> {
        let role = self.gate.role_of(process);
        let watched = self.watch_as(process, role, interval_ms);
        self.gate.record(process, role, (method, Vec::new()), watched.as_ref().err());
        watched
    }

    fn watch_as(
        &self,
        process: Process,
        role: Role,
        interval_ms: u32,
    ) -> Result<(SemaphorePermit<'_>, Duration), Status> {
        self.gate.judge(process, role, Role::Viewer)?;
        let interval_ms = if interval_ms == 0 { 1000 } else { interval_ms };
        if !INTERVAL_MS.contains(&interval_ms) {
            let (least, most) = (INTERVAL_MS.start(), INTERVAL_MS.end());
            let what = format!("the interval is {least} to {most} ms");
            return Err(Status::invalid_argument(what));
        }
        let full = |_| Status::resource_exhausted(format!("{WATCHERS_MAX} callers watch already"));
        let permit = self.watchers.try_acquire().map_err(full)?;
        Ok((permit, Duration::from_millis(interval_ms.into())))
    }
}
