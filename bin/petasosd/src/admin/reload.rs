//! Reloads that no operator asks for through the socket: by a signal.

use petasos::grpc::Process;
use petasos_admin as proto;
use tokio::signal::unix::{SignalKind, signal};

use super::service::Front;

/// Reads the configuration again whenever the process gets SIGHUP, and writes down what came of it.
pub async fn on_signals(front: Front) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return eprintln!("petasosd: SIGHUP is not heard: {error}"),
    };
    while hangups.recv().await.is_some() {
        reload(&front).await;
    }
}

async fn reload(front: &Front) {
    let mut request = proto::ChangeRequest::new();
    request.edit().steps_mut().add().reload_mut();
    let (status, message) = match front.0.change(request).await {
        Ok(done) => ("OK", done.join("; ")),
        Err(status) => (status.code().name(), status.message().to_owned()),
    };
    eprintln!("petasosd: SIGHUP: {message}");
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // Who has sent the signal is not known: the same user, or root.
    let process = Process { uid, gid, pid: None };
    let message = if status == "OK" { "" } else { message.as_str() };
    front.record(process, "Signal", "reload", (status, message));
}
