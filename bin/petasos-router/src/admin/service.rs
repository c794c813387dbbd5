//! The service's methods: judged, done by the groups' threads, written down.

use std::sync::Arc;
use std::time::Duration;

use petasos::grpc::Process;
use petasos::message::Message;
use petasos::{Msg, Request, Response, Sender, Status};
use petasos_admin::router::{self as proto, Router, RouterServer};
use petasos_base::SystemClock;
use petasos_operator::{Gate, Needs, Role, caller, shortened};
use petasos_router::{Bound, Policy};
use petasos_router_control::{Adjustment, GroupSnapshot, WorkerChange};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::timeout;

use super::copies::Copies;
use super::{metrics, view};
use crate::groups::{GroupView, Groups};
use crate::running::differences;

/// The most things that wait for the groups' threads.
pub const WAITING_MAX: usize = 16;
/// The most callers who watch at a time.
const WATCHERS_MAX: usize = 8;
/// How often those may be told who watch, in ms.
const INTERVAL_MS: std::ops::RangeInclusive<u32> = 100..=60_000;
/// How long a group's threads may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The most clients of an answer.
const CLIENTS_MAX: u32 = 1000;

/// Answers operators.
#[derive(Clone)]
pub struct Front(Arc<Inner>);

struct Inner {
    groups: Arc<Groups>,
    gate: Arc<Gate>,
    copies: Copies,
    waiting: Semaphore,
    watchers: Semaphore,
}

impl Front {
    pub fn new(groups: Arc<Groups>, gate: Arc<Gate>) -> Front {
        let (waiting, watchers) = (Semaphore::new(WAITING_MAX), Semaphore::new(WATCHERS_MAX));
        Front(Arc::new(Inner { groups, gate, copies: Copies::default(), waiting, watchers }))
    }

    /// As a service.
    pub fn served(self) -> RouterServer<Front> {
        RouterServer::new(self)
    }

    /// What is counted, as a page for Prometheus.
    pub async fn metrics(self) -> Result<String, String> {
        let all = self.0.snapshots("").await;
        let all = all.map_err(|status| status.message().to_owned())?;
        Ok(metrics::text(&all))
    }

    /// Does what a caller with this role may do, and writes it down.
    async fn judged<Q: Message, R: Message, F>(
        &self,
        request: Request<Q>,
        needs: Needs,
        work: impl FnOnce(Arc<Inner>, Msg<Q>) -> F + Send + 'static,
    ) -> Result<Response<R>, Status>
    where
        F: Future<Output = Result<Msg<R>, Status>> + Send + 'static,
    {
        let process = caller(&request)?;
        let (inner, request) = (self.0.clone(), request.into_message());
        self.0.gate.judged(process, needs, move || work(inner, request)).await
    }
}

/// What is said of what was done.
fn done(lines: Vec<String>) -> Msg<proto::ChangeResponse> {
    let mut response = proto::ChangeResponse::new();
    response.edit().done_mut().extend(lines);
    response
}

impl Inner {
    /// The group that is named, or the only one.
    fn group(&self, name: &str) -> Result<GroupView, Status> {
        let groups = self.groups.views();
        if let ("", [only]) = (name, &*groups) {
            return Ok(only.clone());
        }
        let all: Vec<_> = groups.iter().map(|group| group.listen.to_string()).collect();
        if name.is_empty() {
            let what = format!("say which group: {}", all.join(", "));
            return Err(Status::invalid_argument(what));
        }
        let of = groups.into_iter().find(|group| group.listen.to_string() == name);
        of.ok_or_else(|| {
            Status::not_found(format!("there is no group `{name}`, but {}", all.join(", ")))
        })
    }

    /// Lets a group's threads do something, and waits for what they tell.
    async fn told<T: Send>(
        &self,
        group: &GroupView,
        ask: impl FnOnce(oneshot::Sender<T>),
    ) -> Result<T, Status> {
        let full = |_| {
            let what = "too many requests wait for the router; nothing was done";
            Status::resource_exhausted(what)
        };
        let _permit = self.waiting.try_acquire().map_err(full)?;
        let (tell, told) = oneshot::channel();
        ask(tell);
        let at = group.listen;
        let late = |_| Status::deadline_exceeded(format!("the group at {at} does not answer"));
        let gone = |_| Status::unavailable(format!("the group at {at} has ended"));
        timeout(ANSWER_MAX, told).await.map_err(late)?.map_err(gone)
    }

    async fn snapshot(&self, group: &GroupView) -> Result<Arc<GroupSnapshot>, Status> {
        let take = || {
            self.told(group, |tell| {
                // Who asked may have stopped waiting.
                group.operator.snapshot(move |snapshot| drop(tell.send(snapshot)));
            })
        };
        self.copies.get(group.listen, take).await
    }

    /// Of the group that is named, or of all.
    async fn snapshots(&self, name: &str) -> Result<Vec<(GroupView, Arc<GroupSnapshot>)>, Status> {
        let groups = match name {
            "" => self.groups.views(),
            name => vec![self.group(name)?],
        };
        let mut all = Vec::with_capacity(groups.len());
        for group in groups {
            let snapshot = self.snapshot(&group).await?;
            all.push((group, snapshot));
        }
        Ok(all)
    }

    async fn change_worker(
        &self,
        group: &str,
        worker: u32,
        change: WorkerChange,
    ) -> Result<Msg<proto::ChangeResponse>, Status> {
        let group = self.group(group)?;
        let unknown =
            || Status::not_found(format!("group {} has no worker {worker}", group.listen));
        let number = u16::try_from(worker).map_err(|_| unknown())?;
        let is_there = self
            .told(&group, |tell| {
                let told = move |is_there| {
                    let _ = tell.send(is_there);
                };
                group.operator.change_worker(number, change, told);
            })
            .await?;
        self.copies.forget();
        if !is_there {
            return Err(unknown());
        }
        let what = match change {
            WorkerChange::Drain(true) => "gets nothing more, and ends what it has".to_owned(),
            WorkerChange::Drain(false) => "gets requests again".to_owned(),
            WorkerChange::Weight(weight) => format!("has the weight {weight}"),
        };
        Ok(done(vec![format!("worker {worker} of group {} {what}", group.listen)]))
    }

    async fn set_policy(
        &self,
        request: &proto::SetPolicyRequest,
    ) -> Result<Msg<proto::ChangeResponse>, Status> {
        let group = self.group(request.group())?;
        let change = Change::of(request).map_err(Status::invalid_argument)?;
        let adjusted = self.told(&group, |tell| {
            let (before, was) = std::sync::mpsc::channel();
            let change = move |at: Adjustment| {
                let _ = before.send(at);
                change.apply(at)
            };
            group.operator.adjust(change, move |done| drop(tell.send((was.try_recv(), done))));
        });
        let (before, result) = adjusted.await?;
        self.copies.forget();
        let after = result.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let before = before.map_err(|_| Status::internal("nothing was changed"))?;
        let mut lines = differences(&before, &after);
        if lines.is_empty() {
            lines.push("nothing has changed".to_owned());
        }
        Ok(done(lines.into_iter().map(|line| format!("group {}: {line}", group.listen)).collect()))
    }

    async fn reload(self: Arc<Inner>) -> Result<Msg<proto::ChangeResponse>, Status> {
        let inner = self.clone();
        let reloaded = tokio::task::spawn_blocking(move || inner.groups.reload()).await;
        self.copies.forget();
        let failed = |_| Status::internal("the reload has failed");
        let refused = |why| Status::failed_precondition(format!("all stays as it is: {why}"));
        Ok(done(reloaded.map_err(failed)?.map_err(refused)?))
    }

    async fn watched(&self, name: &str) -> Result<Msg<proto::WatchResponse>, Status> {
        let all = self.snapshots(name).await?;
        let mut response = proto::WatchResponse::new();
        let mut edit = response.edit();
        edit.set_time_ns(SystemClock::default().now().as_nanos());
        for (group, at) in &all {
            view::fill_group(group, at, &mut edit.groups_mut().add());
            view::fill_workers(group, at, &mut edit.workers_mut().add());
        }
        Ok(response)
    }

    /// Whether a caller may watch, and how often it is told. That it has asked is written down.
    fn begin_watch(
        &self,
        process: Process,
        interval_ms: u32,
    ) -> Result<(SemaphorePermit<'_>, Duration), Status> {
        let role = self.gate.role_of(process);
        let watched = self.gate.judge(process, role, Role::Viewer).and_then(|()| {
            let interval_ms = if interval_ms == 0 { 1000 } else { interval_ms };
            if !INTERVAL_MS.contains(&interval_ms) {
                let (least, most) = (INTERVAL_MS.start(), INTERVAL_MS.end());
                let what = format!("the interval is {least} to {most} ms");
                return Err(Status::invalid_argument(what));
            }
            let full = format!("{WATCHERS_MAX} callers watch already");
            let permit =
                self.watchers.try_acquire().map_err(|_| Status::resource_exhausted(full))?;
            Ok((permit, Duration::from_millis(interval_ms.into())))
        });
        self.gate.record(process, role, ("Watch", Vec::new()), watched.as_ref().err());
        watched
    }
}

/// What is to be set; the rest stays.
struct Change {
    policy: Option<Policy>,
    /// 0: what workers announce.
    limit: Option<u16>,
    waiting_max: Option<usize>,
    /// 0: for ever.
    waiting_age: Option<Duration>,
}

impl Change {
    /// A text says what is wrong.
    fn of(request: &proto::SetPolicyRequest) -> Result<Change, String> {
        let policy = request.policy().map(str::parse::<Policy>).transpose();
        let policy = policy.map_err(|error| error.to_string())?;
        let limit = request.limit().map(u16::try_from).transpose();
        let limit = limit.map_err(|_| "the limit is 4095 at most".to_owned())?;
        let waiting_max = request.waiting_max();
        let waiting_max = waiting_max.map(|max| usize::try_from(max).unwrap_or(usize::MAX));
        let waiting_age = request.waiting_age_us().map(Duration::from_micros);
        if (&policy, &limit, &waiting_max, &waiting_age) == (&None, &None, &None, &None) {
            return Err("say what is to be set".to_owned());
        }
        Ok(Change { policy, limit, waiting_max, waiting_age })
    }

    fn apply(&self, at: Adjustment) -> Adjustment {
        let mut to = at;
        if let Some(policy) = self.policy {
            to.policy = policy;
        }
        match self.limit {
            Some(0) => to.policy.bound = Bound::Announced,
            Some(limit) => to.policy.bound = Bound::AtMost(limit),
            None => {}
        }
        to.waiting_max = self.waiting_max.unwrap_or(to.waiting_max);
        if let Some(age) = self.waiting_age {
            to.waiting_age_max = Some(age).filter(|age| !age.is_zero());
        }
        to
    }
}

impl Router for Front {
    async fn status(
        &self,
        request: Request<proto::StatusRequest>,
    ) -> Result<Response<proto::StatusResponse>, Status> {
        let needs = (Role::Viewer, "Status", Vec::new());
        self.judged(request, needs, |inner, request| async move {
            let all = inner.snapshots(request.group()).await?;
            let mut response = proto::StatusResponse::new();
            let mut edit = response.edit();
            let mut list = edit.groups_mut();
            all.iter().for_each(|(group, at)| view::fill_group(group, at, &mut list.add()));
            Ok(response)
        })
        .await
    }

    async fn list_workers(
        &self,
        request: Request<proto::ListWorkersRequest>,
    ) -> Result<Response<proto::ListWorkersResponse>, Status> {
        let needs = (Role::Viewer, "ListWorkers", Vec::new());
        self.judged(request, needs, |inner, request| async move {
            let group = inner.group(request.group())?;
            let at = inner.snapshot(&group).await?;
            let mut response = proto::ListWorkersResponse::new();
            view::fill_workers(&group, &at, &mut response.edit());
            Ok(response)
        })
        .await
    }

    async fn list_clients(
        &self,
        request: Request<proto::ListClientsRequest>,
    ) -> Result<Response<proto::ListClientsResponse>, Status> {
        let needs = (Role::Viewer, "ListClients", Vec::new());
        self.judged(request, needs, |inner, request| async move {
            let group = inner.group(request.group())?;
            let most = match request.clients_max() {
                0 => CLIENTS_MAX,
                most => most.min(CLIENTS_MAX),
            };
            let page = (request.after(), most as usize);
            let listed = inner.told(&group, |tell| {
                let told = move |clients, has_more| drop(tell.send((clients, has_more)));
                group.operator.clients(page, told);
            });
            let (clients, has_more) = listed.await?;
            Ok(view::clients(&group, &clients, has_more))
        })
        .await
    }

    async fn list_audit(
        &self,
        request: Request<petasos_admin::ListAuditRequest>,
    ) -> Result<Response<petasos_admin::ListAuditResponse>, Status> {
        self.0.gate.list_audit(request).await
    }

    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
        mut responses: Sender<proto::WatchResponse>,
    ) -> Result<(), Status> {
        let process = caller(&request)?;
        let inner = &self.0;
        let (_permit, interval) = inner.begin_watch(process, request.interval_ms())?;
        loop {
            responses.send(inner.watched(request.group()).await.map_err(shortened)?).await?;
            tokio::time::sleep(interval).await;
        }
    }

    async fn drain_worker(
        &self,
        request: Request<proto::DrainWorkerRequest>,
    ) -> Result<Response<proto::ChangeResponse>, Status> {
        let what = if request.undo() { "undrain" } else { "drain" };
        let what = format!("{what} worker {} of group `{}`", request.worker(), request.group());
        self.judged(request, (Role::Operator, "DrainWorker", vec![what]), |inner, of| async move {
            let change = WorkerChange::Drain(!of.undo());
            inner.change_worker(of.group(), of.worker(), change).await
        })
        .await
    }

    async fn weigh_worker(
        &self,
        request: Request<proto::WeighWorkerRequest>,
    ) -> Result<Response<proto::ChangeResponse>, Status> {
        let (worker, weight) = (request.worker(), request.weight());
        let what = format!("weigh worker {worker} of group `{}` as {weight}", request.group());
        self.judged(request, (Role::Operator, "WeighWorker", vec![what]), |inner, of| async move {
            let weight = u8::try_from(of.weight()).ok().filter(|it| (1..=100).contains(it));
            let out = || Status::invalid_argument("a weight is 1 to 100, in percent");
            let change = WorkerChange::Weight(weight.ok_or_else(out)?);
            inner.change_worker(of.group(), of.worker(), change).await
        })
        .await
    }

    async fn set_policy(
        &self,
        request: Request<proto::SetPolicyRequest>,
    ) -> Result<Response<proto::ChangeResponse>, Status> {
        let what = described(&request);
        self.judged(request, (Role::Operator, "SetPolicy", vec![what]), |inner, of| async move {
            inner.set_policy(&of).await
        })
        .await
    }

    async fn reload(
        &self,
        request: Request<proto::ReloadRequest>,
    ) -> Result<Response<proto::ChangeResponse>, Status> {
        let needs = (Role::Operator, "Reload", vec!["reload".to_owned()]);
        self.judged(request, needs, |inner, _| inner.reload()).await
    }
}

/// What is to be set, for the audit log.
fn described(request: &proto::SetPolicyRequest) -> String {
    let mut what = format!("set of group `{}`:", request.group());
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            what += &format!(" {name} {value}");
        }
    };
    add("policy", request.policy().map(|policy| format!("`{policy}`")));
    add("limit", request.limit().map(|limit| limit.to_string()));
    add("waiting_max", request.waiting_max().map(|max| max.to_string()));
    add("waiting_age_us", request.waiting_age_us().map(|age| age.to_string()));
    what
}
