//! Calls of operators: judged, done, written down.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos::grpc::Process;
use petasos::message::Message;
use petasos::{Code, Msg, Request, Response, Status};
use petasos_admin as proto;

use crate::audit::{Audit, Called, Entry, fill_audit};
use crate::roles::{Role, Roles};

/// The longest message of a status, in bytes.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// What a call needs: a role, its method, and if it is a change, what is to be done.
pub type Needs = (Role, &'static str, Vec<String>);

/// Judges calls, and keeps the audit log.
pub struct Gate {
    roles: Roles,
    /// The lock cannot be poisoned for long: no code panics while holding it.
    audit: Mutex<Audit>,
}

impl Gate {
    /// A gate with these roles and this log.
    pub fn new(roles: Roles, audit: Audit) -> Gate {
        Gate { roles, audit: Mutex::new(audit) }
    }

    /// What a process may do.
    pub fn role_of(&self, process: Process) -> Role {
        self.roles.of(process)
    }

    /// Does what a caller with this role may do, and writes it down. A task of its own does it: who
    /// leaves does not keep it from being written.
    ///
    /// # Errors
    /// The caller may not, or what `work` says.
    pub async fn judged<R: Message, F>(
        self: &Arc<Gate>,
        process: Process,
        needs: Needs,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> Result<Response<R>, Status>
    where
        F: Future<Output = Result<Msg<R>, Status>> + Send + 'static,
    {
        self.judged_noting(process, needs, work, |_| None).await
    }

    /// The same. What `note` says of the answer is written down, too.
    ///
    /// # Errors
    /// The caller may not, or what `work` says.
    pub async fn judged_noting<R: Message, F>(
        self: &Arc<Gate>,
        process: Process,
        (needs, method, mut steps): Needs,
        work: impl FnOnce() -> F + Send + 'static,
        note: fn(&Msg<R>) -> Option<String>,
    ) -> Result<Response<R>, Status>
    where
        F: Future<Output = Result<Msg<R>, Status>> + Send + 'static,
    {
        let gate = self.clone();
        let task = tokio::spawn(async move {
            let role = gate.roles.of(process);
            let result = match gate.judge(process, role, needs) {
                Ok(()) => work().await,
                Err(refusal) => Err(refusal),
            };
            steps.extend(result.as_ref().ok().and_then(note));
            gate.record(process, role, (method, steps), result.as_ref().err());
            result
        });
        let result = task.await.unwrap_or_else(|_| Err(Status::internal("the request has failed")));
        result.map(Response::new).map_err(shortened)
    }

    /// Whether a process with this role may do what needs another.
    ///
    /// # Errors
    /// It may not, or what changes something could not be written down.
    pub fn judge(&self, process: Process, role: Role, needs: Role) -> Result<(), Status> {
        if role < needs {
            let may = match role {
                Role::Viewer => "may look, and not change",
                _ => "has no rights here",
            };
            return Err(Status::permission_denied(format!("user {} {may}", process.uid)));
        }
        if needs == Role::Operator { self.check_audit() } else { Ok(()) }
    }

    /// Nothing is changed that cannot be written down.
    ///
    /// # Errors
    /// The last entry could not be.
    pub fn check_audit(&self) -> Result<(), Status> {
        let what = "the audit log could not be written: nothing is changed before it can";
        let is_sound = self.audit().is_sound();
        is_sound.then_some(()).ok_or_else(|| Status::unavailable(what))
    }

    /// Writes a call down.
    pub fn record(
        &self,
        process: Process,
        role: Role,
        (method, steps): (&'static str, Vec<String>),
        failed: Option<&Status>,
    ) {
        let (code, message) = match failed {
            None => (Code::Ok, ""),
            Some(status) => (status.code(), status.message()),
        };
        let (status, message) = (code.name(), message.to_owned());
        self.audit().record(Called { process, role, method, steps, status, message });
    }

    /// Writes down what somebody did who may, otherwise than by a call.
    pub fn note(
        &self,
        process: Process,
        method: &'static str,
        what: &str,
        (status, message): (&'static str, &str),
    ) {
        let (role, steps) = (self.roles.of(process), vec![what.to_owned()]);
        let message = message.to_owned();
        self.audit().record(Called { process, role, method, steps, status, message });
    }

    /// The newest entries of the log, the oldest of them first.
    pub fn newest(&self, most: usize) -> Vec<Arc<Entry>> {
        self.audit().newest(most)
    }

    /// Answers who asks for the log. None at most means all.
    ///
    /// # Errors
    /// The caller may not look.
    pub async fn list_audit(
        self: &Arc<Gate>,
        request: Request<proto::ListAuditRequest>,
    ) -> Result<Response<proto::ListAuditResponse>, Status> {
        let process = caller(&request)?;
        let most = match request.entries_max() {
            0 => usize::MAX,
            most => most as usize,
        };
        let (gate, needs) = (self.clone(), (Role::Viewer, "ListAudit", Vec::new()));
        self.judged(process, needs, move || async move {
            let mut response = proto::ListAuditResponse::new();
            fill_audit(&gate.newest(most), &mut response.edit());
            Ok(response)
        })
        .await
    }

    fn audit(&self) -> MutexGuard<'_, Audit> {
        self.audit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process that has called.
///
/// # Errors
/// It is not known.
pub fn caller<T: Message>(request: &Request<T>) -> Result<Process, Status> {
    let process = request.peer().and_then(|peer| peer.process());
    process.ok_or_else(|| Status::permission_denied("the service does not know who calls"))
}

/// A status whose message is no longer than callers are told.
pub fn shortened(status: Status) -> Status {
    let message = status.message();
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
    if end == message.len() {
        return status;
    }
    Status::new(status.code(), format!("{}…", &message[..end]))
}
