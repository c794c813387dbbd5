//! The watches of one stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use petasos::{Msg, Sender, Status, Streaming};
use petasos_quorum::etcd::{
    Answer, EtcdQuery, EventsAnswer, EventsQuery, KEY_BYTES_MAX, SizeAnswer,
};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::feed::{Change, Feed};
use super::watcher::Watcher;
use crate::api::event::EventType;
use crate::api::watch_request::RequestUnion;
use crate::api::{WatchCreateRequest, WatchRequest, WatchResponse};
use crate::failure::malformed;
use crate::group::Group;
use crate::sorting::write_item;

/// How often watches that want to know are told that nothing has changed: etcd's.
const PROGRESS: Duration = Duration::from_secs(600);
/// A response ends with the revision with which it has so many bytes.
const RESPONSE_BYTES: usize = 1 << 20;
/// What the watches of a stream may take, in bytes of their keys and 256 more for each.
const WATCHERS_BYTES_MAX: usize = 16 << 20;
const WATCHER_BYTES: usize = 256;
/// The number of no watch.
const NONE: i64 = -1;

pub(super) struct Stream {
    group: Group,
    feed: Arc<Feed>,
    responses: Sender<WatchResponse>,
    watchers: BTreeMap<i64, Watcher>,
    /// What they take.
    bytes: usize,
    next_id: i64,
    /// Up to this revision, the feed has all.
    tip: i64,
    /// Whether progress was asked for.
    wants_progress: bool,
}

impl Stream {
    pub fn new(group: Group, feed: Arc<Feed>, responses: Sender<WatchResponse>) -> Stream {
        let (watchers, bytes, next_id, tip, wants_progress) = Default::default();
        Stream { group, feed, responses, watchers, bytes, next_id, tip, wants_progress }
    }

    /// Takes requests and tells changes, until the client has no more requests.
    pub async fn run(&mut self, requests: &mut Streaming<WatchRequest>) -> Result<(), Status> {
        let mut revisions = self.feed.revisions();
        let mut progress = interval_at(Instant::now() + PROGRESS, PROGRESS);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The feed begins with what the member knows.
        let _ = revisions.wait_for(|revision| *revision > 0).await;
        loop {
            self.tip = *revisions.borrow_and_update();
            let is_behind = self.tell().await?;
            tokio::select! {
                biased;
                request = requests.message() => match request? {
                    Some(request) => self.request(&request).await?,
                    None => return Ok(()),
                },
                _ = progress.tick() => self.tell_progress_of_all().await?,
                () = std::future::ready(()), if is_behind => {}
                // The feed stays as long as there are streams.
                _ = revisions.changed() => {}
            }
        }
    }

    async fn request(&mut self, request: &WatchRequest) -> Result<(), Status> {
        match request.request_union() {
            Some(RequestUnion::CreateRequest(create)) => self.create(create).await,
            Some(RequestUnion::CancelRequest(cancel)) => {
                let id = cancel.watch_id();
                match self.remove(id) {
                    true => self.cancelled(id, 0, "").await,
                    false => Ok(()),
                }
            }
            Some(RequestUnion::ProgressRequest(_)) => {
                self.wants_progress = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn create(&mut self, request: &WatchCreateRequest) -> Result<(), Status> {
        let (key, end) = (request.key().len(), request.range_end().len());
        let bytes = self.bytes + WATCHER_BYTES + key + end;
        let is_long = key.max(end) > KEY_BYTES_MAX || bytes > WATCHERS_BYTES_MAX;
        let id = match request.watch_id() {
            0 => self.free_id(),
            id => id,
        };
        if is_long || id < 0 {
            return self.refuse("etcdserver: request is too large").await;
        }
        if self.watchers.contains_key(&id) {
            return self.refuse("mvcc: duplicate watch ID provided on the WatchStream").await;
        }
        let next = match request.start_revision() {
            ..=0 => self.tip + 1,
            revision => revision,
        };
        self.watchers.insert(id, Watcher::new(id, request, next));
        self.bytes = bytes;
        let mut response = self.response(id);
        response.edit().set_created(true);
        self.responses.send(response).await
    }

    /// Ends a watch, if there is one of this number.
    fn remove(&mut self, id: i64) -> bool {
        let removed = self.watchers.remove(&id);
        self.bytes -= removed.as_ref().map_or(0, |gone| WATCHER_BYTES + gone.key_bytes());
        removed.is_some()
    }

    fn free_id(&mut self) -> i64 {
        while self.watchers.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }

    async fn refuse(&mut self, why: &str) -> Result<(), Status> {
        let mut response = self.response(NONE);
        response.edit().set_created(true).set_canceled(true).set_cancel_reason(why);
        self.responses.send(response).await
    }

    async fn cancelled(&mut self, id: i64, compacted: i64, why: &str) -> Result<(), Status> {
        let mut response = self.response(id);
        response.edit().set_canceled(true).set_compact_revision(compacted).set_cancel_reason(why);
        self.responses.send(response).await
    }

    fn response(&self, id: i64) -> Msg<WatchResponse> {
        let mut response = WatchResponse::new();
        let mut edit = response.edit();
        self.group.head(edit.header_mut(), self.tip);
        edit.set_watch_id(id);
        response
    }

    /// Tells all watches what is new. Whether one is still behind.
    async fn tell(&mut self) -> Result<bool, Status> {
        let behind = self.watchers.values().filter(|watcher| watcher.next <= self.tip);
        let Some(first) = behind.map(|watcher| watcher.next).min() else {
            return self.tell_progress().await.map(|()| false);
        };
        // If the feed has not all of it, those that lack older changes are told by the member.
        let recent = self.feed.since(first);
        let ids: Vec<i64> = self.watchers.keys().copied().collect();
        let mut is_behind = false;
        for id in ids {
            let Some(watcher) = self.watchers.get(&id).filter(|of| of.next <= self.tip) else {
                continue;
            };
            let recent = recent.clone().or_else(|| self.feed.since(watcher.next));
            match recent.filter(|_| !watcher.is_in_past) {
                Some(recent) => self.tell_recent(id, &recent).await?,
                None => is_behind |= self.tell_older(id).await?,
            }
        }
        match is_behind {
            true => Ok(true),
            false => self.tell_progress().await.map(|()| false),
        }
    }

    /// Tells a watch what the feed has.
    async fn tell_recent(&mut self, id: i64, recent: &[Arc<Change>]) -> Result<(), Status> {
        let (tip, watcher) = (self.tip, &self.watchers[&id]);
        let wanted = recent.iter().filter(|change| change.revision() <= tip);
        let wanted: Vec<_> = wanted.filter(|change| watcher.wants(change)).cloned().collect();
        if watcher.wants_previous && !wanted.is_empty() {
            // The feed does not have what was there before.
            while self.tell_older(id).await? {}
            return Ok(());
        }
        self.send(id, &wanted).await?;
        self.moved(id, tip + 1);
        Ok(())
    }

    /// Tells a watch some of what the member has. Whether it is still behind.
    async fn tell_older(&mut self, id: i64) -> Result<bool, Status> {
        let Some(watcher) = self.watchers.get(&id) else { return Ok(false) };
        let query = EventsQuery {
            keys: watcher.keys(),
            from: watcher.next,
            wants_previous: watcher.wants_previous,
        };
        let answered = self.group.read_own(&EtcdQuery::Events(query)).await?;
        let Answer { body: Ok(mut body), .. } = answered.answer()? else {
            self.remove(id);
            let compacted = compacted(&self.group).await?;
            let why = "mvcc: required revision has been compacted";
            self.cancelled(id, compacted, why).await?;
            return Ok(false);
        };
        let EventsAnswer { until, events } = EventsAnswer::read(&mut body).ok_or_else(malformed)?;
        let told = events.iter().map(|event| Arc::new(Change::of(event)));
        let wanted: Vec<_> = told.filter(|change| watcher.wants(change)).collect();
        self.tip = self.tip.max(until);
        self.send(id, &wanted).await?;
        self.moved(id, until + 1);
        Ok(until < self.tip)
    }

    fn moved(&mut self, id: i64, next: i64) {
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.next = watcher.next.max(next);
            watcher.is_in_past &= next <= self.tip;
        }
    }

    /// Sends changes, those of a revision together.
    async fn send(&mut self, id: i64, changes: &[Arc<Change>]) -> Result<(), Status> {
        let mut rest = changes;
        while !rest.is_empty() {
            let mut bytes = 0;
            let ends = rest.iter().zip(rest.iter().skip(1)).position(|(one, next)| {
                bytes += one.bytes();
                bytes >= RESPONSE_BYTES && one.revision() < next.revision()
            });
            let (now, later) = rest.split_at(ends.map_or(rest.len(), |at| at + 1));
            self.responses.send(self.told(id, now)).await?;
            rest = later;
        }
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.was_told |= !changes.is_empty();
        }
        Ok(())
    }

    fn told(&self, id: i64, changes: &[Arc<Change>]) -> Msg<WatchResponse> {
        let mut response = self.response(id);
        let mut edit = response.edit();
        let mut events = edit.events_mut();
        for change in changes {
            let mut event = events.add();
            event.set_type(if change.is_delete { EventType::DELETE } else { EventType::PUT });
            write_item(event.kv_mut(), &change.item.item());
            if let Some(previous) = &change.previous {
                write_item(event.prev_kv_mut(), &previous.item());
            }
        }
        response
    }

    /// Says up to where all watches were told, if that was asked for.
    async fn tell_progress(&mut self) -> Result<(), Status> {
        if !std::mem::take(&mut self.wants_progress) {
            return Ok(());
        }
        let response = self.response(NONE);
        self.responses.send(response).await
    }

    /// Says to each watch that wants to know, and was told nothing for long, up to where it was.
    async fn tell_progress_of_all(&mut self) -> Result<(), Status> {
        let mut idle = Vec::new();
        for watcher in self.watchers.values_mut().filter(|of| of.wants_progress) {
            if !std::mem::take(&mut watcher.was_told) && watcher.next > self.tip {
                idle.push(watcher.id);
            }
        }
        for id in idle {
            let response = self.response(id);
            self.responses.send(response).await?;
        }
        Ok(())
    }
}

/// Up to which revision the own member's store was compacted.
async fn compacted(group: &Group) -> Result<i64, Status> {
    let answered = group.read_own(&EtcdQuery::Size).await?;
    let (_, mut body) = answered.found()?;
    Ok(SizeAnswer::read(&mut body).ok_or_else(malformed)?.compacted)
}
