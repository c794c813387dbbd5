//! The part of the table of streams that concerns streams this loop serves.

use petasos_call::stream::SessionStreams;
use petasos_call::{Code, Metadata, Status};
use petasos_endpoint::ServerSessionId;

use super::parts::StreamKey;
use super::table::{Half, Served, Streams};
use crate::task::Task;

impl Streams {
    /// Whether no stream is served.
    pub(crate) fn is_idle(&self) -> bool {
        self.handlers == 0
    }

    /// The session of a handler's half.
    pub(crate) fn session_of(&mut self, place: u32) -> Option<ServerSessionId> {
        self.server(place).map(|server| server.session)
    }

    /// The handlers that are running.
    pub(crate) fn running(&mut self) -> Vec<Task> {
        let task = |half: &Half| match half {
            Half::Server(server) => server.slot.map(|slot| Task { kind: server.kind, slot }),
            _ => None,
        };
        self.halves().filter_map(task).collect()
    }

    /// The streams of a session that is served. `slots` is called for a session not known yet and
    /// returns how many calls it carries. Returns `None` if the session is gone.
    pub(crate) fn served(
        &mut self,
        session: ServerSessionId,
        slots: impl FnOnce() -> Option<u32>,
    ) -> Option<&mut SessionStreams<u32>> {
        let at = session.place();
        if self.served.len() <= at {
            self.served.resize_with(at + 1, || None);
        }
        let is_known = self.served[at].as_ref().is_some_and(|known| known.session == session);
        if !is_known {
            let streams = SessionStreams::new(slots()?);
            let earlier = self.served[at].replace(Served { session, streams });
            // The streams of an earlier session with this index. The next sweep ends their
            // handlers.
            let lost =
                earlier.into_iter().flat_map(|served| served.streams.keys().collect::<Vec<_>>());
            self.orphans.extend(lost);
        }
        self.served[at].as_mut().map(|served| &mut served.streams)
    }

    /// R18: streams that hold more exchanges than they need, and say nothing, answer all but one.
    /// The slots of these can then be lent to other streams.
    pub(crate) fn release_spare(&mut self) {
        let known = self.served.iter().flatten();
        let places: Vec<u32> = known.flat_map(|served| served.streams.keys()).collect();
        for place in places {
            if let Some(server) = self.server(place)
                && server.stream.has_spare()
            {
                server.stream.release_spare();
                self.mark(place);
            }
        }
    }

    /// Sets a server's initial metadata.
    pub(crate) fn head(&mut self, key: StreamKey, metadata: Metadata) {
        if let Some(Half::Server(server)) = self.get(key).map(|entry| &mut entry.half) {
            server.stream.head(metadata);
            self.mark(key.place);
        }
    }

    /// Sets a server's trailing metadata.
    pub(crate) fn trailers(&mut self, key: StreamKey, metadata: Metadata) {
        if let Some(Half::Server(server)) = self.get(key).map(|entry| &mut entry.half) {
            server.trailers = metadata;
        }
    }

    /// Notes that the stream's handler waits in this slot.
    pub fn handler_waits(&mut self, key: StreamKey, slot: u32) {
        if let Some(Half::Server(server)) = self.get(key).map(|entry| &mut entry.half) {
            server.slot = Some(slot);
        }
    }

    /// The handler of a stream has ended. Its result is sent after all its messages.
    pub fn handler_ended(&mut self, key: StreamKey, result: Result<(), Status>) {
        let Some(entry) = self.get(key) else { return };
        let Half::Server(server) = &mut entry.half else { return };
        if entry.writer.remote.as_ref().is_some_and(|remote| remote.handler_ended()) {
            (server.slot, server.ending) = (None, Some(result));
            return;
        }
        self.end_after_handler(key, result);
    }

    /// A handler's mailbox has no messages left to send.
    pub(crate) fn sent_all(&mut self, key: StreamKey) {
        if let Some(Half::Server(server)) = self.get(key).map(|entry| &mut entry.half)
            && let Some(result) = server.ending.take()
        {
            self.end_after_handler(key, result);
        }
    }

    fn end_after_handler(&mut self, key: StreamKey, result: Result<(), Status>) {
        let server = self.server(key.place).expect("the half was just found");
        let trailers = core::mem::take(&mut server.trailers);
        let status = match result {
            Ok(()) => Status::ok().with_metadata(trailers),
            Err(status) => failure(status, &trailers),
        };
        server.stream.end(status);
        self.handler_left(key, Status::cancelled("the handler has ended"));
    }

    /// R19: the handler of a stream was dropped. The caller gets this status.
    pub fn handler_dropped(&mut self, key: StreamKey, status: Status) {
        let Some(Half::Server(server)) = self.get(key).map(|entry| &mut entry.half) else { return };
        server.stream.abort(status.clone());
        self.handler_left(key, status);
    }

    fn handler_left(&mut self, key: StreamKey, over: Status) {
        let server = self.server(key.place).expect("the half was just found");
        server.slot = None;
        server.over.get_or_insert(over);
        self.mark(key.place);
        self.wake_later(key.place);
        self.free_if_over(key.place);
    }
}

/// The failure to report for a handler's error. An error with code OK is a mistake of the handler
/// and must not look like success.
fn failure(status: Status, trailers: &Metadata) -> Status {
    let mut status = match status.code() {
        Code::Ok => Status::unknown("the handler failed with OK"),
        _ => status,
    };
    for (key, value) in trailers.iter() {
        // The keys and values were valid when the handler added them.
        let _ = status.metadata_mut().append_bytes(key.as_bytes(), value);
    }
    status
}
