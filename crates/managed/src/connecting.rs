//! Attaches to the service. A thread of its own does this, because attaching waits for the service.

use std::sync::{Arc, Mutex, PoisonError};

use petasos_attach::{Attachment, ConnectError};
use petasos_endpoint::Notifier;

use crate::config::ServiceConfig;

type Outcome = Result<Attachment, String>;

/// An attempt to attach.
pub(crate) struct Connecting(Arc<Mutex<Option<Outcome>>>);

impl Connecting {
    /// Begins. When it is over, the loop is made to turn. `is_moving` says that the service's
    /// predecessor has told this process to attach (D14).
    pub(crate) fn begin(config: &ServiceConfig, is_moving: bool, notifier: Notifier) -> Connecting {
        let outcome = Arc::new(Mutex::new(None));
        let (told, mut config) = (outcome.clone(), config.clone());
        config.hello.is_moving = is_moving;
        let here = notifier.clone();
        let run = move || {
            let attached = Attachment::connect(config.path(), &config.hello, config.timeout);
            tell(&told, attached.map_err(|error| advice(&error)));
            notifier.notify();
        };
        let thread = std::thread::Builder::new().name("petasos-attach".into());
        if let Err(error) = thread.spawn(run) {
            tell(&outcome, Err(format!("cannot start a thread: {error}")));
            here.notify();
        }
        Connecting(outcome)
    }

    /// The outcome, once there is one.
    pub(crate) fn poll(&self) -> Option<Outcome> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn tell(outcome: &Mutex<Option<Outcome>>, attached: Outcome) {
    *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(attached);
}

fn advice(error: &ConnectError) -> String {
    match error {
        ConnectError::NotThere(_) => format!("the managed service: {error}; is petasosd running?"),
        error => format!("the managed service: {error}"),
    }
}
