//! How callers start calls.

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

use petasos::rt::MethodKind;
use petasos::untyped::{Client, Payload};
use petasos::{Metadata, Request, Routing, Status};

use crate::call::petasos_call;
use crate::channel::petasos_client;
use crate::failure::{PETASOS_OK, guarded, petasos_code};
use crate::metadata::{copied, petasos_metadata};
use crate::parts::{Parts, Receiving, Sending};
use crate::pointer;
use crate::routing::{self, petasos_routing};

/// Starts a call of a method, whose name is given without its service. The call has started when
/// this returns.
///
/// `request` is the only request for methods that take one. For others it must be empty, and
/// requests follow with petasos_call_send. `timeout_us` is the timeout of the call; 0 means the
/// channel's default. `metadata` is sent with the request, and may be null. Free the call with
/// petasos_call_free.
///
/// # Safety
/// The client is valid, the name ends with a zero, `length` bytes are at `request`, the metadata
/// are null or valid, and `call` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_call_start(
    client: *const petasos_client,
    method: *const c_char,
    request: *const u8,
    length: usize,
    timeout_us: u64,
    metadata: *const petasos_metadata,
    call: *mut *mut petasos_call,
) -> petasos_code {
    let routing = std::ptr::null();
    // SAFETY: the caller's promises, and routing may be null.
    unsafe {
        petasos_call_start_routed(
            client, method, request, length, timeout_us, metadata, routing, call,
        )
    }
}

/// Like petasos_call_start, and says how a call to a group of workers (`router://…`) is routed.
/// `routing` may be null, and has no effect on other calls: not on streams, whose worker the router
/// names, nor on calls to other targets. Since version 3.
///
/// # Safety
/// As for petasos_call_start; `routing` is null or valid, with its key.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "those of petasos_call_start, and the route")]
pub unsafe extern "C" fn petasos_call_start_routed(
    client: *const petasos_client,
    method: *const c_char,
    request: *const u8,
    length: usize,
    timeout_us: u64,
    metadata: *const petasos_metadata,
    routing: *const petasos_routing,
    call: *mut *mut petasos_call,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (to, (client, mut call)) = unsafe {
            let started = read(client, method, request, length, timeout_us, metadata)?;
            (pointer::out(call)?, started)
        };
        // SAFETY: the caller's promise.
        call.routing = unsafe { routing::read(routing)? };
        *to = pointer::give(call.begin(client)?);
        Ok(PETASOS_OK)
    })
}

/// What a program asks for.
struct Asked<'a> {
    method: &'a str,
    request: &'a [u8],
    timeout: Option<Duration>,
    metadata: Metadata,
    routing: Option<Routing>,
}

/// # Safety
/// As of [`petasos_call_start`].
unsafe fn read<'a>(
    client: *const petasos_client,
    method: *const c_char,
    request: *const u8,
    length: usize,
    timeout_us: u64,
    metadata: *const petasos_metadata,
) -> Result<(&'a Client, Asked<'a>), Status> {
    // SAFETY: the caller's promises.
    unsafe {
        let client = pointer::shared(client, "the client")?;
        let asked = Asked {
            method: pointer::text(method, "the method's name")?,
            request: pointer::slice(request, length)?,
            timeout: (timeout_us > 0).then(|| Duration::from_micros(timeout_us)),
            metadata: copied(metadata),
            routing: None,
        };
        Ok((client.get(), asked))
    }
}

impl Asked<'_> {
    fn begin(self, client: &Client) -> Result<petasos_call, Status> {
        let method = self.method;
        let unknown = || Status::unimplemented(format!("the service has no method `{method}`"));
        let parts = match client.method(method).ok_or_else(unknown)?.kind {
            kind @ (MethodKind::Unary | MethodKind::ServerStreaming) => self.one(client, kind)?,
            _ => self.many(client)?,
        };
        Ok(petasos_call::new(parts, Arc::default(), None))
    }

    /// A call with one request.
    fn one(self, client: &Client, kind: MethodKind) -> Result<Parts, Status> {
        let mut request = Request::new(Payload::from_bytes(self.request)?);
        *request.metadata_mut() = self.metadata;
        if let Some(timeout) = self.timeout {
            request = request.with_timeout(timeout);
        }
        if let Some(routing) = self.routing {
            request = request.with_routing(routing);
        }
        let none = "the kind was looked up";
        let receiving = match kind {
            MethodKind::Unary => Receiving::Unary(client.unary(self.method, request).expect(none)),
            _ => {
                let opening = client.server_streaming(self.method, request).expect(none);
                Receiving::OpeningOne(opening)
            }
        };
        Ok(Parts::new(receiving, Sending::Over(Ok(()))))
    }

    /// A call whose requests are a stream.
    fn many(self, client: &Client) -> Result<Parts, Status> {
        if !self.request.is_empty() {
            return Err(Status::invalid_argument("the method takes its requests as a stream"));
        }
        let opening = client.open(self.method);
        let opening = opening.map_err(|error| Status::internal(error.to_string()))?;
        let mut opening = opening.with_all_metadata(self.metadata);
        if let Some(timeout) = self.timeout {
            opening = opening.with_timeout(timeout);
        }
        Ok(Parts::new(Receiving::OpeningBoth(opening), Sending::Opening))
    }
}
