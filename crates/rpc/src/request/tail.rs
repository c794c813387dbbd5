//! What is sent beside a message: metadata, and a call's place in a distributed trace.

use petasos_call::{Metadata, MetadataKind, Status, TailWriter, TraceContext};

use crate::extensions::Extensions;

/// A status with the initial metadata before its own: who has no response has no other place.
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

/// R9: the tail of a message, with its length; nothing if there is nothing to say.
pub fn tail_of(initial: &Metadata, trailing: &Metadata) -> Vec<u8> {
    if initial.is_empty() && trailing.is_empty() {
        return Vec::new();
    }
    written(|tail| {
        tail.metadata(MetadataKind::Initial, initial);
        tail.metadata(MetadataKind::Trailing, trailing);
    })
}

/// R9: the tail of a request, likewise.
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

/// The key of a trace's place among gRPC's metadata.
#[cfg(feature = "grpc")]
const TRACEPARENT: &str = "traceparent";

/// What goes with a call over gRPC: its place in a trace is metadata there.
#[cfg(feature = "grpc")]
pub fn with_traceparent(mut metadata: Metadata, extensions: &Extensions) -> Metadata {
    if let Some(trace) = extensions.get::<TraceContext>() {
        metadata.remove(TRACEPARENT);
        metadata.append(TRACEPARENT, &trace.to_string()).expect("a fine key and value");
    }
    metadata
}

/// What a call's metadata say of its place in a trace. They stay as they are.
#[cfg(feature = "grpc")]
pub fn read_traceparent(metadata: &Metadata) -> Extensions {
    let trace = metadata.get(TRACEPARENT).and_then(TraceContext::from_traceparent);
    with_trace(trace)
}

/// What is beside a call that has come, if its place in a trace has.
#[inline]
pub fn with_trace(trace: Option<TraceContext>) -> Extensions {
    let mut extensions = Extensions::new();
    if let Some(trace) = trace {
        extensions.insert(trace);
    }
    extensions
}
