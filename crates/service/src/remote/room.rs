//! Streams between hosts that one end does not read (D8). Bounds the messages that wait here for
//! the transport, and tells the transport when there is room for messages that wait there.

use petasos_base::Time;
use petasos_call::{Metadata, Status};
use petasos_engine::Application as Number;

use crate::application::Memory;
use crate::beyond::{Entry, RemoteEnd, RemoteItem};
use crate::hub::Hub;
use crate::remote_calls::RemoteCall;

/// So many calls are told of an application's room at a time: each may take all of it.
const ROOMS_AT_ONCE: usize = 64;

impl<M: Memory> Hub<M> {
    /// Whether the application at this host's end of a call can be given another message. If not,
    /// [`RemoteEvent::Room`](crate::RemoteEvent::Room) says when to ask again. True of a call that
    /// is done, for which everything is dropped.
    pub fn has_room_for_remote(&mut self, call: RemoteCall) -> bool {
        let Some(remote) = &mut self.remote else { return true };
        let Some(entry) = remote.calls.get(call) else { return true };
        if let Some((has_room, payer)) = remote.has_room_through(entry) {
            let has_room = has_room && remote.passing.has_room(payer, call);
            let entry = remote.calls.get_mut(call).expect("it was just found");
            entry.is_refused |= !has_room;
            return has_room;
        }
        let entry = remote.calls.get_mut(call).expect("it was just found");
        let Some(application) = self.applications.get_mut(&entry.application.0) else {
            return true;
        };
        let is_full = !application.holds_less();
        if !is_full && !application.datapath.is_aside(entry.id) {
            return true;
        }
        let was_refused = std::mem::replace(&mut entry.is_refused, true);
        // One whose own messages wait is told when the application has read them.
        if is_full && !was_refused {
            application.refused.push_back(call);
            // Those that are done stay until then: this happens seldom.
            if application.refused.len() > 2 * application.limits.items_max {
                let is_refused =
                    |call: &RemoteCall| remote.calls.get(*call).is_some_and(|it| it.is_refused);
                application.refused.retain(is_refused);
            }
        }
        false
    }

    /// An application was given a message of a call: there may be room for the next one.
    pub(crate) fn note_room(&mut self, call: RemoteCall) {
        let Some(remote) = &mut self.remote else { return };
        let Some(entry) = remote.calls.get(call).filter(|entry| entry.is_refused) else { return };
        let Some(application) = self.applications.get_mut(&entry.application.0) else { return };
        if application.datapath.is_aside(entry.id) || application.refused.contains(&call) {
            return;
        }
        match application.holds_less() {
            true => remote.tell_room(call),
            false => application.refused.push_back(call),
        }
    }

    /// Looks at what waits of an application, here and at the transport. Says whether that led to
    /// anything, and when to look again.
    #[cold]
    pub(crate) fn mind_beyond(&mut self, number: Number, now: Time) -> (bool, Time) {
        let has_told = self.tell_refused(number);
        let (has_ended, due) = self.end_unread_beyond(number, now);
        (has_told || has_ended, due)
    }

    /// Tells calls that were refused for what an application holds in all, if that has become less.
    /// Says whether there were any.
    fn tell_refused(&mut self, number: Number) -> bool {
        let (Some(remote), Some(application)) =
            (&mut self.remote, self.applications.get_mut(&number.0))
        else {
            return false;
        };
        if !application.holds_less() {
            return false;
        }
        let told = application.refused.len().min(ROOMS_AT_ONCE);
        // Those that are done were told already.
        application.refused.drain(..told).for_each(|call| remote.tell_room(call));
        told > 0
    }

    /// Ends the streams of an application of which most waits for other hosts, until the rest is
    /// within its limit. Says whether any has ended, and when to look again.
    fn end_unread_beyond(&mut self, number: Number, now: Time) -> (bool, Time) {
        let mut has_ended = false;
        let pause = self.remote.as_ref().map(|remote| remote.limits.pause).unwrap_or_default();
        while let Some(application) = self.application(number) {
            let bytes_max = application.limits.beyond_bytes_max;
            if !application.beyond.is_too_much(bytes_max, pause, now) {
                return (has_ended, application.beyond.due());
            }
            if !self.end_fullest(number, now) {
                break;
            }
            has_ended = true;
        }
        (has_ended, Time::NEVER)
    }

    /// Ends the stream of which most waits for other hosts, if any does.
    fn end_fullest(&mut self, number: Number, now: Time) -> bool {
        let Some(remote) = &mut self.remote else { return false };
        let of_it = remote.calls.iter().filter(|(_, entry)| entry.application == number);
        let waits = |entry: &Entry| {
            let is_here = entry.bytes > 0 && !entry.items.is_empty();
            // What its caller has given up ends by itself.
            let is_given_up = entry.is_void && entry.is_outgoing;
            !entry.is_cut && !is_given_up && (is_here || entry.untaken_bytes > 0)
        };
        let waiting = of_it.filter(|(_, entry)| waits(entry));
        let most = waiting.max_by_key(|(_, entry)| entry.bytes + entry.untaken_bytes);
        let Some((call, entry)) = most else {
            return false;
        };
        let (id, is_outgoing, has_ended) = (entry.id, entry.is_outgoing, entry.is_void);
        let why = "the stream is not read, and the application's quota is used up";
        let status = Status::resource_exhausted(why);
        // The end would wait behind the messages that nobody takes. Those that another hub has are
        // dropped there, and count no more.
        let (waited, had_end) = remote.drop_waiting(call);
        let dropped = waited + remote.take_untaken(call);
        if has_ended {
            remote.cut_ended(call, end_of(status));
            if let Some(application) = self.application(number) {
                application.beyond.remove(dropped);
            }
            return true;
        }
        let Some(application) = self.application(number) else { return false };
        application.beyond.remove(dropped);
        match application.datapath.call(id).filter(|_| !had_end) {
            Some(_) => application.datapath.end(id, status, now),
            // Its own end was among what was dropped.
            None if !is_outgoing => self.push_end(call, status),
            None => {}
        }
        if let Some(application) = self.application(number) {
            application.free_void();
        }
        true
    }

    /// Ends a call that is served here, behind what waits of it.
    pub(super) fn push_end(&mut self, call: RemoteCall, status: Status) {
        if let Some(remote) = &mut self.remote {
            remote.push(call, RemoteItem::End(end_of(status)));
        }
    }
}

/// The end of a call with a status.
fn end_of(status: Status) -> RemoteEnd {
    let (status, has_not_run, message) = (Some(status), false, None);
    RemoteEnd { status, has_not_run, message, metadata: Metadata::new() }
}
