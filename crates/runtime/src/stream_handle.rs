//! Handles of streams, for futures.

use core::task::{Context, Poll, ready};
use std::sync::Arc;

use petasos_base::Time;
use petasos_call::stream::Message as Coded;
use petasos_call::{Codec, Encoding, Metadata, Status};
use petasos_message::{Message, Msg, ROOM_BYTES};
use petasos_rpc::codec::{Encoded, First, Incoming, decode};
use petasos_rpc::recode::{unpacked, unpacked_short};
use petasos_rpc::request::CallParts;
use petasos_rpc::settings::CallSettings;

use super::handle::ChannelShared;
use super::local::{Local, current_with};
use super::registry;
use super::shared::Command;
use super::streams::{
    Call, EncodedMessage, Event, Form, Queued, RemoteStream, Side, StreamKey, Target, decoded,
    outgoing,
};
use super::unpacking::{self, Unpacking};

/// Bytes of the head of a segment, and of the head of a message's record (R16).
const SEGMENT_HEAD_BYTES: usize = 16;

/// Asks a loop to look at a mailbox. If the loop is gone, the command is declined, which closes the
/// mailbox.
fn send(loop_id: u32, remote: Arc<RemoteStream>) {
    registry::send(loop_id, Command::Stream(remote));
}

/// One direction of a stream. If a reader is dropped before the end, the call is given up; if a
/// writer is dropped, its direction is closed.
///
/// On the thread of loop `loop_id`, it uses the loop's table. Once it is used on another thread, it
/// has a mailbox.
pub struct StreamHandle {
    loop_id: u32,
    at: At,
    side: Side,
    form: Form,
    /// The compression of the latest and of the next messages.
    codecs: Codecs,
    /// In a reader: a message that another thread is decompressing.
    unpacking: Option<Box<Packed>>,
}

/// A message that is being decompressed.
struct Packed {
    encoding: Encoding,
    body: Unpacking<Result<Vec<u8>, Status>>,
}

/// What the application has set about compression, and what it can ask.
#[derive(Clone, Copy, Default)]
struct Codecs {
    /// In a writer: messages are not compressed.
    is_off: bool,
    /// In a reader: the latest message was compressed.
    was_used: bool,
}

enum At {
    Table(StreamKey),
    Remote(Arc<RemoteStream>),
}

/// Where an operation finds the direction's state.
enum Access<'a> {
    Local(&'static Local, StreamKey),
    Remote(&'a Arc<RemoteStream>),
}

impl StreamHandle {
    pub(crate) fn new(local: &Local, key: StreamKey, side: Side, form: Form) -> StreamHandle {
        StreamHandle {
            loop_id: local.shared.loop_id,
            at: At::Table(key),
            side,
            form,
            codecs: Codecs::default(),
            unpacking: None,
        }
    }

    fn access(&mut self) -> Access<'_> {
        if let At::Table(key) = self.at {
            match current_with(self.loop_id) {
                Some(local) => return Access::Local(local, key),
                None => {
                    self.at = At::Remote(RemoteStream::attach(self.loop_id, send, key, self.side))
                }
            }
        }
        match &self.at {
            At::Remote(remote) => Access::Remote(remote),
            At::Table(_) => unreachable!("it has just been attached"),
        }
    }

    /// Polls for the next message or the end.
    pub fn poll_next<T: Message>(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Incoming<T>, Status>> {
        if self.unpacking.is_some() {
            return self.poll_unpacking(cx);
        }
        let (event, is_in_loop) = match self.access() {
            Access::Remote(remote) => (ready!(remote.poll_event(cx)), false),
            Access::Local(local, key) => {
                let event = local.streams.borrow_mut().next(key);
                let Some(event) = event else {
                    local.wait_for_stream(key, Side::Reader, cx.waker());
                    return Poll::Pending;
                };
                local.kick();
                (event, true)
            }
        };
        Poll::Ready(match event {
            Event::Head(metadata) => Ok(Incoming::Head(metadata)),
            Event::End(end) => end.map(Incoming::End),
            Event::Message(message) => {
                self.codecs.was_used = message.codec != Codec::IDENTITY;
                if is_in_loop && self.codecs.was_used {
                    return self.unpack(message, cx);
                }
                let decoded = decoded(message, self.form.unpacked_bytes_max);
                decoded.inspect_err(|status| self.refuse(status)).map(Incoming::Message)
            }
        })
    }

    /// Decompresses a message; on another thread if that takes a while.
    #[cold]
    fn unpack<T: Message>(
        &mut self,
        Coded { encoding, codec, body }: Coded<EncodedMessage>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Incoming<T>, Status>> {
        let Form { unpacked_bytes_max: bytes_max, peer, .. } = self.form;
        let later = move |body: EncodedMessage| unpacked(codec, body.as_slice(), bytes_max);
        let plain = match unpacked_short(codec, body.as_slice(), bytes_max).transpose() {
            Some(plain) => plain,
            None => match unpacking::start(peer, move || later(body)) {
                Ok(body) => {
                    self.unpacking = Some(Box::new(Packed { encoding, body }));
                    return self.poll_unpacking(cx);
                }
                Err(busy) => Err(busy.into()),
            },
        };
        Poll::Ready(self.decoded(encoding, plain))
    }

    #[cold]
    fn poll_unpacking<T: Message>(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Incoming<T>, Status>> {
        let unpacking = self.unpacking.as_mut().expect("a message is being decompressed");
        let plain = ready!(unpacking.body.as_mut().poll(cx));
        let encoding = unpacking.encoding;
        self.unpacking = None;
        Poll::Ready(self.decoded(encoding, plain))
    }

    fn decoded<T: Message>(
        &mut self,
        encoding: Encoding,
        plain: Result<Vec<u8>, Status>,
    ) -> Result<Incoming<T>, Status> {
        let message = plain.and_then(|plain| decode(encoding, &plain));
        message.inspect_err(|status| self.refuse(status)).map(Incoming::Message)
    }

    /// Ends the stream, because a message could not be read (R13), or a client's could not be sent.
    #[cold]
    pub fn refuse(&mut self, status: &Status) {
        let side = self.side;
        match self.access() {
            Access::Local(local, key) => {
                local.streams.borrow_mut().refuse(key, status);
                local.kick();
            }
            Access::Remote(remote) => remote.refuse(side, status.clone()),
        }
    }

    /// Whether the latest message was compressed.
    pub fn was_compressed(&self) -> bool {
        self.codecs.was_used
    }

    /// Sets whether messages are compressed from now on, if the receiver accepts that.
    pub fn compress(&mut self, compress: bool) {
        self.codecs.is_off = !compress;
    }

    /// At a client: gives the call up.
    #[cold]
    pub fn give_up(&mut self) {
        self.refuse(&Status::cancelled("the call was given up"));
    }

    /// Waits until a message may be sent.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match self.access() {
            Access::Remote(remote) => remote.poll_room(cx),
            Access::Local(local, key) => {
                let room = local.streams.borrow_mut().room(key);
                let Some(room) = room else {
                    local.wait_for_stream(key, Side::Writer, cx.waker());
                    return Poll::Pending;
                };
                Poll::Ready(room)
            }
        }
    }

    /// Sends a message, after [`StreamHandle::poll_room`] was ready.
    pub fn send<T: Message>(&mut self, message: Msg<T>) -> Result<(), Status> {
        self.send_encoded(Encoded::new(message, self.form.native, ROOM_BYTES)?)
    }

    fn send_encoded(&mut self, encoded: Encoded) -> Result<(), Status> {
        let bytes = encoded.buf.len() - encoded.start;
        if SEGMENT_HEAD_BYTES + bytes > self.form.bytes_max {
            let text = "the message is longer than the session takes";
            return Err(Status::resource_exhausted(text));
        }
        let codec = if self.codecs.is_off { Codec::IDENTITY } else { self.form.codec };
        let message = outgoing(encoded, codec);
        match self.access() {
            Access::Remote(remote) => remote.send(message),
            Access::Local(local, key) => {
                local.streams.borrow_mut().send(key, message);
                local.kick();
            }
        }
        Ok(())
    }

    /// At a server: sends the initial metadata.
    pub fn head(&mut self, metadata: Metadata) {
        match self.access() {
            Access::Remote(remote) => remote.head(metadata),
            Access::Local(local, key) => {
                local.streams.borrow_mut().head(key, metadata);
                local.kick();
            }
        }
    }

    /// At a server: keeps the trailing metadata for the end.
    pub fn finish(&mut self, trailers: Metadata) {
        if trailers.is_empty() {
            return;
        }
        match self.access() {
            Access::Remote(remote) => remote.trailers(trailers),
            Access::Local(local, key) => local.streams.borrow_mut().trailers(key, trailers),
        }
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        match &self.at {
            At::Remote(remote) => remote.leave(),
            At::Table(key) => match current_with(self.loop_id) {
                Some(local) => local.leave_stream(*key, self.side),
                None => {
                    let (key, side) = (*key, self.side);
                    registry::send(self.loop_id, Command::LeaveStream { key, side });
                }
            },
        }
    }
}

/// A call that is waiting for its session.
pub struct Opened {
    /// Reader and writer.
    ports: Option<[StreamHandle; 2]>,
    first: Option<First>,
}

impl Opened {
    /// Begins a call over datagrams.
    pub fn begin(
        shared: &ChannelShared,
        method: (u32, u16),
        parts: CallParts,
        settings: CallSettings,
        first: Option<First>,
    ) -> Opened {
        let CallParts { metadata, extensions, .. } = parts;
        let CallSettings { timeout, wait_for_ready, codec, .. } = settings;
        let trace = extensions.get().copied();
        let (loop_id, channel) = (shared.runtime.loop_id, shared.channel);
        let target = Target { channel, method, wait_for_ready };
        let at = match current_with(loop_id) {
            Some(local) => {
                let deadline = timeout.map_or(Time::NEVER, |left| local.now() + left);
                let queued = Queued::new(target, metadata, trace, deadline, codec);
                let key = local.begin_stream(queued);
                [At::Table(key), At::Table(key)]
            }
            None => {
                let call = Call { target, metadata, trace, timeout, codec };
                RemoteStream::open(loop_id, send, shared.thread.clone(), call).map(At::Remote)
            }
        };
        let port = |(at, side)| StreamHandle {
            loop_id,
            at,
            side,
            form: Form::default(),
            codecs: Codecs::default(),
            unpacking: None,
        };
        let [reader, writer] = at;
        let ports = [(reader, Side::Reader), (writer, Side::Writer)].map(port);
        Opened { ports: Some(ports), first }
    }

    /// Returns its two directions, the reader's first, once a session has accepted it.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<[StreamHandle; 2], Status>> {
        let form = ready!(self.poll_form(cx));
        let [mut reader, mut writer] = self.ports.take().expect("it is asked until it is open");
        let form = form?;
        (reader.form, writer.form) = (form, form);
        if let Some(first) = self.first.take() {
            writer.send_encoded(first(form.native, ROOM_BYTES)?)?;
        }
        Poll::Ready(Ok([reader, writer]))
    }

    fn poll_form(&mut self, cx: &mut Context<'_>) -> Poll<Result<Form, Status>> {
        let [reader, _] = self.ports.as_mut().expect("it is asked until it is open");
        match reader.access() {
            Access::Remote(remote) => remote.poll_form(cx),
            Access::Local(local, key) => {
                let opened = local.streams.borrow_mut().opened(key);
                let Some(opened) = opened else {
                    local.wait_for_stream(key, Side::Reader, cx.waker());
                    return Poll::Pending;
                };
                Poll::Ready(opened)
            }
        }
    }
}
