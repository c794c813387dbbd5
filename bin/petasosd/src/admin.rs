//! The control plane: operators' requests, from their socket to the loop and back.
//!
//! A thread of its own serves `petasos.admin.v1.Admin` over gRPC at a Unix socket. It knows who
//! calls by the user of the process, judges by role, and keeps the audit log. What needs the
//! service's state goes to the daemon's loop as a [`Job`], through a channel of [`JOBS_MAX`], and
//! is done between two turns.
//!
//! # Invariants
//! - The loop never waits for an operator: it takes at most one job each time that it looks at its
//!   sockets, and without one it looks at a channel that is empty.
//! - Whatever is done is written to the audit log, also if the operator has left meanwhile.
//! - Messages, connections, calls and their time are bounded ([`bounds`]).

mod changes;
mod copies;
mod reload;
mod service;
mod spans;
mod stats;
mod view;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::Duration;

use petasos::grpc::{Drain, Process, Routes, Server};
use petasos_attach::{Bound, Credentials};
use petasos_operator::{Account, Audit, Gate, Place, Roles, bounds};
use rustix::event::{EventfdFlags, eventfd};
use tokio::net::UnixListener;
use tokio::sync::oneshot;

use crate::configuration::Reader;
use crate::control::World;
use crate::otlp::{Exporter, OtlpConfig, Recorders};
use service::Front;
pub use spans::recorders;

/// Says what goes wrong.
const PROGRAM: &str = "petasosd";
/// The most requests that wait for the loop.
const JOBS_MAX: usize = 16;

/// Calls of operators that run when another process takes over have so long to end.
const GRACE: Duration = Duration::from_secs(10);
/// The loop waits so long at its end for the last spans to be sent.
const LAST_SPANS_MAX: Duration = Duration::from_secs(2);

/// What the loop does for an operator.
pub type Job = Box<dyn FnOnce(&mut World<'_>) + Send>;

/// How operators reach the service.
pub struct AdminOptions {
    /// Their socket.
    pub socket: PathBuf,
    /// Who may look.
    pub viewers: Vec<Account>,
    /// Where the audit log is written, besides memory.
    pub audit: Option<PathBuf>,
    /// Where what is counted is served to scrapers.
    pub metrics: Option<Place>,
    /// Where spans are sent.
    pub otlp: Option<OtlpConfig>,
}

impl AdminOptions {
    /// Tries what may fail before operators are served.
    ///
    /// # Errors
    /// What is wrong with the audit log.
    pub fn check(&self) -> Result<(), String> {
        Audit::new(PROGRAM, self.audit.as_deref()).map(drop)
    }

    /// The mode of the socket: others than operators have no use for it, unless there are viewers.
    fn mode(&self) -> u32 {
        if self.viewers.is_empty() { 0o600 } else { 0o666 }
    }
}

/// The loop's end: what operators want done. Its descriptor is readable when there may be
/// something.
pub struct Desk {
    jobs: Receiver<Job>,
    wake: Arc<OwnedFd>,
    /// There was something at the last look.
    may_have_more: bool,
    /// Dropped with the loop. None once another process has it.
    socket: Option<Bound>,
    drain: Drain,
    front: Front,
    /// If spans are sent: who is told when the loop ends, and who tells when they are.
    spans: Option<(oneshot::Sender<Option<Recorders>>, Receiver<()>)>,
}

/// Where other threads send jobs to the loop.
struct JobSender {
    jobs: SyncSender<Job>,
    wake: Arc<OwnedFd>,
}

impl Desk {
    /// Begins to serve operators.
    ///
    /// # Errors
    /// What is wrong with the socket or the audit log, or what the system refuses.
    pub fn open(options: AdminOptions, reader: Reader) -> Result<Desk, String> {
        let socket = Bound::new(&options.socket, options.mode());
        let failed = |error| format!("cannot listen at {}: {error}", options.socket.display());
        let socket = socket.map_err(failed)?;
        Desk::on(socket, options, reader)
    }

    /// Begins to serve operators at a socket.
    ///
    /// # Errors
    /// What is wrong with the audit log, or what the system refuses.
    pub fn on(socket: Bound, options: AdminOptions, reader: Reader) -> Result<Desk, String> {
        let path = options.socket.display().to_string();
        let failed = |error: &dyn std::fmt::Display| format!("cannot listen at {path}: {error}");
        let audit = Audit::new(PROGRAM, options.audit.as_deref())?;
        let listener = socket.listener().map_err(|error| failed(&error))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(|error| failed(&error))?);
        let follower = reader.follow()?;
        let (sender, jobs) = sync_channel(JOBS_MAX);
        let jobs_to_loop = JobSender { jobs: sender, wake: wake.clone() };
        let front = Front::new(jobs_to_loop, Gate::new(Roles::new(options.viewers), audit), reader);
        let counted = front.clone();
        let scraped = options.metrics.map(|place| {
            petasos_operator::serve(PROGRAM, place, move || counted.clone().metrics())
        });
        let routes =
            petasos::grpc_routes(front.clone().served()).map_err(|error| failed(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let exporter = {
            let _context = runtime.enter();
            options.otlp.as_ref().map(Exporter::new).transpose()?
        };
        let drain = Drain::new();
        let has_exporter = exporter.is_some();
        let ((last, at_end), (exported, all_exported)) = (oneshot::channel(), channel());
        let spans = has_exporter.then_some((last, all_exported));
        let (until, reloading) = (drain.clone(), front.clone());
        let thread = std::thread::Builder::new().name("petasosd-admin".to_owned());
        let serving = thread.spawn(move || {
            if let Some(scraped) = scraped {
                runtime.spawn(scraped);
            }
            let exporter = exporter.map(|exporter| {
                runtime.spawn(spans::export(reloading.clone(), exporter, (at_end, exported)))
            });
            runtime.spawn(reload::on_signals(reloading.clone()));
            if let Some(follower) = follower {
                runtime.spawn(reload::on_changes(reloading, follower));
            }
            runtime.block_on(serve(listener, routes, until));
            // Calls may go on for longer than operators are served.
            if let Some(exporter) = exporter {
                let _ = runtime.block_on(exporter);
            }
        });
        serving.map_err(|error| failed(&error))?;
        Ok(Desk { jobs, wake, may_have_more: false, socket: Some(socket), drain, front, spans })
    }

    /// The loop ends: the last spans are sent, if that does not take long.
    pub fn end(&mut self, recorders: Option<Recorders>) {
        let Some((last, all_exported)) = self.spans.take() else { return };
        if last.send(recorders).is_ok() {
            let _ = all_exported.recv_timeout(LAST_SPANS_MAX);
        }
    }

    /// Descriptors for a process that takes the socket over.
    ///
    /// # Errors
    /// There are none, or no room for them.
    pub fn shared(&self) -> Result<[OwnedFd; 2], String> {
        let socket = self.socket.as_ref().ok_or("another process has taken over")?;
        socket.shared().map_err(|error| format!("no descriptors are left: {error}"))
    }

    /// Leaves the socket to a process that has taken it over. Calls that run still end.
    pub fn give(&mut self) {
        self.drain.start(GRACE);
        if let Some(socket) = self.socket.take() {
            socket.give();
        }
    }

    /// Writes down what a process did at another socket.
    pub fn record(&self, who: Credentials, what: &str, status: &'static str, why: &str) {
        let process = Process { uid: who.uid, gid: who.gid, pid: who.pid };
        self.front.0.gate.note(process, "Takeover", what, (status, why));
    }

    /// What an operator wants, if one wants something.
    pub fn next_job(&mut self) -> Option<Job> {
        let job = self.jobs.try_recv().ok();
        self.may_have_more = job.is_some();
        job
    }

    /// Whether there may be something although its descriptor is not readable.
    pub fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Makes its descriptor unreadable, until there is something more. To be called before
    /// [`Desk::next_job`].
    pub fn hush(&self) {
        // There may be nothing to read.
        let _ = rustix::io::read(&*self.wake, &mut [0_u8; 8]);
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl JobSender {
    /// Sends a job to the loop, if there is room, and wakes it.
    fn send(&self, job: Job) -> bool {
        let is_taken = self.jobs.try_send(job).is_ok();
        // A counter that is full is readable already.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        is_taken
    }
}

async fn serve(listener: std::os::unix::net::UnixListener, routes: Arc<dyn Routes>, drain: Drain) {
    match UnixListener::from_std(listener) {
        Ok(listener) => Server::new(routes, bounds(), drain).serve_unix(listener).await,
        Err(error) => eprintln!("petasosd: operators are not served: {error}"),
    }
}
