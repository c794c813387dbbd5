//! What has changed lately, as the own member has applied it: one feed for all watches.
//!
//! Watches take changes from here at their own pace. One that is too slow, or begins in the past,
//! asks the member for older ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use petasos::Status;
use petasos_quorum::etcd::{End, EtcdQuery, Event, EventsAnswer, EventsQuery, Item, Keys};
use tokio::sync::watch;

use crate::failure::malformed;
use crate::group::Group;

/// Changes that are kept, in bytes of keys and values.
const KEPT_BYTES: usize = 16 << 20;
/// What a change takes besides key and value.
const CHANGE_BYTES: usize = 128;
/// The pause before the member is asked again, if it has not answered.
const PAUSE: Duration = Duration::from_millis(100);

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Kept {
    key: Box<[u8]>,
    value: Box<[u8]>,
    created: i64,
    modified: i64,
    version: i64,
    lease: i64,
}

impl Kept {
    fn of(item: &Item<'_>) -> Kept {
        let Item { key, created, modified, version, lease, value } = *item;
        Kept { key: key.into(), value: value.into(), created, modified, version, lease }
    }

    pub fn item(&self) -> Item<'_> {
        let Kept { created, modified, version, lease, .. } = *self;
        Item { key: &self.key, created, modified, version, lease, value: &self.value }
    }
}

/// A change.
#[derive(Debug)]
pub(crate) struct Change {
    pub is_delete: bool,
    pub item: Kept,
    pub previous: Option<Kept>,
}

impl Change {
    pub fn of(event: &Event<'_>) -> Change {
        let previous = event.previous.as_ref().map(Kept::of);
        Change { is_delete: event.is_delete, item: Kept::of(&event.item), previous }
    }

    pub fn revision(&self) -> i64 {
        self.item.modified
    }

    pub fn key(&self) -> &[u8] {
        &self.item.key
    }

    pub fn bytes(&self) -> usize {
        let of = |item: &Kept| item.key.len() + item.value.len();
        CHANGE_BYTES + of(&self.item) + self.previous.as_ref().map_or(0, of)
    }
}

/// Changes, in order.
pub(crate) type Changes = Arc<[Arc<Change>]>;

/// All changes from revision `first` on.
#[derive(Default)]
struct Recent {
    first: i64,
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
}

impl Recent {
    fn push(&mut self, change: Change) {
        self.bytes += change.bytes();
        self.changes.push_back(Arc::new(change));
    }

    /// Drops old ones, by whole revisions.
    fn trim(&mut self) {
        while self.bytes > KEPT_BYTES
            && let Some(revision) = self.changes.front().map(|change| change.revision())
        {
            while let Some(gone) = self.changes.pop_front_if(|of| of.revision() == revision) {
                self.bytes -= gone.bytes();
            }
            self.first = revision + 1;
        }
    }
}

/// The feed.
pub(crate) struct Feed {
    recent: Mutex<Recent>,
    /// The revision up to which all is there.
    revision: watch::Sender<i64>,
}

impl Feed {
    /// A feed that knows nothing yet, of which all watches wait.
    pub fn new() -> Feed {
        Feed { recent: Mutex::default(), revision: watch::Sender::new(0) }
    }

    /// What watches wait for.
    pub fn revisions(&self) -> watch::Receiver<i64> {
        self.revision.subscribe()
    }

    /// Changes from a revision on, or nothing if older ones of these are not kept here.
    pub fn since(&self, from: i64) -> Option<Changes> {
        let recent = self.lock();
        let begin = recent.changes.partition_point(|change| change.revision() < from);
        (from >= recent.first).then(|| recent.changes.range(begin..).cloned().collect())
    }

    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the own member for ever.
    pub async fn follow(&self, group: &Group) {
        let mut index = 0;
        loop {
            match self.take(group, index).await {
                Ok(applied) => index = applied,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Takes what has changed after the entry at `index`, and says up to which entry.
    async fn take(&self, group: &Group, index: u64) -> Result<u64, Status> {
        let known = *self.revision.borrow();
        if known == 0 {
            let answered = group.read_own(&EtcdQuery::Size).await?;
            self.begin(answered.answer()?.revision);
            return Ok(answered.index);
        }
        let keys = Keys { from: &[], end: End::Last };
        let query = EventsQuery { keys, from: known + 1, wants_previous: false };
        let answered = group.follow(index, &EtcdQuery::Events(query)).await?;
        let answer = answered.answer()?;
        let Ok(mut body) = answer.body else {
            // The member was sent a snapshot: what was between is compacted.
            self.begin(answer.revision);
            return Ok(answered.index);
        };
        let EventsAnswer { until, events } = EventsAnswer::read(&mut body).ok_or_else(malformed)?;
        if until > known {
            let mut recent = self.lock();
            events.iter().for_each(|event| recent.push(Change::of(event)));
            recent.trim();
            drop(recent);
            self.revision.send_replace(until);
        }
        // If the answer was cut, there is more of the same entry.
        Ok(if until < answer.revision { 0 } else { answered.index })
    }

    fn begin(&self, revision: i64) {
        let (changes, bytes) = (VecDeque::new(), 0);
        *self.lock() = Recent { first: revision + 1, changes, bytes };
        self.revision.send_replace(revision);
    }
}
