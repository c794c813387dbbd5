//! The tail after a body: metadata, status message and details, trace context (R9).

use crate::metadata::MetadataKind;
use crate::{Code, Malformed, Metadata, Status, TraceContext};

/// The default limit for the length of a received tail, in bytes.
pub const TAIL_BYTES_MAX: usize = 16 << 10;

/// The most bytes of a status message that are sent, so that a long one leaves room for the rest.
const MESSAGE_BYTES_MAX: usize = 8 << 10;
const INITIAL: u8 = 1;
const TRAILING: u8 = 2;
const MESSAGE: u8 = 3;
const DETAILS: u8 = 4;
const TRACE: u8 = 5;
const ENTRY_HEAD_BYTES: usize = 4;
const TRACE_BYTES: usize = 25;

/// Writes entries into a reusable buffer.
#[derive(Debug)]
pub struct TailWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> TailWriter<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> TailWriter<'a> {
        let start = out.len();
        TailWriter { out, start }
    }

    /// Writes entries of kind 1 or 2. A request's metadata are initial.
    pub fn metadata(&mut self, kind: MetadataKind, metadata: &Metadata) {
        let kind = match kind {
            MetadataKind::Initial => INITIAL,
            MetadataKind::Trailing => TRAILING,
        };
        self.out.reserve(metadata.tail_bytes());
        for entry in metadata.encoded() {
            self.out.push(kind);
            self.out.extend_from_slice(entry);
        }
    }

    /// Writes the status's message, details and trailing metadata, except empty ones. The code is
    /// in the head. A message of more than 8 KiB is cut at a character boundary. Details that do
    /// not fit into an entry are omitted, since a part of them would be useless.
    pub fn status(&mut self, status: &Status) {
        let message = status.message();
        let message = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)];
        self.entry(MESSAGE, message.as_bytes());
        self.entry(DETAILS, status.details());
        self.metadata(MetadataKind::Trailing, status.metadata());
    }

    /// Writes the trace context.
    pub fn trace(&mut self, trace: &TraceContext) {
        let mut value = [0; TRACE_BYTES];
        value[..16].copy_from_slice(&trace.trace_id);
        value[16..24].copy_from_slice(&trace.span_id);
        value[24] = trace.flags;
        self.entry(TRACE, &value);
    }

    /// The length of the entries so far, in bytes.
    pub fn len(&self) -> usize {
        self.out.len() - self.start
    }

    /// Whether there are no entries, so that no tail is needed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// R5: ends the tail of a unary message with its length. Entries of streams have no length
    /// after them, and do not need this.
    ///
    /// # Panics
    /// If the tail is longer than 4 GiB.
    pub fn finish(self) {
        let bytes = u32::try_from(self.len()).expect("a tail is shorter than 4 GiB");
        self.out.extend_from_slice(&bytes.to_le_bytes());
    }

    fn entry(&mut self, kind: u8, value: &[u8]) {
        let Ok(value_bytes) = u16::try_from(value.len()) else { return };
        if value_bytes > 0 {
            let [low, high] = value_bytes.to_le_bytes();
            self.out.extend_from_slice(&[kind, 0, low, high]);
            self.out.extend_from_slice(value);
        }
    }
}

/// The length of what [`TailWriter::status`] writes.
pub(crate) fn status_bytes(status: &Status) -> usize {
    let message = status.message().floor_char_boundary(MESSAGE_BYTES_MAX);
    entry_bytes(message) + entry_bytes(status.details().len()) + status.metadata().tail_bytes()
}

/// The length of what [`TailWriter::trace`] writes.
pub(crate) fn trace_bytes(_: &TraceContext) -> usize {
    entry_bytes(TRACE_BYTES)
}

/// Empty values, and those that do not fit into an entry, are not written.
fn entry_bytes(value_bytes: usize) -> usize {
    let written = (1..=usize::from(u16::MAX)).contains(&value_bytes);
    if written { ENTRY_HEAD_BYTES + value_bytes } else { 0 }
}

/// The parsed entries of a tail. The caller ignores the parts that its kind of message cannot have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TailParts {
    /// A request's metadata, or a response's initial ones.
    pub initial: Metadata,
    /// Trailing metadata.
    pub trailing: Metadata,
    /// The status message.
    pub message: String,
    /// The status details: a serialized `google.rpc.Status`, which is not parsed here.
    pub details: Vec<u8>,
    /// The trace context.
    pub trace: Option<TraceContext>,
}

impl TailParts {
    /// Combines the `code` from a response's head with the tail to a status. Also returns the
    /// initial metadata.
    pub fn into_status(self, code: Code) -> (Status, Metadata) {
        let status = Status::new(code, self.message).with_details(self.details);
        (status.with_metadata(self.trailing), self.initial)
    }
}

/// Why a tail is rejected. The peer's fault; a retry fails again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TailError {
    /// It is longer than this receiver allows.
    #[error("the metadata exceeds the size limit")]
    TooLong,
    /// It breaks a rule.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// R9, R13: a tail that is too long is `RESOURCE_EXHAUSTED`, a malformed one is `INTERNAL`.
impl From<TailError> for Status {
    fn from(error: TailError) -> Status {
        match error {
            TailError::TooLong => Status::resource_exhausted("the metadata exceeds the size limit"),
            TailError::Malformed(malformed) => malformed.into(),
        }
    }
}

/// Parses the entries of a tail of at most `limit` bytes.
///
/// # Errors
/// See [`TailError`].
pub fn read_tail(tail: &[u8], limit: usize) -> Result<TailParts, TailError> {
    if tail.len() > limit {
        return Err(TailError::TooLong);
    }
    let mut parts = TailParts::default();
    let mut rest = tail;
    while !rest.is_empty() {
        let entry = first_entry(&mut rest).ok_or(Malformed::Entry)?;
        take_entry(&mut parts, entry)?;
    }
    Ok(parts)
}

struct Entry<'a> {
    kind: u8,
    key: &'a [u8],
    value: &'a [u8],
}

/// Removes the first entry from `rest`, and returns it.
fn first_entry<'a>(rest: &mut &'a [u8]) -> Option<Entry<'a>> {
    let ([kind, key_bytes, low, high], behind) = rest.split_first_chunk::<ENTRY_HEAD_BYTES>()?;
    let (key, behind) = behind.split_at_checked(usize::from(*key_bytes))?;
    let value_bytes = usize::from(u16::from_le_bytes([*low, *high]));
    let value;
    (value, *rest) = behind.split_at_checked(value_bytes)?;
    Some(Entry { kind: *kind, key, value })
}

fn take_entry(parts: &mut TailParts, entry: Entry<'_>) -> Result<(), Malformed> {
    let Entry { kind, key, value } = entry;
    if (MESSAGE..=TRACE).contains(&kind) && !key.is_empty() {
        return Err(Malformed::Entry);
    }
    let bad_metadata = |_| Malformed::Metadata;
    match kind {
        INITIAL => parts.initial.append_bytes(key, value).map_err(bad_metadata)?,
        TRAILING => parts.trailing.append_bytes(key, value).map_err(bad_metadata)?,
        MESSAGE => {
            let text = std::str::from_utf8(value).map_err(|_| Malformed::Text)?;
            parts.message = text.to_owned();
        }
        DETAILS => parts.details = value.to_vec(),
        TRACE => parts.trace = Some(trace(value)?),
        _ => {}
    }
    Ok(())
}

fn trace(value: &[u8]) -> Result<TraceContext, Malformed> {
    let value: &[u8; TRACE_BYTES] = value.try_into().map_err(|_| Malformed::Entry)?;
    let mut trace = TraceContext { trace_id: [0; 16], span_id: [0; 8], flags: value[24] };
    trace.trace_id.copy_from_slice(&value[..16]);
    trace.span_id.copy_from_slice(&value[16..24]);
    Ok(trace)
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
