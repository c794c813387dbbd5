//! Moves messages between mailboxes and their streams' halves.

use core::task::Waker;

use petasos_call::Status;

use super::parts::{Event, Side, StreamKey, weight};
use super::remote::{REMOTE_BYTES_MAX, RemoteStream, State};
use super::table::Streams;

/// What the loop must do after it has looked at a mailbox.
pub(crate) struct Pumped {
    /// The direction to release, because the application no longer uses it.
    pub(crate) leaves: Option<(StreamKey, Side)>,
    /// The task that waited for what has arrived.
    pub(crate) waker: Option<Waker>,
}

impl RemoteStream {
    /// Moves messages between the mailbox and its half. Does nothing if the loop does not know the
    /// mailbox yet.
    pub(crate) fn pump(&self, streams: &mut Streams) -> Option<Pumped> {
        let mut state = self.lock();
        let (key, side) = state.at?;
        let (had_form, had, room) = (state.form.is_some(), state.events.len(), state.bytes);
        state.pump(streams, key, side);
        let leaves = state.has_left && (side == Side::Reader || state.outgoing.is_empty());
        let is_news = had_form != state.form.is_some()
            || state.over.is_some()
            || match side {
                Side::Reader => state.events.len() > had,
                Side::Writer => state.bytes < room && state.bytes < REMOTE_BYTES_MAX,
            };
        let waker = if is_news { state.waker.take() } else { None };
        Some(Pumped { leaves: leaves.then_some((key, side)), waker })
    }
}

impl State {
    /// Moves messages in the direction that this mailbox serves.
    fn pump(&mut self, streams: &mut Streams, key: StreamKey, side: Side) {
        if self.form.is_none() {
            self.form = streams.opened(key);
        }
        if let Some(status) = self.refused.take() {
            streams.refuse(key, &status);
        }
        match side {
            Side::Reader => self.pump_reader(streams, key),
            Side::Writer => self.pump_writer(streams, key),
        }
    }

    fn pump_reader(&mut self, streams: &mut Streams, key: StreamKey) {
        while self.over.is_none() && !self.is_full {
            let Some(event) = streams.next(key) else { return };
            if let Event::End(end) = &event {
                let after = || Status::internal("the stream was read after its end");
                self.over = Some(end.as_ref().err().cloned().unwrap_or_else(after));
            }
            self.bytes += event.bytes();
            self.events.push_back(event);
            self.is_full = self.bytes >= REMOTE_BYTES_MAX;
        }
    }

    fn pump_writer(&mut self, streams: &mut Streams, key: StreamKey) {
        if let Some(head) = self.head.take() {
            streams.head(key, head);
        }
        while let Some(room) = streams.room(key) {
            if let Err(status) = room {
                self.bytes = 0;
                self.end(status);
                break;
            }
            let Some(message) = self.outgoing.pop_front() else { break };
            self.bytes -= weight(&message);
            streams.send(key, message);
        }
        if let Some(trailers) = self.trailers.take() {
            streams.trailers(key, trailers);
        }
        if self.outgoing.is_empty() {
            streams.sent_all(key);
        }
    }
}
