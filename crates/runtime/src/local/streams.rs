//! Operations of futures and other threads on the streams of a loop.

use core::task::Waker;
use std::sync::Arc;

use petasos_base::Time;
use petasos_call::channel::{Avoid, CallOptions};

use super::Local;
use crate::channels::Channels;
use crate::streams::{Ask, Call, Queued, RemoteStream, Side, StreamAsk, StreamKey, Target};

impl Local {
    /// Starts a call, which waits for its session.
    pub(crate) fn begin_stream(&self, mut queued: Queued) -> StreamKey {
        let tag = self.streams.borrow_mut().next_tag();
        queued.ask =
            Some(self.ask_for_session(&queued.target, queued.deadline, Avoid::NOTHING, tag));
        let key = self.streams.borrow_mut().enqueue(queued);
        self.kick();
        key
    }

    /// Requests a session for a call. The answer carries `tag`.
    pub(crate) fn ask_for_session(
        &self,
        target: &Target,
        deadline: Time,
        avoid: Avoid,
        tag: u32,
    ) -> StreamAsk {
        let &Target { wait_for_ready, .. } = target;
        let options = CallOptions { wait_for_ready, deadline, avoid };
        ask_for_session(&mut self.channels.borrow_mut(), target, options, tag, self.now())
    }

    /// Records that the application has finished with a direction.
    pub(crate) fn leave_stream(&self, key: StreamKey, side: Side) {
        let (earlier, ask) = self.streams.borrow_mut().leave(key, side);
        drop(earlier);
        if let Some(ask) = ask {
            self.channels.borrow_mut().withdraw(ask);
        }
        self.kick();
    }

    /// Registers `waker` to be woken when a direction has news.
    pub(crate) fn wait_for_stream(&self, key: StreamKey, side: Side, waker: &Waker) {
        // Cloning a waker runs application code, so no cell may be borrowed meanwhile.
        let waiter = self.waiter(waker);
        let earlier = self.streams.borrow_mut().wait(key, side, waiter);
        drop(earlier);
    }

    /// Wakes the tasks whose streams have news.
    pub(crate) fn wake_streams(&self) {
        loop {
            let remote = self.streams.borrow_mut().pumped.pop();
            let Some(remote) = remote else { break };
            self.pump_stream(&remote);
        }
        loop {
            let waiter = self.streams.borrow_mut().woken.pop();
            let Some(waiter) = waiter else { return };
            self.wake(waiter);
        }
    }

    /// Handles a mailbox that has something for the loop.
    pub(crate) fn read_mailbox(&self, remote: &Arc<RemoteStream>) {
        match remote.take_ask() {
            Some(Ask::Attach(key, side)) => {
                remote.attached(key, side);
                self.streams.borrow_mut().attach(key, side, remote.clone());
            }
            Some(Ask::Open(call, writer)) => {
                let key = self.begin_call(call);
                for (remote, side) in [(remote, Side::Reader), (&writer, Side::Writer)] {
                    self.streams.borrow_mut().attach(key, side, remote.clone());
                    remote.attached(key, side);
                }
                self.pump_stream(&writer);
            }
            None => {}
        }
        self.pump_stream(remote);
    }

    fn begin_call(&self, call: Call) -> StreamKey {
        let Call { target, metadata, trace, timeout, codec } = call;
        let deadline = timeout.map_or(Time::NEVER, |left| self.now() + left);
        self.begin_stream(Queued::new(target, metadata, trace, deadline, codec))
    }

    /// Moves messages between a mailbox and its half, and wakes the tasks that wait for them.
    fn pump_stream(&self, remote: &Arc<RemoteStream>) {
        // The command for a writer may arrive before its reader's mailbox was read.
        let Some(pumped) = remote.pump(&mut self.streams.borrow_mut()) else { return };
        if let Some((key, side)) = pumped.leaves {
            self.leave_stream(key, side);
        }
        if let Some(waker) = pumped.waker {
            waker.wake();
        }
    }

    /// Ends the streams that other threads use, because the loop has ended.
    pub(crate) fn end_streams(&self) {
        let all = self.streams.borrow_mut().take_remotes();
        all.iter().for_each(|remote| remote.end());
    }
}

/// Requests a session for a stream. The answer carries `tag`.
pub(crate) fn ask_for_session(
    channels: &mut Channels,
    target: &Target,
    options: CallOptions,
    tag: u32,
    now: Time,
) -> StreamAsk {
    let &Target { channel, method, .. } = target;
    StreamAsk { number: channels.ask_for_stream(channel, method, options, tag, now), tag }
}
