//! Reloads that no operator asks for through the socket: by a signal, or since etcd has another
//! configuration.

use std::time::Duration;

use petasos::Status;
use petasos::grpc::Process;
use petasos_admin as proto;
use petasos_base::Time;
use petasos_etcd::Follower;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::service::Front;
use crate::source;

/// What etcd has and cannot be applied now is tried again after so long, and then after twice as
/// long each time.
const AGAIN: Duration = Duration::from_secs(2);
/// But at most this.
const AGAIN_MAX: Duration = Duration::from_secs(60);

/// Reads the configuration again whenever the process gets SIGHUP.
pub async fn on_signals(front: Front) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return eprintln!("petasosd: SIGHUP is not heard: {error}"),
    };
    while hangups.recv().await.is_some() {
        let done = reload(&front, None).await;
        front.note("Signal", &done);
    }
}

/// Takes what etcd has whenever that changes. What cannot be applied is tried again: a plug-in's
/// file may come later than the configuration that names it.
pub async fn on_changes(front: Front, mut follower: Follower) {
    let (mut pending, mut again, mut told) = (None, AGAIN, None);
    let mut is_failing = false;
    loop {
        let changed = match &pending {
            None => Some(follower.changed().await),
            Some(_) => timeout(again, follower.changed()).await.ok(),
        };
        match changed {
            Some(Ok(value)) => (pending, again, told) = (Some(source::text(value)), AGAIN, None),
            Some(Err(status)) if pending.is_none() => {
                // Once, until it is reached again.
                if !is_failing {
                    eprintln!("petasosd: the configuration is not followed: {}", status.message());
                }
                is_failing = true;
                continue;
            }
            Some(Err(_)) | None => again = (again * 2).min(AGAIN_MAX),
        }
        is_failing = false;
        let done = match pending.clone() {
            Some(Ok(text)) => reload(&front, Some(text)).await,
            Some(Err(wrong)) => {
                Err(Status::failed_precondition(format!("all stays as it is: {wrong}")))
            }
            None => continue,
        };
        let why = done.as_ref().err().map(|status| status.message().to_owned());
        // The same failure is told once.
        if why.is_none() || why != told {
            front.note("Etcd", &done);
        }
        if done.is_ok() {
            pending = None;
        }
        told = why;
    }
}

/// Reads the configuration again, or takes this text as it. Gives what was done.
async fn reload(front: &Front, text: Option<String>) -> Result<String, Status> {
    front.0.gate.check_audit()?;
    let mut request = proto::ChangeRequest::new();
    request.edit().steps_mut().add().reload_mut();
    let (done, _) = front.0.change(request, text, Time::NEVER).await?;
    Ok(done.join("; "))
}

impl Front {
    /// Writes down what came of a reload.
    fn note(&self, by: &'static str, done: &Result<String, Status>) {
        let (status, message, said) = match done {
            Ok(done) => ("OK", "", done.as_str()),
            Err(status) => (status.code().name(), status.message(), status.message()),
        };
        eprintln!("petasosd: reload ({by}): {said}");
        // Who has sent a signal, or written to etcd, is not known: it may do what this user may.
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        self.0.gate.note(Process { uid, gid, pid: None }, by, "reload", (status, message));
    }
}
