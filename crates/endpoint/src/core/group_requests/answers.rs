//! Answers of handlers to requests of groups (RT16, RT18).

use petasos_proto::Respond;
use petasos_proto::taken::{Answered, Asker, SessionName, TakenId};
use petasos_wire::{Header, Kind, RejectCode, WorkerBlock};

use super::TakenOf;
use crate::core::Core;
use crate::handler::{Payload, RequestHandle};
use crate::kept::SHORT_BYTES_MAX;

impl<S> Core<S> {
    /// Answers a request of a group. If nobody waits for it any more, the response is dropped.
    pub(crate) fn answer_taken(&mut self, handle: &RequestHandle, response: Payload<'_>) {
        let (now, id) = (self.now, TakenId::from_bits(handle.request));
        let bytes = len_of(&response);
        if bytes > self.config.session.message_bytes_max as usize {
            self.give_payload(response);
            return self.reject_taken(id, RejectCode::HandlerFailed);
        }
        let Some(requests) = self.group_requests.as_deref_mut() else {
            return self.give_payload(response);
        };
        let (asker, of) = (requests.taken.asker(id), requests.taken.context(id).copied());
        let is_one_packet = of.is_some_and(|of| bytes <= of.payload_bytes as usize);
        match (requests.taken.answer(now, id, is_one_packet), asker, of) {
            (Answered::Left(of), Some(asker), _) => self.answer_and_leave(&asker, of, response),
            (Answered::Kept(name), Some(asker), Some(of)) => {
                self.keep_answer(id, name, (&asker, of), response);
            }
            (_, asker, _) => {
                self.give_payload(response);
                if let Some(asker) = asker {
                    self.drop_idle_client(asker.client);
                }
            }
        }
        self.list_group_requests();
    }

    /// The answer is all that there is.
    #[inline]
    fn answer_and_leave(&mut self, asker: &Asker, of: TakenOf, response: Payload<'_>) {
        let bytes = len_of(&response);
        let block = WorkerBlock { session: 0, tag: 0, worker: of.answer_as.worker };
        let header = Header::for_session(asker.pair, asker.pair_tag)
            .with_request(Kind::Response, asker.request, 0)
            .with_server(asker.echo, bytes as u32, 0);
        let fill = |to: &mut [u8]| copy_payload(&response, to);
        self.push_answer((asker.client, of.answer_as.seal), block, header, (bytes, fill));
        self.give_payload(response);
        self.drop_idle_client(asker.client);
    }

    /// The answer is kept in a session until its client has it.
    fn keep_answer(
        &mut self,
        id: TakenId,
        name: SessionName,
        (asker, of): (&Asker, TakenOf),
        response: Payload<'_>,
    ) {
        self.bind_running(id, asker, name.tag, of);
        let bytes = len_of(&response);
        let response = match response {
            Payload::Frame(from) if bytes > SHORT_BYTES_MAX => match self.take_buffer(bytes) {
                Some(mut buf) => {
                    buf.copy_from_slice(from);
                    Payload::Buffer(buf)
                }
                // The handler has run.
                None => return self.reject_bound(id, RejectCode::HandlerFailed),
            },
            response => response,
        };
        let Some(session) = self.group_requests_mut().session_mut(id.index) else { return };
        if session.session.respond(asker.request, bytes as u32) != Respond::Send {
            return self.give_payload(response);
        }
        match response {
            Payload::Frame(from) => {
                session.session.kept_mut(0).short_mut(bytes).copy_from_slice(from);
            }
            Payload::Buffer(buf) => {
                self.put_message(id.index, buf);
                self.count_taken(id.index, bytes);
            }
        }
        self.send_taken(id.index, 0, 1);
    }

    /// Counts that the answer to a request of a group is a failure.
    #[cold]
    pub(crate) fn count_taken_failure(&mut self, id: TakenId) {
        if let Some(requests) = self.group_requests.as_deref_mut() {
            requests.taken.count_failure(id);
        }
    }

    /// Declines to answer a request of a group.
    #[cold]
    pub(crate) fn reject_taken(&mut self, id: TakenId, code: RejectCode) {
        let now = self.now;
        let Some(requests) = self.group_requests.as_deref_mut() else { return };
        if code == RejectCode::HandlerFailed {
            requests.taken.count_failure(id);
        }
        let asker = requests.taken.asker(id);
        match (requests.taken.reject(now, id, code), asker) {
            (Answered::Left(of), Some(asker)) => {
                self.reject_first(&asker, of.answer_as, code);
                self.drop_idle_client(asker.client);
            }
            (Answered::Kept(_), Some(_)) => self.reject_bound(id, code),
            (_, Some(asker)) => self.drop_idle_client(asker.client),
            _ => {}
        }
        self.list_group_requests();
    }

    /// Rejects the request of the handler that has panicked, if it was of a group.
    #[cold]
    pub(crate) fn reject_running(&mut self) {
        let running = self.group_requests.as_deref_mut().and_then(|it| it.running.take());
        if let Some(id) = running {
            self.reject_taken(id, RejectCode::HandlerFailed);
        }
    }

    /// Whether the call behind a request of a group still waits for an answer.
    pub(crate) fn is_taken_wanted(&self, handle: &RequestHandle) -> bool {
        let requests = self.group_requests.as_deref().filter(|_| handle.session.is_group());
        requests.is_some_and(|it| it.taken.is_wanted(TakenId::from_bits(handle.request)))
    }

    fn give_payload(&mut self, payload: Payload<'_>) {
        if let Payload::Buffer(buf) = payload {
            self.pool.give(buf);
        }
    }
}

/// Bytes of a response, those of a buffer's tail included.
#[inline]
fn len_of(response: &Payload<'_>) -> usize {
    match response {
        Payload::Frame(bytes) => bytes.len(),
        Payload::Buffer(buf) => buf.len(),
    }
}

#[inline]
fn copy_payload(response: &Payload<'_>, to: &mut [u8]) {
    match response {
        Payload::Frame(bytes) => to.copy_from_slice(bytes),
        Payload::Buffer(buf) => buf.copy_range(0, to),
    }
}
