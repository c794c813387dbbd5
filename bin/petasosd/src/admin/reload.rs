//! Reloads that no operator asks for through the socket: by a signal, or since etcd has another
//! configuration.

use petasos::grpc::Process;
use petasos_admin as proto;
use petasos_etcd::Follower;
use tokio::signal::unix::{SignalKind, signal};

use super::service::Front;
use crate::source;

/// Reads the configuration again whenever the process gets SIGHUP.
pub async fn on_signals(front: Front) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return eprintln!("petasosd: SIGHUP is not heard: {error}"),
    };
    while hangups.recv().await.is_some() {
        reload(&front, "Signal", None).await;
    }
}

/// Takes what etcd has whenever that changes.
pub async fn on_changes(front: Front, mut follower: Follower) {
    let mut is_failing = false;
    loop {
        let value = match follower.changed().await {
            Ok(value) => value,
            Err(status) => {
                // Once, until it is reached again.
                if !is_failing {
                    eprintln!("petasosd: the configuration is not followed: {}", status.message());
                }
                is_failing = true;
                continue;
            }
        };
        is_failing = false;
        match source::text(value) {
            Ok(text) => reload(&front, "Etcd", Some(text)).await,
            Err(wrong) => front.note("Etcd", Err(format!("all stays as it is: {wrong}"))),
        }
    }
}

async fn reload(front: &Front, by: &'static str, text: Option<String>) {
    let mut request = proto::ChangeRequest::new();
    request.edit().steps_mut().add().reload_mut();
    let done = front.0.change(request, text).await;
    front.note(
        by,
        done.map(|(done, _)| done.join("; ")).map_err(|status| status.message().to_owned()),
    );
}

impl Front {
    /// Writes down what came of a reload.
    fn note(&self, by: &'static str, done: Result<String, String>) {
        let (status, message) = match &done {
            Ok(_) => ("OK", ""),
            Err(why) => ("FAILED_PRECONDITION", why.as_str()),
        };
        eprintln!("petasosd: reload ({by}): {}", done.as_ref().unwrap_or_else(|why| why));
        // Who has sent a signal, or written to etcd, is not known: it may do what this user may.
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        self.record(Process { uid, gid, pid: None }, by, "reload", (status, message));
    }
}
