//! One key of etcd, read and followed: what a configuration in etcd needs.

use core::time::Duration;

use petasos::{ConnectError, Msg, Request, Status, TargetError};

use super::api::{KVClient, RangeRequest, WatchClient, WatchRequest};
use super::options::EtcdOptions;
use super::source::{PATIENCE, Source, longer, over};

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// A key of etcd. Its value may be anything: it is not trusted.
#[derive(Clone, Debug)]
pub struct Key {
    source: Source,
    key: String,
}

/// Follows the value of a key.
#[derive(Debug)]
pub struct Follower {
    key: Key,
    known: Option<Vec<u8>>,
    /// How long to wait before the next try, after a failure.
    wait: Option<Duration>,
}

impl EtcdOptions {
    /// The key of a target: `etcd://HOST:PORT[,HOST:PORT…]/KEY` in plaintext, `etcds://…` with TLS.
    ///
    /// # Errors
    /// The target does not have this form, or it is `etcds://` and the options have no TLS.
    pub fn key(&self, target: &str) -> Result<Key, ConnectError> {
        let source = Source::of_target(target, self)?;
        if source.is_group {
            return Err(TargetError::Form(target.to_owned()).into());
        }
        let key = source.prefix.trim_end_matches('/').to_owned();
        Ok(Key { source, key })
    }
}

impl Key {
    /// Its value; `None` if there is no such key. Needs the context of a Tokio runtime.
    ///
    /// # Errors
    /// etcd cannot be reached, or refuses: a status that says what to mend.
    pub async fn get(&self) -> Result<Option<Vec<u8>>, Status> {
        let read = async {
            let keys = KVClient::new(self.source.session().await?);
            Ok(self.read(&keys).await?.0)
        };
        read.await.map_err(|status| self.source.explain(status))
    }

    /// Follows the value, of which this is known.
    pub fn follow(self, known: Option<Vec<u8>>) -> Follower {
        Follower { key: self, known, wait: None }
    }

    /// The value, and the store's revision.
    async fn read(&self, keys: &KVClient) -> Result<(Option<Vec<u8>>, i64), Status> {
        let mut range: Msg<RangeRequest> = RangeRequest::new();
        range.edit().set_key(self.key.as_bytes());
        let answer = keys.range(Request::new(range).with_timeout(PATIENCE)).await?;
        let value = answer.kvs().iter().next().map(|pair| pair.value().to_vec());
        Ok((value, answer.header().map_or(0, |header| header.revision())))
    }

    /// Asks for the changes since a revision.
    fn watch_from(&self, revision: i64) -> Msg<WatchRequest> {
        let mut ask = WatchRequest::new();
        let mut edit = ask.edit();
        let mut create = edit.create_request_mut();
        create.set_key(self.key.as_bytes()).set_start_revision(revision);
        ask
    }

    /// Waits until the value is not the one that is known.
    async fn changed(&self, known: Option<&[u8]>) -> Result<Option<Vec<u8>>, Status> {
        let channel = self.source.session().await?;
        let keys = KVClient::new(channel.clone());
        let (value, revision) = self.read(&keys).await?;
        if value.as_deref() != known {
            return Ok(value);
        }
        let (mut asks, mut changes) = WatchClient::new(channel).watch().await?;
        asks.send(self.watch_from(revision + 1)).await?;
        while let Some(change) = changes.message().await? {
            if change.canceled() {
                return Err(over(change.cancel_reason()));
            }
            if change.events().is_empty() {
                continue;
            }
            let (value, _) = self.read(&keys).await?;
            if value.as_deref() != known {
                return Ok(value);
            }
        }
        Err(over("the watch has ended"))
    }
}

impl Follower {
    /// Waits until the key has another value than the latest that is known, and gives that; `None`
    /// if the key has gone. Needs the context of a Tokio runtime.
    ///
    /// # Errors
    /// etcd cannot be reached, or refuses: a status that says what to mend. The next call tries
    /// again after a while, which grows up to 30 seconds.
    pub async fn changed(&mut self) -> Result<Option<Vec<u8>>, Status> {
        if let Some(wait) = self.wait {
            tokio::time::sleep(wait).await;
        }
        match self.key.changed(self.known.as_deref()).await {
            Ok(value) => {
                self.wait = None;
                self.known.clone_from(&value);
                Ok(value)
            }
            Err(status) => {
                self.wait = Some(self.wait.map_or(FIRST_WAIT, longer));
                Err(self.key.source.explain(status))
            }
        }
    }
}
