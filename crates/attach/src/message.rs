//! The messages of each side, as values and as bytes (D1).

use petasos_abi::{EXTENT_BYTES_MIN, Extent, HEAP_BYTES_MAX};
use petasos_shm::{HeapKind, SLOTS_MAX};

use crate::ask::{Answer, Ask};
use crate::frame::{Malformed, Reader, write_frame};
use crate::hello::{Hello, LANES_MAX, Welcome};
use crate::kind;
use crate::reason::{DetachCode, NoExtent, RefuseCode, Text};

/// What an application says. None of it has descriptors of files.
#[derive(Clone, Debug)]
pub enum FromApplication {
    /// The first message.
    Hello(Hello),
    /// It asks for an extent.
    Grow(Grow),
    /// It asks for something else, by a request of this number.
    Ask(u32, Ask),
    /// It has unmapped the extent of its send heap at this offset.
    GiveUp {
        /// From the start of the heap's range.
        offset: u64,
    },
    /// D14: it has attached to the successor, and what it serves is served there.
    Attached,
    /// D14: it has begun its last call here.
    Moved,
    /// It ends the attachment.
    Detach(DetachCode, Text),
}

/// A request for an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grow {
    /// The number of the request, which counts up from 1.
    pub request: u32,
    /// Which heap.
    pub heap: HeapKind,
    /// As many at least: 1 to 2^40.
    pub bytes: u64,
}

/// What the service says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromService {
    /// It takes the application.
    Welcome(Welcome),
    /// It does not.
    Refuse(RefuseCode, Text),
    /// A lane; with the region's descriptor and the socket's.
    Lane {
        /// Its number: they come in order.
        index: u16,
        /// Slots of each of its rings.
        slots: u32,
    },
    /// An extent; with the file's descriptor.
    Extent {
        /// Which request this answers, or 0.
        request: u32,
        /// Which heap.
        heap: HeapKind,
        /// Where.
        extent: Extent,
    },
    /// A request for an extent is refused.
    NoExtent {
        /// Which.
        request: u32,
        /// Why.
        reason: NoExtent,
    },
    /// The answer to a request that was not for an extent.
    Answer(Answer),
    /// The extent of the receive heap at this offset will not be used again.
    GiveUp {
        /// From the start of the heap's range.
        offset: u64,
    },
    /// D14: a successor listens at the same path; attach to it.
    Successor,
    /// D14: begin calls at the successor.
    Move,
    /// It ends the attachment.
    Detach(DetachCode, Text),
}

impl FromApplication {
    /// The message that a frame's body is.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn read(kind: u8, body: &[u8]) -> Result<FromApplication, Malformed> {
        match kind {
            kind::HELLO => Hello::read(body).map(FromApplication::Hello),
            kind::GROW => Grow::read(body).map(FromApplication::Grow),
            kind::BIND | kind::TARGET | kind::SERVE | kind::RECALL => {
                Ask::read(kind, body).map(|(request, ask)| FromApplication::Ask(request, ask))
            }
            kind::GIVE_UP => {
                let offset = read_give_up(body, HeapKind::Send)?;
                Ok(FromApplication::GiveUp { offset })
            }
            kind::DETACH => {
                let (code, text) = read_reason(body, DetachCode::from_byte)?;
                Ok(FromApplication::Detach(code, text))
            }
            kind::ATTACHED => empty(body, FromApplication::Attached),
            kind::MOVED => empty(body, FromApplication::Moved),
            kind => Err(refused_kind(kind)),
        }
    }

    /// Appends the frame to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            FromApplication::Hello(hello) => write_frame(out, kind::HELLO, |out| hello.write(out)),
            FromApplication::Grow(grow) => write_frame(out, kind::GROW, |out| {
                out.extend_from_slice(&grow.request.to_le_bytes());
                out.push(heap_byte(grow.heap));
                out.extend_from_slice(&grow.bytes.to_le_bytes());
            }),
            FromApplication::Ask(request, ask) => ask.write(*request, out),
            FromApplication::GiveUp { offset } => write_give_up(out, HeapKind::Send, *offset),
            FromApplication::Attached => write_frame(out, kind::ATTACHED, |_| {}),
            FromApplication::Moved => write_frame(out, kind::MOVED, |_| {}),
            FromApplication::Detach(code, text) => {
                write_reason(out, kind::DETACH, code.to_byte(), text)
            }
        }
    }
}

impl Grow {
    fn read(body: &[u8]) -> Result<Grow, Malformed> {
        let mut reader = Reader::new(body);
        let (request, heap, bytes) = (reader.u32()?, read_heap(&mut reader)?, reader.u64()?);
        reader.finish()?;
        if request == 0 {
            return Err(Malformed::Value("request"));
        }
        if !(1..=HEAP_BYTES_MAX).contains(&bytes) {
            return Err(Malformed::Value("bytes"));
        }
        Ok(Grow { request, heap, bytes })
    }
}

impl FromService {
    /// The message that a frame's body is.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn read(kind: u8, body: &[u8]) -> Result<FromService, Malformed> {
        match kind {
            kind::WELCOME => Welcome::read(body).map(FromService::Welcome),
            kind::REFUSE => {
                let (code, text) = read_reason(body, RefuseCode::from_byte)?;
                Ok(FromService::Refuse(code, text))
            }
            kind::LANE => read_lane(body),
            kind::EXTENT => read_extent(body),
            kind::NO_EXTENT => read_no_extent(body),
            kind::ANSWER => Answer::read(body).map(FromService::Answer),
            kind::GIVE_UP => {
                let offset = read_give_up(body, HeapKind::Receive)?;
                Ok(FromService::GiveUp { offset })
            }
            kind::DETACH => {
                let (code, text) = read_reason(body, DetachCode::from_byte)?;
                Ok(FromService::Detach(code, text))
            }
            kind::SUCCESSOR => empty(body, FromService::Successor),
            kind::MOVE => empty(body, FromService::Move),
            kind => Err(refused_kind(kind)),
        }
    }

    /// Appends the frame to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            FromService::Welcome(welcome) => {
                write_frame(out, kind::WELCOME, |out| welcome.write(out))
            }
            FromService::Refuse(code, text) => {
                write_reason(out, kind::REFUSE, code.to_byte(), text)
            }
            FromService::Lane { index, slots } => write_frame(out, kind::LANE, |out| {
                out.extend_from_slice(&index.to_le_bytes());
                out.extend_from_slice(&slots.to_le_bytes());
            }),
            FromService::Extent { request, heap, extent } => {
                write_extent(out, *request, *heap, *extent)
            }
            FromService::NoExtent { request, reason } => write_frame(out, kind::NO_EXTENT, |out| {
                out.extend_from_slice(&request.to_le_bytes());
                out.push(reason.to_byte());
            }),
            FromService::Answer(answer) => answer.write(out),
            FromService::GiveUp { offset } => write_give_up(out, HeapKind::Receive, *offset),
            FromService::Successor => write_frame(out, kind::SUCCESSOR, |_| {}),
            FromService::Move => write_frame(out, kind::MOVE, |_| {}),
            FromService::Detach(code, text) => {
                write_reason(out, kind::DETACH, code.to_byte(), text)
            }
        }
    }

    /// How many descriptors of files come with the frame.
    pub fn descriptors(&self) -> usize {
        match self {
            FromService::Lane { .. } => 2,
            FromService::Extent { .. } => 1,
            _ => 0,
        }
    }
}

fn refused_kind(kind: u8) -> Malformed {
    match kind {
        kind::HELLO..=kind::RECALL => Malformed::Side(kind),
        unknown => Malformed::UnknownKind(unknown),
    }
}

/// A message without fields.
fn empty<M>(body: &[u8], message: M) -> Result<M, Malformed> {
    Reader::new(body).finish().map(|()| message)
}

fn heap_byte(heap: HeapKind) -> u8 {
    match heap {
        HeapKind::Send => 1,
        HeapKind::Receive => 2,
    }
}

fn read_heap(reader: &mut Reader<'_>) -> Result<HeapKind, Malformed> {
    match reader.u8()? {
        1 => Ok(HeapKind::Send),
        2 => Ok(HeapKind::Receive),
        _ => Err(Malformed::Value("heap")),
    }
}

fn read_reason<C>(
    body: &[u8],
    code: impl FnOnce(u8) -> Result<C, Malformed>,
) -> Result<(C, Text), Malformed> {
    let mut reader = Reader::new(body);
    let reason = (code(reader.u8()?)?, Text::read(&mut reader)?);
    reader.finish()?;
    Ok(reason)
}

fn write_reason(out: &mut Vec<u8>, kind: u8, code: u8, text: &Text) {
    write_frame(out, kind, |out| {
        out.push(code);
        text.write(out);
    });
}

/// Each side gives up extents of the heap that it alone writes.
fn read_give_up(body: &[u8], writes: HeapKind) -> Result<u64, Malformed> {
    let mut reader = Reader::new(body);
    let (heap, offset) = (read_heap(&mut reader)?, reader.u64()?);
    reader.finish()?;
    if heap != writes {
        return Err(Malformed::Value("heap"));
    }
    if offset >= HEAP_BYTES_MAX || !offset.is_multiple_of(EXTENT_BYTES_MIN) {
        return Err(Malformed::Value("offset"));
    }
    Ok(offset)
}

fn write_give_up(out: &mut Vec<u8>, heap: HeapKind, offset: u64) {
    write_frame(out, kind::GIVE_UP, |out| {
        out.push(heap_byte(heap));
        out.extend_from_slice(&offset.to_le_bytes());
    });
}

fn read_lane(body: &[u8]) -> Result<FromService, Malformed> {
    let mut reader = Reader::new(body);
    let (index, slots) = (reader.u16()?, reader.u32()?);
    reader.finish()?;
    if index >= LANES_MAX {
        return Err(Malformed::Value("lane"));
    }
    if !slots.is_power_of_two() || !(2..=SLOTS_MAX).contains(&slots) {
        return Err(Malformed::Value("slots"));
    }
    Ok(FromService::Lane { index, slots })
}

fn read_extent(body: &[u8]) -> Result<FromService, Malformed> {
    let mut reader = Reader::new(body);
    let (request, heap) = (reader.u32()?, read_heap(&mut reader)?);
    let extent = Extent { offset: reader.u64()?, bytes: reader.u64()? };
    reader.finish()?;
    let Extent { offset, bytes } = extent;
    let is_unit = |number: u64| number.is_multiple_of(EXTENT_BYTES_MIN);
    let end = offset.checked_add(bytes).filter(|end| *end <= HEAP_BYTES_MAX);
    if bytes == 0 || !is_unit(offset) || !is_unit(bytes) || end.is_none() {
        return Err(Malformed::Value("extent"));
    }
    Ok(FromService::Extent { request, heap, extent })
}

fn write_extent(out: &mut Vec<u8>, request: u32, heap: HeapKind, extent: Extent) {
    write_frame(out, kind::EXTENT, |out| {
        out.extend_from_slice(&request.to_le_bytes());
        out.push(heap_byte(heap));
        out.extend_from_slice(&extent.offset.to_le_bytes());
        out.extend_from_slice(&extent.bytes.to_le_bytes());
    });
}

fn read_no_extent(body: &[u8]) -> Result<FromService, Malformed> {
    let mut reader = Reader::new(body);
    let (request, code) = (reader.u32()?, reader.u8()?);
    reader.finish()?;
    if request == 0 {
        return Err(Malformed::Value("request"));
    }
    Ok(FromService::NoExtent { request, reason: NoExtent::from_byte(code)? })
}

#[cfg(test)]
mod tests;
