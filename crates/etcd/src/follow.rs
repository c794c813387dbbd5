//! Follows the addresses under a prefix, for one channel.
//!
//! A task reads all keys, watches for changes from that revision on, and reads all keys again after
//! a change. It runs on a runtime of the process, and is aborted when the channel's resolver is
//! dropped.

use core::convert::Infallible;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos::Msg;
use petasos::Status;
use tokio::task::JoinHandle;

use super::api::{KVClient, RangeRequest, WatchClient, WatchRequest};
use super::options::EtcdOptions;
use super::source::{PATIENCE, Source, longer, over};
use super::value;
use petasos::{
    Channel, ChannelBuilder, ConnectError, FoundServers, Join, Request, Resolver, TargetError,
    background_runtime,
};

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// The most keys under a prefix that are read, the first ones in etcd's order.
const KEYS_MAX: i64 = 4096;
/// So much of a key is logged, in bytes.
const KEY_SHOWN_MAX: usize = 256;
/// The most addresses that are found there.
const ADDRESSES_MAX: usize = 4096;

/// Keeps a channel's list of servers up to date until it is dropped.
#[derive(Debug)]
struct Follower {
    known: Arc<Known>,
    task: JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The list as it was last read.
#[derive(Debug, Default)]
struct Known(Mutex<Option<Vec<SocketAddr>>>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<SocketAddr>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds a channel's servers under a prefix.
#[derive(Debug)]
pub struct EtcdResolver {
    source: Source,
    /// Keeps the list up to date, once the channel has asked for it.
    follower: Mutex<Option<Follower>>,
}

impl EtcdResolver {
    /// The servers listed at `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`.
    ///
    /// # Errors
    /// As [`EtcdOptions::channel`].
    pub fn new(target: &str) -> Result<EtcdResolver, ConnectError> {
        EtcdResolver::with_options(target, &EtcdOptions::new())
    }

    /// Like [`EtcdResolver::new`], with TLS and a user.
    ///
    /// # Errors
    /// As [`EtcdOptions::channel`].
    pub fn with_options(target: &str, options: &EtcdOptions) -> Result<EtcdResolver, ConnectError> {
        let source = Source::of_target(target, options)?;
        Ok(EtcdResolver { source, follower: Mutex::default() })
    }
}

impl EtcdOptions {
    /// A channel to the servers that are listed at a target: `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`
    /// in plaintext, `etcds://…` with TLS. At `router+etcd://…` and `router+etcds://…` the routers
    /// of a group of workers are listed, and the channel calls the group.
    ///
    /// # Errors
    /// The target does not have this form, or etcd needs TLS and the options have none.
    pub fn channel(&self, target: &str) -> Result<ChannelBuilder, ConnectError> {
        let resolver = EtcdResolver::with_options(target, self)?;
        let builder = Channel::builder(target);
        Ok(match resolver.source.is_group {
            true => builder.router_resolver(resolver),
            false => builder.resolver(resolver),
        })
    }

    /// Joins the group of workers whose routers are listed at a target,
    /// `router+etcd://HOST:PORT[,HOST:PORT…]/PREFIX` in plaintext, `router+etcds://…` with TLS. The
    /// server follows the list.
    ///
    /// # Errors
    /// As [`EtcdOptions::channel`]; also if servers are listed there, and not routers.
    pub fn join(&self, target: &str) -> Result<Join, ConnectError> {
        let resolver = EtcdResolver::with_options(target, self)?;
        match resolver.source.is_group {
            true => Ok(Join::new(target).resolver(resolver)),
            false => Err(TargetError::Scheme("etcd".to_owned()).into()),
        }
    }
}

impl Resolver for EtcdResolver {
    fn resolve(&self, found: FoundServers) {
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(follower) = &*follower {
            let list = follower.known.lock().clone();
            list.into_iter().for_each(|list| found.set(Ok(list)));
            return;
        }
        match background_runtime() {
            Ok(runtime) => {
                let known = Arc::new(Known::default());
                let task = runtime.spawn(follow(self.source.clone(), known.clone(), found));
                *follower = Some(Follower { known, task });
            }
            Err(error) => found.set(Err(error)),
        }
    }
}

async fn follow(source: Source, known: Arc<Known>, found: FoundServers) {
    let mut wait = FIRST_WAIT;
    loop {
        let Err(status) = follow_once(&source, &known, &found, &mut wait).await;
        let status = source.explain(status);
        let Source { hosts, prefix, .. } = &source;
        tracing::warn!(hosts, prefix, %status, "the list of servers in etcd cannot be read");
        if known.lock().is_none() {
            found.set(Err(io::Error::other(status)));
        }
        tokio::time::sleep(wait).await;
        wait = longer(wait);
    }
}

/// Follows the list until something fails.
async fn follow_once(
    source: &Source,
    known: &Known,
    found: &FoundServers,
    wait: &mut Duration,
) -> Result<Infallible, Status> {
    let channel = source.session().await?;
    let keys = KVClient::new(channel.clone());
    let revision = read(&keys, source, known, found).await?;
    *wait = FIRST_WAIT;
    let (mut asks, mut changes) = WatchClient::new(channel).watch().await?;
    asks.send(watch_from(source, revision + 1)).await?;
    while let Some(change) = changes.message().await? {
        if change.canceled() {
            return Err(over(change.cancel_reason()));
        }
        if !change.events().is_empty() {
            read(&keys, source, known, found).await?;
        }
    }
    Err(over("the watch has ended"))
}

/// Reads all addresses, and reports them if they have changed. Returns the store's revision.
async fn read(
    keys: &KVClient,
    source: &Source,
    known: &Known,
    found: &FoundServers,
) -> Result<i64, Status> {
    let mut range: Msg<RangeRequest> = RangeRequest::new();
    let (key, end) = (source.prefix.as_bytes(), source.range_end());
    range.edit().set_key(key).set_range_end(&*end).set_limit(KEYS_MAX);
    let answer = keys.range(Request::new(range).with_timeout(PATIENCE)).await?;
    let mut list = Vec::new();
    // etcd may give more than it was asked for.
    for pair in answer.kvs().iter().take(KEYS_MAX as usize) {
        if list.len() >= ADDRESSES_MAX {
            break;
        }
        match look_up(pair.value()).await {
            Ok(addresses) => list.extend(addresses),
            Err(why) => {
                let key = pair.key();
                let key = key[..key.len().min(KEY_SHOWN_MAX)].escape_ascii().to_string();
                tracing::warn!(key, why, "a value in etcd is not an address");
            }
        }
    }
    list.truncate(ADDRESSES_MAX);
    let is_new = known.lock().as_ref() != Some(&list);
    if is_new {
        *known.lock() = Some(list.clone());
        found.set(Ok(list));
    }
    Ok(answer.header().map_or(0, |header| header.revision()))
}

/// Asks for the changes since a revision.
fn watch_from(source: &Source, revision: i64) -> Msg<WatchRequest> {
    let mut ask = WatchRequest::new();
    let (key, end) = (source.prefix.as_bytes(), source.range_end());
    let mut edit = ask.edit();
    edit.create_request_mut().set_key(key).set_range_end(&*end).set_start_revision(revision);
    ask
}

/// The addresses in a value; names are looked up.
async fn look_up(text: &[u8]) -> Result<Vec<SocketAddr>, String> {
    let address = value::address(text).ok_or("neither host:port nor JSON with Addr")?;
    let found = tokio::net::lookup_host(address).await.map_err(|error| error.to_string())?;
    let mut found: Vec<SocketAddr> = found.collect();
    // Only the IPv4 addresses, if there are any, so that one server does not look like two.
    if found.iter().any(SocketAddr::is_ipv4) {
        found.retain(SocketAddr::is_ipv4);
    }
    Ok(found)
}
