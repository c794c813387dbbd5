//! Follows the addresses under a prefix, for one channel.
//!
//! A task reads all keys, watches for changes from there on, and reads them again when there are
//! some. It runs in a runtime of the process's own, refers to its channel weakly, and is aborted
//! with it. What it finds it posts to the channel's loop.

use core::convert::Infallible;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use petasos_call::Status;
use petasos_message::Msg;
use tokio::task::JoinHandle;

use super::api::{KVClient, RangeRequest, WatchClient, WatchRequest};
use super::{PATIENCE, Source, longer, over, value};
use crate::channel::{ChannelInfo, grpc, of_one_family};
use crate::home::shared::{Letter, Shared};
use crate::request::Request;

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Keeps a channel's list of servers up to date for as long as somebody has this.
#[derive(Debug)]
pub(crate) struct Follower {
    known: Arc<Known>,
    task: JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The list that was read last.
#[derive(Debug, Default)]
struct Known(Mutex<Option<Vec<SocketAddr>>>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<SocketAddr>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells a channel what its servers are: at once if that is known, otherwise when it is.
pub(crate) fn resolve(home: &Arc<Shared>, channel: u32, info: &Arc<ChannelInfo>, from: &Source) {
    let teller = Teller { home: home.clone(), channel, info: Arc::downgrade(info) };
    let mut follower = info.follower();
    if let Some(follower) = &*follower {
        if let Some(list) = &*follower.known.lock() {
            teller.tell(Ok(list.clone()));
        }
        return;
    }
    match grpc::own_runtime() {
        Ok(runtime) => {
            let known = Arc::new(Known::default());
            let task = runtime.spawn(follow(from.clone(), known.clone(), teller));
            *follower = Some(Follower { known, task });
        }
        Err(error) => teller.tell(Err(error)),
    }
}

/// Who is told.
struct Teller {
    home: Arc<Shared>,
    channel: u32,
    info: Weak<ChannelInfo>,
}

impl Teller {
    fn tell(&self, found: io::Result<Vec<SocketAddr>>) {
        if let Some(info) = self.info.upgrade() {
            self.home.post(Letter::Resolved { channel: self.channel, info, found });
        }
    }
}

async fn follow(source: Source, known: Arc<Known>, teller: Teller) {
    let mut wait = FIRST_WAIT;
    loop {
        let Err(status) = follow_once(&source, &known, &teller, &mut wait).await;
        tracing::warn!(hosts = source.hosts, prefix = source.prefix, %status, "etcd is away");
        if known.lock().is_none() {
            teller.tell(Err(io::Error::other(status)));
        }
        tokio::time::sleep(wait).await;
        wait = longer(wait);
    }
}

/// Follows until something fails.
async fn follow_once(
    source: &Source,
    known: &Known,
    teller: &Teller,
    wait: &mut Duration,
) -> Result<Infallible, Status> {
    let channel = source.connect().map_err(|error| over(&error.to_string()))?;
    let keys = KVClient::new(channel.clone());
    let revision = read(&keys, source, known, teller).await?;
    *wait = FIRST_WAIT;
    let (mut asks, mut changes) = WatchClient::new(channel).watch().await?;
    asks.send(watch_from(source, revision + 1)).await?;
    while let Some(change) = changes.message().await? {
        if change.canceled() {
            return Err(over(change.cancel_reason()));
        }
        if !change.events().is_empty() {
            read(&keys, source, known, teller).await?;
        }
    }
    Err(over("the watch has ended"))
}

/// Reads all addresses, and tells them if they are others than before. The store's revision.
async fn read(
    keys: &KVClient,
    source: &Source,
    known: &Known,
    teller: &Teller,
) -> Result<i64, Status> {
    let mut range: Msg<RangeRequest> = RangeRequest::new();
    range.edit().set_key(source.prefix.as_bytes()).set_range_end(&*source.range_end());
    let found = keys.range(Request::new(range).with_timeout(PATIENCE)).await?;
    let mut list = Vec::new();
    for pair in found.kvs().iter() {
        match look_up(pair.value()).await {
            Ok(addresses) => list.extend(addresses),
            Err(why) => {
                let key = pair.key().escape_ascii().to_string();
                tracing::warn!(key, why, "a value in etcd is no address");
            }
        }
    }
    let is_new = known.lock().as_ref() != Some(&list);
    if is_new {
        *known.lock() = Some(list.clone());
        teller.tell(Ok(list));
    }
    Ok(found.header().map_or(0, |header| header.revision()))
}

/// Asks for the changes from a revision on.
fn watch_from(source: &Source, revision: i64) -> Msg<WatchRequest> {
    let mut ask = WatchRequest::new();
    let (key, end) = (source.prefix.as_bytes(), source.range_end());
    let mut edit = ask.edit();
    edit.create_request_mut().set_key(key).set_range_end(&*end).set_start_revision(revision);
    ask
}

/// The addresses that a value stands for.
async fn look_up(text: &[u8]) -> Result<Vec<SocketAddr>, String> {
    let address = value::address(text).ok_or("neither host:port nor JSON with Addr")?;
    let found = tokio::net::lookup_host(address).await.map_err(|error| error.to_string())?;
    Ok(of_one_family(found.collect()).collect())
}
