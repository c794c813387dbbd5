//! One watch of a stream.

use petasos_quorum::etcd::{End, Keys};

use super::feed::Change;
use crate::api::WatchCreateRequest;
use crate::api::watch_create_request::FilterType;

enum OwnedEnd {
    Single,
    Before(Vec<u8>),
    Last,
}

/// A watch: which keys, and up to where it was told.
pub(super) struct Watcher {
    pub id: i64,
    asked_bytes: usize,
    from: Vec<u8>,
    end: OwnedEnd,
    wants_puts: bool,
    wants_deletes: bool,
    pub wants_previous: bool,
    pub wants_progress: bool,
    /// The first revision that it was not told of.
    pub next: i64,
    /// Whether it begins in the past, and was not told of all that yet: the member says whether it
    /// may.
    pub is_in_past: bool,
    /// Whether it was told something since progress was told last.
    pub was_told: bool,
}

impl Watcher {
    pub fn new(id: i64, request: &WatchCreateRequest, next: i64) -> Watcher {
        // No key stands for the first one that there may be.
        let from = if request.key().is_empty() { &[0][..] } else { request.key() };
        let end = match request.range_end() {
            [] => OwnedEnd::Single,
            [0] => OwnedEnd::Last,
            end => OwnedEnd::Before(end.to_vec()),
        };
        Watcher {
            id,
            asked_bytes: request.key().len() + request.range_end().len(),
            from: from.to_vec(),
            end,
            wants_puts: !request.filters().contains(&FilterType::NOPUT),
            wants_deletes: !request.filters().contains(&FilterType::NODELETE),
            wants_previous: request.prev_kv(),
            wants_progress: request.progress_notify(),
            next,
            is_in_past: request.start_revision() > 0,
            was_told: false,
        }
    }

    /// How long its keys were, as they were asked for.
    pub fn key_bytes(&self) -> usize {
        self.asked_bytes
    }

    pub fn keys(&self) -> Keys<'_> {
        let end = match &self.end {
            OwnedEnd::Single => End::Single,
            OwnedEnd::Before(end) => End::Before(end),
            OwnedEnd::Last => End::Last,
        };
        Keys { from: &self.from, end }
    }

    /// Whether a change is one that it is to be told of.
    pub fn wants(&self, change: &Change) -> bool {
        let is_of_kind = if change.is_delete { self.wants_deletes } else { self.wants_puts };
        is_of_kind && change.revision() >= self.next && self.keys().contains(change.key())
    }
}
