//! Sessions for users that need them longer than a call: streams (R14), and futures that wait for a
//! channel to connect.
//!
//! The code that drives streams asks with a tag ([`Channels::ask_for_stream`]), from anywhere on
//! the loop's thread. A later turn puts the result into [`Channels::granted`]: a session that has
//! bound the service, with a slot that counts as two of the endpoint's, until
//! [`Channels::give_back`]. Sessions of streams that are lost before that are put into
//! [`Channels::lost`].

use std::sync::Arc;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::channel::CallOptions;
use petasos_call::{BoundMethod, Status};
use petasos_endpoint::SessionId;

use super::{Channels, Who};
use crate::lease::Lease;
use crate::remote::{Outcome, RemoteCompletion};

/// What asks for a session.
#[derive(Debug)]
pub(crate) enum Asker {
    /// A stream, with its driver's tag.
    Stream(u32),
    /// A future that waits for the channel to connect.
    Connect(Arc<RemoteCompletion>),
}

impl Asker {
    /// Reports the result to a future that waits for a connection.
    pub(crate) fn finish(self, outcome: Outcome) {
        if let Asker::Connect(remote) = self {
            remote.finish(outcome);
        }
    }
}

/// A request for a session.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) asker: Asker,
    pub(crate) channel: u32,
    /// What to bind: the service's number in the channel, and the method.
    pub(crate) method: Option<(u32, u16)>,
    pub(crate) options: CallOptions,
}

/// A session that a stream may use.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) session: SessionId,
    /// How the method is called there.
    pub(crate) method: BoundMethod,
    /// The slot to be given back when the stream is over.
    pub(crate) lease: Lease,
}

impl Channels {
    /// Asks for a session for a stream of the channel with this number. `tag` is returned with the
    /// result. Returns the ask's number, for [`Channels::withdraw`].
    pub(crate) fn ask_for_stream(
        &mut self,
        channel: u32,
        method: (u32, u16),
        options: CallOptions,
        tag: u32,
        now: Time,
    ) -> u32 {
        let channel = self.streams_of(channel, now);
        self.ask(Ask { asker: Asker::Stream(tag), channel, method: Some(method), options })
    }

    /// Withdraws the ask with this number. No effect once it was granted.
    pub(crate) fn withdraw(&mut self, ask: u32) {
        let Some(Ask { channel, .. }) = self.asks.remove(&ask) else { return };
        let Some(entry) = self.entry(channel) else { return };
        let waits = |who: &Who| matches!(who, Who::Ask(number) if *number == ask);
        let ticket = entry.waiting.iter().find(|(_, who)| waits(who)).map(|(ticket, _)| *ticket);
        if let Some(ticket) = ticket {
            self.abandon(channel, ticket);
        }
    }

    /// Takes back the slot of a stream that is over.
    pub(crate) fn give_back(&mut self, lease: Lease, now: Time) {
        let Lease(session) = lease;
        self.count_leases(session.channel, -1);
        self.release(session, None, now);
    }

    /// Takes back the slot of a stream whose session is gone.
    pub(crate) fn lose_lease(&mut self, lease: Lease) {
        let Lease(session) = lease;
        self.count_leases(session.channel, -1);
        self.losing.push(session);
    }

    fn count_leases(&mut self, channel: u32, more: i32) {
        if let Some(entry) = self.entry(channel) {
            let leases = entry.leases.checked_add_signed(more);
            entry.leases = leases.expect("a lease is given back once");
        }
    }

    /// Whether a stream has a session of a channel, or something asks for one.
    pub(crate) fn is_in_use(&mut self, channel: u32) -> bool {
        let is_asked = self.asks.values().any(|ask| ask.channel == channel);
        is_asked || self.entry(channel).is_some_and(|entry| entry.leases > 0)
    }

    /// Connects a channel, and completes `remote` when that has succeeded or failed.
    pub(crate) fn connect(&mut self, channel: u32, deadline: Time, remote: Arc<RemoteCompletion>) {
        let options = CallOptions { deadline, ..CallOptions::default() };
        self.ask(Ask { asker: Asker::Connect(remote), channel, method: None, options });
    }

    fn ask(&mut self, ask: Ask) -> u32 {
        let number = self.next_ask;
        self.next_ask = number.wrapping_add(1);
        self.asks.insert(number, ask);
        self.new_asks.push(number);
        number
    }

    /// The companion channel of a channel, for streams. Made if there is none yet.
    fn streams_of(&mut self, channel: u32, now: Time) -> u32 {
        let Some(entry) = self.entry(channel) else { return channel };
        if let Some(streams) = entry.streams {
            return streams;
        }
        let (info, lookup_error) = (entry.info.clone(), entry.lookup_error.clone());
        let streams = self.shared.take_channel_number();
        self.add_with(streams, info, Some(channel), now);
        let of_streams = self.entry(streams).expect("it was just made");
        if !lookup_error.is_empty() && of_streams.place.is_none() {
            of_streams.lookup_error = lookup_error;
            of_streams.core.handle_unresolved_elsewhere();
        }
        self.entry(channel).expect("it was just there").streams = Some(streams);
        streams
    }

    /// Takes all that still wait, because the loop ends.
    pub(crate) fn take_askers(&mut self) -> Vec<Asker> {
        self.asks.drain().map(|(_, ask)| ask.asker).collect()
    }

    /// Ends an ask with an error.
    pub(crate) fn refuse_ask(&mut self, number: u32, status: Status) {
        let Some(ask) = self.asks.remove(&number) else { return };
        match ask.asker {
            Asker::Stream(tag) => self.granted.push((tag, Err(status))),
            asker => self.completions.push((asker, Err(status))),
        }
    }

    /// Grants an ask that has a slot, and whose method is bound if it named one.
    pub(crate) fn grant(
        &mut self,
        number: u32,
        lease: Lease,
        bound: Option<BoundMethod>,
        now: Time,
    ) {
        let Some(ask) = self.asks.remove(&number) else { return self.give_back(lease, now) };
        match (ask.asker, bound) {
            (Asker::Stream(tag), Some(method)) => {
                let session = lease.0.id;
                self.granted.push((tag, Ok(Granted { session, method, lease })));
            }
            (asker, _) => {
                self.give_back(lease, now);
                self.completions.push((asker, Ok(MsgBuf::with_capacity(0))));
            }
        }
    }

    /// An ask, if it is still wanted.
    pub(crate) fn asked_for(&self, number: u32) -> Option<&Ask> {
        self.asks.get(&number)
    }

    /// Whether an ask is still wanted.
    pub(crate) fn is_asked(&self, number: u32) -> bool {
        self.asks.contains_key(&number)
    }

    /// Starts an ask again whose session was lost before it was granted.
    pub(crate) fn ask_again(&mut self, number: u32) {
        self.new_asks.push(number);
    }
}
