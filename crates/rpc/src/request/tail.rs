//! What is sent with a message: metadata, and the call's place in a distributed trace.

use petasos_call::{Metadata, MetadataKind, Status, TailWriter, TraceContext};

use crate::extensions::Extensions;

/// Puts the initial metadata into a status, before its own: a call that fails has no response to
/// carry them.
pub fn all_in_status(mut initial: Metadata, mut status: Status) -> Status {
    if initial.is_empty() {
        return status;
    }
    for (key, value) in status.metadata().iter() {
        initial.append_bytes(key.as_bytes(), value).expect("it was metadata before");
    }
    *status.metadata_mut() = initial;
    status
}

/// The tail of a message, with its length (R9); empty if there is nothing to send.
pub fn tail_of(initial: &Metadata, trailing: &Metadata) -> Vec<u8> {
    if initial.is_empty() && trailing.is_empty() {
        return Vec::new();
    }
    written(|tail| {
        tail.metadata(MetadataKind::Initial, initial);
        tail.metadata(MetadataKind::Trailing, trailing);
    })
}

/// The tail of a request, in the same form (R9).
#[inline]
pub fn request_tail(metadata: &Metadata, extensions: &Extensions) -> Vec<u8> {
    if metadata.is_empty() && extensions.is_empty() {
        return Vec::new();
    }
    written(|tail| {
        tail.metadata(MetadataKind::Initial, metadata);
        if let Some(trace) = extensions.get() {
            tail.trace(trace);
        }
    })
}

fn written(write: impl FnOnce(&mut TailWriter<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut tail = TailWriter::new(&mut bytes);
    write(&mut tail);
    if !tail.is_empty() {
        tail.finish();
    }
    bytes
}

/// The key of a call's place in a trace in gRPC's metadata.
#[cfg(feature = "grpc")]
const TRACEPARENT: &str = "traceparent";

/// The metadata of a call over gRPC, where the call's place in a trace is metadata too.
#[cfg(feature = "grpc")]
pub fn with_traceparent(mut metadata: Metadata, extensions: &Extensions) -> Metadata {
    if let Some(trace) = extensions.get::<TraceContext>() {
        metadata.remove(TRACEPARENT);
        metadata.append(TRACEPARENT, &trace.to_string()).expect("a fine key and value");
    }
    metadata
}

/// The place in a trace that a call's metadata contain. The metadata are not changed.
#[cfg(feature = "grpc")]
pub fn read_traceparent(metadata: &Metadata) -> Extensions {
    let trace = metadata.get(TRACEPARENT).and_then(TraceContext::from_traceparent);
    with_trace(trace)
}

/// The extensions of a received call, with its place in a trace if it has one.
#[inline]
pub fn with_trace(trace: Option<TraceContext>) -> Extensions {
    let mut extensions = Extensions::new();
    if let Some(trace) = trace {
        extensions.insert(trace);
    }
    extensions
}
