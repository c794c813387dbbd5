//! The service: values in memory, and who watches them.
//!
//! Invariants: nothing is awaited under the lock; the changes that a watcher has not taken are
//! bounded, and a watcher that falls behind gets an error instead of missing changes silently.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use petasos::message::ADOPT_BYTES_MIN;
use petasos::{Msg, Request, Response, Sender, Status};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver};

use crate::kv::{Change, Entry, Key, Range, Removed, Store, Stored, Value};

/// How many changes a watcher may be behind.
const CHANGES_MAX: usize = 1024;
/// Entries of a scan that are copied under one lock.
const PAGE: usize = 64;
const KEY_BYTES_MAX: usize = 1024;

pub struct Memory {
    entries: Mutex<BTreeMap<String, Bytes>>,
    changes: broadcast::Sender<Msg<Change>>,
}

impl Default for Memory {
    fn default() -> Memory {
        let (changes, _) = broadcast::channel(CHANGES_MAX);
        Memory { entries: Mutex::default(), changes }
    }
}

impl Memory {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.entries.lock().expect("nothing panics under the lock")
    }

    /// Notifies watchers. This is done under the lock, so that they get changes in order. It is not
    /// an error if nobody watches.
    fn tell(&self, key: &str, value: Option<&Bytes>) {
        let mut change = Change::new();
        let mut edit = change.edit();
        edit.set_key(key);
        if let Some(value) = value {
            edit.set_value(value.clone());
        }
        let _ = self.changes.send(change);
    }

    /// The next entries of a scan: those after `after`, or from the prefix on.
    fn page(&self, prefix: &str, after: Option<&str>) -> Vec<Msg<Entry>> {
        let from = match after {
            Some(key) => Bound::Excluded(key),
            None => Bound::Included(prefix),
        };
        let entries = self.entries();
        let found = entries.range::<str, _>((from, Bound::Unbounded));
        let found = found.take_while(|(key, _)| key.starts_with(prefix)).take(PAGE);
        found.map(|(key, value)| entry(key, value)).collect()
    }
}

fn entry(key: &str, value: &Bytes) -> Msg<Entry> {
    let mut entry = Entry::new();
    // Long values are shared with the store, not copied.
    entry.set_key(key).set_value(value.clone());
    entry
}

/// The value of a received entry. Short values are copied; long ones stay in the buffer in which
/// they arrived.
fn kept(entry: Msg<Entry>) -> Bytes {
    match entry.value() {
        short if short.len() < ADOPT_BYTES_MIN => Bytes::copy_from_slice(short),
        _ => Msg::into_bytes(entry, |entry| entry.value()),
    }
}

fn checked(key: &str) -> Result<String, Status> {
    match key.len() {
        0 => Err(Status::invalid_argument("a key is needed")),
        1..=KEY_BYTES_MAX => Ok(key.to_owned()),
        _ => Err(Status::invalid_argument("keys have at most 1024 bytes")),
    }
}

fn missing(key: &str) -> Status {
    Status::not_found(format!("nothing is under `{key}`"))
}

impl Store for Memory {
    async fn get(&self, request: Request<Key>) -> Result<Response<Value>, Status> {
        let found = self.entries().get(request.key()).cloned();
        let found = found.ok_or_else(|| missing(request.key()))?;
        let mut value = Value::new();
        value.set_value(found);
        Ok(Response::new(value))
    }

    async fn put(&self, request: Request<Entry>) -> Result<Response<Stored>, Status> {
        let key = checked(request.key())?;
        let value = kept(request.into_message());
        let mut entries = self.entries();
        self.tell(&key, Some(&value));
        let replaced = entries.insert(key, value).is_some();
        drop(entries);
        let mut stored = Stored::new();
        stored.set_replaced(replaced);
        Ok(Response::new(stored))
    }

    async fn delete(&self, request: Request<Key>) -> Result<Response<Removed>, Status> {
        let mut entries = self.entries();
        entries.remove(request.key()).ok_or_else(|| missing(request.key()))?;
        self.tell(request.key(), None);
        Ok(Response::new(Removed::new()))
    }

    async fn scan(&self, range: Request<Range>, mut out: Sender<Entry>) -> Result<(), Status> {
        let mut page = self.page(range.prefix(), None);
        while let Some(last) = page.last().map(|entry| entry.key().to_owned()) {
            for entry in page {
                // Waits while the caller does not read.
                out.send(entry).await?;
            }
            page = self.page(range.prefix(), Some(&last));
        }
        Ok(())
    }

    async fn watch(&self, range: Request<Range>, mut out: Sender<Change>) -> Result<(), Status> {
        let mut changes: Receiver<Msg<Change>> = self.changes.subscribe();
        // Tells the caller that it will not miss any later change.
        out.metadata_mut().append("watching", "yes").expect("it is a key and a value");
        out.send_metadata();
        loop {
            match changes.recv().await {
                Ok(change) if change.key().starts_with(range.prefix()) => out.send(change).await?,
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => {
                    let what = format!("{missed} changes came while nobody read: scan again");
                    return Err(Status::resource_exhausted(what));
                }
                Err(RecvError::Closed) => return Ok(()),
            }
        }
    }
}
