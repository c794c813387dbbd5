//! Unary calls: converts framed messages to descriptors, and back.

use petasos_abi::{CallNumber, Contents, Descriptor, Request, TIME_NEVER};
use petasos_buf::MsgBuf;
use petasos_call::{Code, Codec, Encoding, HEAD_BYTES, RequestHead, ResponseHead, Status};
use petasos_endpoint::{CallError, CallId, Context, Payload};
use petasos_message::NativeMsg;

use super::receive::End;
use super::request_numbers::unary_number;
use super::waiting::{Converted, Waiting, too_long};
use super::{Begun, Carrier};
use crate::convert::Meant;
use crate::frames::{
    Parts, end_frame, frame_bytes, head_of, parts, request_head, response_head, status_frame,
};
use crate::link::{Link, LinkError, NoRoom};
use crate::services::{Binding, KnownServices, Method};

/// Longer messages than this get a buffer of their own.
const SCRATCH_BYTES_MAX: usize = 4096;

impl Carrier {
    /// Begins a unary call, if it is not over yet. Returns it if it has to wait.
    pub(super) fn begin_unary<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallId,
        method: Method,
        converted: Converted,
    ) -> Option<Waiting> {
        let request = cx.external_request(call)?;
        if !self.may_begin() {
            return Some(Waiting::Call(call, method, converted));
        }
        let target = self.target(call.session());
        let binding = self.on.bindings.of(method.service);
        let (Some(target), Binding::Bound(binding)) = (target, binding) else {
            Context::finish_external(state, cx, call, Err(CallError::PeerFailed));
            return None;
        };
        let head = match head_of(request).and_then(RequestHead::parse) {
            Ok(head) => head,
            Err(malformed) => {
                refuse(state, cx, call, &malformed.into());
                return None;
            }
        };
        let (meant, binding) = (request_type(method), *binding);
        let link = self.on.link.as_mut().expect("a call may begin");
        let number = link.next_call();
        let response = (!head.answer.native).then_some(Meant { is_response: true, ..meant });
        // It is noted before its message is written: the service's core has the memory that is
        // written to, and what follows in this one would wait until it is here.
        self.on.handed.insert(call.number(), number);
        self.on.begun.insert(number.get(), Begun::Unary(call, response));
        let refusal = match placed(link, &self.services, request, head, meant, converted) {
            Ok((message, metadata)) => {
                link.push(Descriptor::Request(Request {
                    call: number,
                    binding,
                    method: method.method,
                    partner: target,
                    is_stream: false,
                    is_idempotent: false,
                    waits_for_ready: false,
                    time_left_us: time_left(head.time_left_us.into()),
                    message,
                    metadata,
                }));
                return None;
            }
            Err(refusal) => refusal,
        };
        self.on.handed.remove(&call.number());
        self.on.begun.remove(&number.get());
        match refusal {
            Refusal::Later(converted) => return Some(Waiting::Call(call, method, converted)),
            Refusal::Never => refuse(state, cx, call, &too_long(NoRoom::Ever)),
            Refusal::Status(status) => refuse(state, cx, call, &status),
        }
        None
    }

    /// Ends a unary call of this process.
    pub(super) fn finish_unary<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        call: CallId,
        end: &End,
    ) -> Result<(), LinkError> {
        let Some(link) = &mut self.on.link else { return Ok(()) };
        let head = response_head(Encoding::Native, !end.metadata.is_none(), end.code);
        let bytes = frame_bytes(end.message.bytes as usize, end.metadata.bytes as usize);
        if bytes <= SCRATCH_BYTES_MAX {
            let frame = &mut self.scratch;
            frame.resize(bytes, 0);
            fill(link, frame, head, end.message, end.metadata)?;
            Context::finish_external(state, cx, call, Ok(Payload::Frame(frame)));
            return Ok(());
        }
        if let Some(buf) = in_place(cx, link, head, end.message, end.metadata)? {
            Context::finish_external(state, cx, call, Ok(Payload::Buffer(buf)));
            return Ok(());
        }
        let result = match cx.alloc(bytes) {
            Ok(mut buf) => {
                fill(link, buf.as_mut_slice(), head, end.message, end.metadata)?;
                Ok(Payload::Buffer(buf))
            }
            Err(_) => {
                [end.message, end.metadata].into_iter().for_each(|gone| link.release(gone));
                Err(CallError::OutOfMemory)
            }
        };
        Context::finish_external(state, cx, call, result);
        Ok(())
    }

    /// Delivers a unary request to its handler.
    pub(super) fn deliver_unary<S>(
        &mut self,
        state: &mut S,
        cx: &mut Context<S>,
        request: &Request,
        method: u16,
    ) -> Result<(), LinkError> {
        let Some(link) = &mut self.on.link else { return Ok(()) };
        let Request { call, message, metadata, time_left_us, .. } = *request;
        let head = request_head(Encoding::Native, !metadata.is_none(), time_left_us);
        let bytes = frame_bytes(message.bytes as usize, metadata.bytes as usize);
        let number = unary_number(call, self.on.is_second);
        let key = if bytes <= SCRATCH_BYTES_MAX {
            let frame = &mut self.scratch;
            frame.resize(bytes, 0);
            fill(link, frame, head, message, metadata)?;
            Context::deliver_external(state, cx, number, method, Payload::Frame(frame))
        } else if let Some(buf) = in_place(cx, link, head, message, metadata)? {
            Context::deliver_external(state, cx, number, method, Payload::Buffer(buf))
        } else if let Ok(mut buf) = cx.alloc(bytes) {
            fill(link, buf.as_mut_slice(), head, message, metadata)?;
            Context::deliver_external(state, cx, number, method, Payload::Buffer(buf))
        } else {
            self.release([message, metadata]);
            self.end(call, &Status::resource_exhausted("no memory for the request"), true);
            return Ok(());
        };
        if let Some(key) = key
            && cx.is_external_running(key)
        {
            self.on.running.insert(call.get(), key);
        }
        Ok(())
    }

    /// Answers a unary request. Returns what has to wait.
    pub(super) fn answer_unary<S>(
        &mut self,
        cx: &mut Context<S>,
        call: CallNumber,
        response: MsgBuf,
        meant: Option<Meant>,
        converted: Converted,
    ) -> Option<Waiting> {
        let Some(link) = &mut self.on.link else {
            cx.free(response);
            return None;
        };
        let answered = match link.is_backed_up() {
            true => Err(Refusal::Later(converted)),
            false => answer(link, &self.services, call, &response, meant, converted),
        };
        match answered {
            Ok(()) => {}
            Err(Refusal::Later(converted)) => {
                return Some(Waiting::Answer(call, response, meant, converted));
            }
            Err(Refusal::Never) => self.end(call, &too_long(NoRoom::Ever), false),
            Err(Refusal::Status(status)) => self.end(call, &status, false),
        }
        cx.free(response);
        None
    }
}

/// The type of a method's requests.
fn request_type(method: Method) -> Meant {
    Meant { service: method.service, method: method.method, is_response: false }
}

/// Ends a call that was not begun.
fn refuse<S>(state: &mut S, cx: &mut Context<S>, call: CallId, status: &Status) {
    let frame = status_frame(status);
    Context::finish_external(state, cx, call, Ok(Payload::Frame(&frame)));
}

/// Why a message is not handed over.
enum Refusal {
    /// There is no room now.
    Later(Converted),
    /// There will never be enough room.
    Never,
    Status(Status),
}

impl From<NoRoom> for Refusal {
    fn from(no_room: NoRoom) -> Refusal {
        match no_room {
            NoRoom::Now => Refusal::Later(None),
            NoRoom::Ever => Refusal::Never,
        }
    }
}

impl From<petasos_call::Malformed> for Refusal {
    fn from(malformed: petasos_call::Malformed) -> Refusal {
        Refusal::Status(malformed.into())
    }
}

/// Puts a request and its metadata into the send heap.
fn placed(
    link: &mut Link,
    services: &KnownServices,
    request: &MsgBuf,
    head: RequestHead,
    meant: Meant,
    converted: Converted,
) -> Result<(Contents, Contents), Refusal> {
    let parts = parts(request, head.has_tail)?;
    let was_empty = link.is_empty();
    let image = match head.encoding {
        Encoding::Native => link.put_part(request, parts.body.start, parts.body.len())?,
        encoding => {
            let form = (encoding, head.codec);
            let converted = image_of(services, request, &parts, form, Some(meant), converted)?;
            put_converted(link, converted)?
        }
    };
    Ok((image, put_metadata(link, request, &parts, (image, was_empty))?))
}

/// The image of a message of bytes.
#[cold]
fn image_of(
    services: &KnownServices,
    message: &MsgBuf,
    parts: &Parts,
    form: (Encoding, Codec),
    meant: Option<Meant>,
    converted: Converted,
) -> Result<Box<NativeMsg>, Refusal> {
    if let Some(converted) = converted {
        return Ok(converted);
    }
    let (Some(meant), (Encoding::Protobuf, Codec::IDENTITY)) = (meant, form) else {
        let why = "the message is in a form that was not agreed on";
        return Err(Refusal::Status(Status::internal(why)));
    };
    let mut copy = Vec::new();
    let bytes = match message.has_tail() {
        true => {
            copy.resize(parts.body.len(), 0);
            message.copy_range(parts.body.start, &mut copy);
            &copy[..]
        }
        false => &message.as_slice()[parts.body.clone()],
    };
    services.image(meant, bytes).map(Box::new).map_err(Refusal::Status)
}

fn put_converted(link: &mut Link, converted: Box<NativeMsg>) -> Result<Contents, Refusal> {
    link.put_image(converted.image()).map_err(|no_room| match no_room {
        NoRoom::Now => Refusal::Later(Some(converted)),
        NoRoom::Ever => Refusal::Never,
    })
}

/// Puts a framed message's tail into the send heap. Without room for it, `image` is taken back.
fn put_metadata(
    link: &mut Link,
    message: &MsgBuf,
    parts: &Parts,
    (image, was_empty): (Contents, bool),
) -> Result<Contents, Refusal> {
    if parts.tail.is_empty() {
        return Ok(Contents::NONE);
    }
    let mut tail = vec![0; parts.tail.len()];
    message.copy_range(parts.tail.start, &mut tail);
    link.put_tail(&tail).map_err(|no_room| {
        let is_hopeless = was_empty && link.is_refused(tail.len() as u64);
        link.take_image_back(image);
        if is_hopeless { NoRoom::Ever.into() } else { no_room.into() }
    })
}

fn answer(
    link: &mut Link,
    services: &KnownServices,
    call: CallNumber,
    response: &MsgBuf,
    meant: Option<Meant>,
    converted: Converted,
) -> Result<(), Refusal> {
    let head = ResponseHead::parse(head_of(response)?)?;
    let parts = parts(response, head.has_tail)?;
    let was_empty = link.is_empty();
    let (message, metadata) = match (head.code, head.encoding) {
        (Code::Ok, Encoding::Native) => {
            let image = link.put_part(response, parts.body.start, parts.body.len())?;
            (image, put_metadata(link, response, &parts, (image, was_empty))?)
        }
        (Code::Ok, encoding) => {
            let form = (encoding, head.codec);
            let converted = image_of(services, response, &parts, form, meant, converted)?;
            let image = put_converted(link, converted)?;
            (image, put_metadata(link, response, &parts, (image, was_empty))?)
        }
        _ => {
            let mut tail = vec![0; parts.tail.len()];
            response.copy_range(parts.tail.start, &mut tail);
            (Contents::NONE, link.put_tail(&tail)?)
        }
    };
    let (status, has_not_run) = (head.code as u8, false);
    link.push(Descriptor::End { call, status, has_not_run, message, metadata });
    Ok(())
}

/// A message that was received, where it lies, attached to its head. None if it is short, or the
/// application keeps much already.
fn in_place<S>(
    cx: &mut Context<S>,
    link: &mut Link,
    head: [u8; HEAD_BYTES],
    message: Contents,
    metadata: Contents,
) -> Result<Option<MsgBuf>, LinkError> {
    if !metadata.is_none() || !link.should_keep(message) {
        return Ok(None);
    }
    let Ok(mut buf) = cx.alloc(HEAD_BYTES) else { return Ok(None) };
    buf.copy_from(&head);
    buf.attach(vec![link.keep(message)?.into()]);
    Ok(Some(buf))
}

/// Writes a message that was received, and its metadata, behind a head.
fn fill(
    link: &mut Link,
    frame: &mut [u8],
    head: [u8; HEAD_BYTES],
    message: Contents,
    metadata: Contents,
) -> Result<(), LinkError> {
    let (message_bytes, tail_bytes) = (message.bytes as usize, metadata.bytes as usize);
    let (start, rest) = frame.split_at_mut(HEAD_BYTES);
    start.copy_from_slice(&head);
    let (body, tail) = rest.split_at_mut(message_bytes);
    link.take(message, body)?;
    link.take(metadata, &mut tail[..tail_bytes])?;
    end_frame(frame, tail_bytes);
    Ok(())
}

pub(super) fn time_left(time_left_us: u64) -> u64 {
    // Both have 0 for none.
    if time_left_us == 0 { TIME_NEVER } else { time_left_us }
}
