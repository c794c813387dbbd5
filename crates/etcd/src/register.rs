//! Servers, and routers of groups, that register themselves in etcd.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;

use petasos::Msg;
use petasos::Status;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::api::{
    KVClient, LeaseClient, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, PutRequest,
};
use super::options::EtcdOptions;
use super::source::{PATIENCE, Source, longer, over};
use super::value;
use petasos::{ConnectError, Request, background_runtime};

/// Why a server is not registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The target is not `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`, or is not usable. The program's
    /// fault.
    #[error(transparent)]
    Target(#[from] ConnectError),
    /// The system could not start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// etcd refused. `UNAUTHENTICATED`: it requires a user, or another password;
    /// `PERMISSION_DENIED`: the user may not write there. After other codes a later attempt may
    /// succeed.
    #[error("{0}")]
    Etcd(Status),
}

/// A server's address in etcd, with a lease that is renewed until this is dropped.
///
/// If etcd is unavailable, the lease may expire; the address is registered again when etcd is back.
/// After a drop, the address stays until the lease expires. [`Registration::end`] removes it at
/// once; a server calls it before it drains.
#[must_use = "dropped, the lease is not renewed"]
pub struct Registration {
    task: JoinHandle<()>,
    end: Option<oneshot::Sender<oneshot::Sender<()>>>,
}

/// What is registered.
struct Entry {
    source: Source,
    address: SocketAddr,
    seconds: i64,
}

impl Registration {
    /// Registers the server at `address` for channels to the same target, and returns once it is in
    /// etcd. `life` is how long the address stays after the process is gone, in whole seconds, at
    /// least 2.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub async fn new(
        target: &str,
        address: SocketAddr,
        life: Duration,
    ) -> Result<Registration, RegisterError> {
        Registration::with_options(target, address, life, &EtcdOptions::new()).await
    }

    pub(crate) async fn with_options(
        target: &str,
        address: SocketAddr,
        life: Duration,
        options: &EtcdOptions,
    ) -> Result<Registration, RegisterError> {
        let source = Source::of_target(target, options)?;
        let seconds = i64::try_from(life.as_secs().max(2)).unwrap_or(i64::MAX);
        let runtime = background_runtime().map_err(RegisterError::Thread)?;
        let (done, is_there) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let entry = Entry { source, address, seconds };
        let task = runtime.spawn(entry.keep(done, ended));
        let registration = Registration { task, end: Some(end) };
        match is_there.await {
            Ok(Ok(())) => Ok(registration),
            Ok(Err(status)) => Err(RegisterError::Etcd(status)),
            Err(_) => Err(RegisterError::Etcd(over("the runtime has ended"))),
        }
    }

    /// Removes the address. Returns once it is removed, or when etcd cannot be reached.
    pub async fn end(mut self) {
        let (tell, told) = oneshot::channel();
        if let Some(end) = self.end.take()
            && end.send(tell).is_ok()
        {
            // Without an answer, the lease expires by itself.
            let _ = told.await;
        }
    }
}

impl EtcdOptions {
    /// Like [`Registration::new`], with these options.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub async fn register(
        &self,
        target: &str,
        address: SocketAddr,
        life: Duration,
    ) -> Result<Registration, RegisterError> {
        Registration::with_options(target, address, life, self).await
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").finish_non_exhaustive()
    }
}

impl Entry {
    async fn keep(
        self,
        done: oneshot::Sender<Result<(), Status>>,
        mut ended: oneshot::Receiver<oneshot::Sender<()>>,
    ) {
        let mut done = Some(done);
        let (mut wait, mut lease) = (Duration::from_millis(200), None);
        let told = loop {
            let status = tokio::select! {
                status = self.keep_once(&mut done, &mut lease, &mut wait) => status,
                told = &mut ended => break told,
            };
            let status = self.source.explain(status);
            if let Some(done) = done.take() {
                // The first attempt failed: give up and report why.
                return drop(done.send(Err(status)));
            }
            tracing::warn!(hosts = self.source.hosts, %status, "a registration is interrupted");
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = longer(wait),
                told = &mut ended => break told,
            }
        };
        if let Some(lease) = lease {
            let _ = self.revoke(lease).await;
        }
        if let Ok(tell) = told {
            let _ = tell.send(());
        }
    }

    /// Keeps the address registered until something fails.
    async fn keep_once(
        &self,
        done: &mut Option<oneshot::Sender<Result<(), Status>>>,
        lease: &mut Option<i64>,
        wait: &mut Duration,
    ) -> Status {
        match self.try_keep(done, lease, wait).await {
            Err(status) => status,
            Ok(()) => over("the lease has ended"),
        }
    }

    async fn try_keep(
        &self,
        done: &mut Option<oneshot::Sender<Result<(), Status>>>,
        lease: &mut Option<i64>,
        wait: &mut Duration,
    ) -> Result<(), Status> {
        let channel = self.source.session().await?;
        let leases = LeaseClient::new(channel.clone());
        let id = self.put(&leases, &KVClient::new(channel)).await?;
        *lease = Some(id);
        if let Some(done) = done.take() {
            let _ = done.send(Ok(()));
        }
        *wait = Duration::from_millis(200);
        let (mut renewals, mut answers) = leases.lease_keep_alive().await?;
        let third = Duration::from_secs(self.seconds.unsigned_abs()) / 3;
        loop {
            let mut renewal: Msg<LeaseKeepAliveRequest> = LeaseKeepAliveRequest::new();
            renewal.edit().set_id(id);
            renewals.send(renewal).await?;
            let answer = tokio::time::timeout(PATIENCE, answers.message()).await;
            let answer = answer.map_err(|_| over("no lease is renewed"))??;
            if answer.is_none_or(|answer| answer.ttl() <= 0) {
                return Ok(());
            }
            tokio::time::sleep(third).await;
        }
    }

    /// Registers the address with a new lease, and returns the lease.
    async fn put(&self, leases: &LeaseClient, keys: &KVClient) -> Result<i64, Status> {
        let mut grant: Msg<LeaseGrantRequest> = LeaseGrantRequest::new();
        grant.edit().set_ttl(self.seconds);
        let granted = leases.lease_grant(Request::new(grant).with_timeout(PATIENCE)).await?;
        if !granted.error().is_empty() {
            return Err(over(granted.error()));
        }
        let address = self.address.to_string();
        let mut put: Msg<PutRequest> = PutRequest::new();
        let key = format!("{}{address}", self.source.prefix);
        let value = value::of(&address);
        put.edit().set_key(key.as_bytes()).set_value(&*value).set_lease(granted.id());
        keys.put(Request::new(put).with_timeout(PATIENCE)).await?;
        Ok(granted.id())
    }

    async fn revoke(&self, lease: i64) -> Result<(), Status> {
        let mut revoke: Msg<LeaseRevokeRequest> = LeaseRevokeRequest::new();
        revoke.edit().set_id(lease);
        let leases = LeaseClient::new(self.source.session().await?);
        leases.lease_revoke(Request::new(revoke).with_timeout(PATIENCE)).await.map(drop)
    }
}
