//! The control plane: operators' requests, from their socket to the groups' threads and back, and
//! the page for scrapers.
//!
//! A thread of its own serves `petasos.router.v1.Router` over gRPC at a Unix socket. It knows who
//! calls by the user of the process, judges by role, and keeps the audit log.
//!
//! # Invariants
//! - No packet waits for an operator: a group's threads do what is wanted between two turns, at
//!   most [`service::WAITING_MAX`] things at a time, and a snapshot once per [`copies::FRESH`].
//! - Whatever is done is written to the audit log, also if the operator has left meanwhile.
//! - Messages, connections, calls and their time are bounded ([`bounds`]).

mod copies;
mod metrics;
mod service;
mod view;

use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use petasos::grpc::{Drain, Process, Routes, Server};
use petasos_attach::Bound;
use petasos_operator::{Audit, Gate, Place, Roles, bounds};
use tokio::net::UnixListener;

use crate::admin_options::AdminOptions;
use crate::groups::Groups;
use crate::said::say;
use service::Front;
pub use view::turned_down;

/// Says what goes wrong.
const PROGRAM: &str = "petasos-router";
/// Calls of operators that run when the router ends have so long to end.
const GRACE: Duration = Duration::from_millis(200);

/// What serves operators. Dropped, it does not any more.
pub struct Desk {
    /// Its file is removed with it.
    _socket: Option<Bound>,
    drain: Drain,
    gate: Arc<Gate>,
}

/// Checks what operators and scrapers need. Nothing is made or opened.
///
/// # Errors
/// What is wrong.
pub fn check(options: &AdminOptions) -> Result<(), String> {
    options.audit.as_deref().map_or(Ok(()), petasos_operator::check_log)?;
    options.socket.as_deref().map_or(Ok(()), petasos_operator::check_socket)?;
    let plaintext = options.metrics_plaintext;
    options.metrics.map_or(Ok(()), |address| petasos_operator::check(address, plaintext))
}

impl Desk {
    /// Begins to serve operators and scrapers.
    ///
    /// # Errors
    /// What is wrong with the socket, the port or the audit log, or what the system refuses.
    pub fn open(groups: &Arc<Groups>) -> Result<Desk, String> {
        let options = groups.admin();
        let audit = Audit::new(PROGRAM, options.audit.as_deref())?;
        let gate = Arc::new(Gate::new(Roles::new(options.viewers.clone()), audit));
        let socket = options.socket.as_deref().map(|path| {
            // Others than operators have no use for it, unless there are viewers.
            let mode = if options.viewers.is_empty() { 0o600 } else { 0o666 };
            let failed = |error: &dyn std::fmt::Display| {
                format!("cannot listen at {}: {error}", path.display())
            };
            let socket = Bound::new(path, mode).map_err(|error| failed(&error))?;
            let listener = socket.listener().map_err(|error| failed(&error))?;
            Ok::<_, String>((socket, listener))
        });
        let (socket, listener) = socket.transpose()?.unzip();
        let metrics = options
            .metrics
            .map(|at| petasos_operator::listen(at, options.metrics_plaintext))
            .transpose()?;
        if let Some(address) = metrics.as_ref().and_then(|listener| listener.local_addr().ok()) {
            say(&format!("metrics at http://{address}/metrics"));
        }
        let drain = Drain::new();
        if listener.is_some() || metrics.is_some() {
            let front = Front::new(groups.clone(), gate.clone());
            serve(front, listener, metrics.map(Place::Open), drain.clone())?;
        }
        Ok(Desk { _socket: socket, drain, gate })
    }

    /// Writes down what came of a reload that a signal has asked for, if changes may be made.
    pub fn reload_by_signal(&self, groups: &Groups) {
        let done = self.gate.check_audit().map_err(|status| status.message().to_owned());
        let done = done.and_then(|()| groups.reload());
        let (status, why, said) = match &done {
            Ok(done) => ("OK", "", done.join("; ")),
            Err(why) => ("FAILED_PRECONDITION", why.as_str(), format!("all stays as it is: {why}")),
        };
        eprintln!("{PROGRAM}: reload (signal): {said}");
        // Who has sent it is not known: it may do what this user may.
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        self.gate.note(Process { uid, gid, pid: None }, "Signal", "reload", (status, why));
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.drain.start(GRACE);
    }
}

/// Starts the thread.
fn serve(
    front: Front,
    listener: Option<StdListener>,
    scraped: Option<Place>,
    drain: Drain,
) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("operators cannot be served: {error}");
    let routes = petasos::grpc_routes(front.clone().served()).map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let thread = std::thread::Builder::new().name("router-admin".to_owned());
    let thread = thread.spawn(move || {
        let page = scraped.map(|place| {
            let serve = petasos_operator::serve(PROGRAM, place, move || front.clone().metrics());
            runtime.spawn(serve)
        });
        match listener {
            Some(listener) => runtime.block_on(at_socket(listener, routes, drain)),
            None => drop(page.map(|page| runtime.block_on(page))),
        }
    });
    thread.map(drop).map_err(|error| failed(&error))
}

async fn at_socket(listener: StdListener, routes: Arc<dyn Routes>, drain: Drain) {
    match UnixListener::from_std(listener) {
        Ok(listener) => Server::new(routes, bounds(), drain).serve_unix(listener).await,
        Err(error) => eprintln!("{PROGRAM}: operators are not served: {error}"),
    }
}
