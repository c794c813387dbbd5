//! A group's place in a list of routers in etcd, by which clients and workers find it.
//!
//! Invariants:
//! - what etcd refuses, and that it is away, costs the place in the list and not the router;
//! - the place is given up before members are told that the router ends, or a while after the
//!   process was killed.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use petasos_etcd::{EtcdOptions, Registration};
use tokio::sync::oneshot;

use crate::said::say;

/// How long the address stays in the list after the process was killed.
const LIFE: Duration = Duration::from_secs(10);
/// The wait after the first attempt that failed, doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long etcd may take to remove the address, when the router ends.
const END_MAX: Duration = Duration::from_secs(1);

/// What a router needs to be listed.
#[derive(Clone, Debug)]
pub struct ListingSettings {
    /// Where the list is.
    pub target: String,
    /// How etcd is reached.
    pub options: EtcdOptions,
    /// The router's address there. Without a port, it is the one at which the group listens.
    pub address: SocketAddr,
}

/// A place in the list. Dropping it gives it up, and waits for that for [`END_MAX`].
pub struct Listing {
    end: Mutex<Option<oneshot::Sender<()>>>,
    /// Nothing comes, until the task is over.
    over: Mutex<Receiver<()>>,
}

impl Listing {
    /// Begins to be listed, as soon as etcd is there.
    ///
    /// # Errors
    /// A text that says what the system refuses.
    pub fn start(settings: ListingSettings, listen: SocketAddr) -> Result<Listing, String> {
        let runtime = petasos::background_runtime();
        let runtime = runtime.map_err(|error| format!("no thread: {error}"))?;
        let ((end, ended), (alive, over)) = (oneshot::channel(), channel());
        let port = match settings.address.port() {
            0 => listen.port(),
            port => port,
        };
        let address = SocketAddr::new(settings.address.ip(), port);
        runtime.spawn(keep(ListingSettings { address, ..settings }, listen, ended, alive));
        Ok(Listing { end: Mutex::new(Some(end)), over: Mutex::new(over) })
    }

    /// Begins to give the place up, and waits for nobody.
    pub fn end(&self) {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.end();
        let over = self.over.get_mut().unwrap_or_else(PoisonError::into_inner);
        // If etcd does not answer, the lease ends by itself.
        let _ = over.recv_timeout(2 * END_MAX);
    }
}

/// Is listed until the other end of `ended` is gone.
async fn keep(
    settings: ListingSettings,
    listen: SocketAddr,
    mut ended: oneshot::Receiver<()>,
    _alive: Sender<()>,
) {
    let registered = tokio::select! {
        registered = register(&settings, listen) => registered,
        _ = &mut ended => return,
    };
    let _ = ended.await;
    // Its drop ends the renewals at once in any case.
    let _ = tokio::time::timeout(END_MAX, registered.end()).await;
}

/// Tries until it is listed. Says each reason once.
async fn register(settings: &ListingSettings, listen: SocketAddr) -> Registration {
    let ListingSettings { target, options, address } = settings;
    let (mut wait, mut said) = (FIRST_WAIT, String::new());
    loop {
        let why = match options.register(target, *address, LIFE).await {
            Ok(registration) => {
                say(&format!("group at {listen}: listed in etcd as {address}"));
                return registration;
            }
            Err(error) => error.to_string(),
        };
        if why != said {
            say(&format!("group at {listen}: not listed in etcd yet: {why}"));
            said = why;
        }
        tokio::time::sleep(wait).await;
        wait = (2 * wait).min(WAIT_MAX);
    }
}
