//! One call at a server: checks of its request, and the handler's future.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use h2::RecvStream;
use h2::server::SendResponse;
use http::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri, request};
use petasos_call::{Metadata, Status};
use tokio::time::{Instant, Sleep};

use crate::compress::{ACCEPTED, Compression};
use crate::headers::{self, Content};
use crate::payload::Payload;
use crate::send_half::SendHalf;
use crate::server::{Peer, Routes, ServerCall};
use crate::usage::{CallUse, PeerUse};
use crate::{BoxFuture, FrameReader, FrameWriter, GrpcConfig, reader, timeout};

/// Handles a request: refuses it, or polls its handler and, if the handler waits, spawns a task for
/// it.
pub(super) fn begin(
    routes: &dyn Routes,
    config: &GrpcConfig,
    (peer, usage): (&Arc<Peer>, &Arc<PeerUse>),
    request: Request<RecvStream>,
    respond: SendResponse<Payload>,
) {
    let (parts, body) = request.into_parts();
    if let Some(refusal) = refusal(&parts) {
        return refuse(respond, refusal);
    }
    let mut fields = HeaderMap::new();
    fields.insert(CONTENT_TYPE, headers::CONTENT);
    fields.insert(headers::ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED));
    let terms = match terms(&parts.headers, config) {
        Ok(terms) => terms,
        Err(status) => {
            return SendHalf::unanswered(respond, fields).end(&status, &Metadata::new());
        }
    };
    let Some(call_use) = usage.begin_call() else {
        let status = Status::resource_exhausted(
            "the client has too many calls here, or has read too little",
        );
        return SendHalf::unanswered(respond, fields).end(&status, &Metadata::new());
    };
    if terms.responses != Compression::Identity {
        fields.insert(headers::ENCODING, HeaderValue::from_static(terms.responses.name()));
    }
    let send_half = SendHalf::unanswered(respond, fields);
    let bytes_min = config.compress_bytes_min;
    let call = ServerCall {
        metadata: headers::metadata(&parts.headers),
        timeout: terms.timeout,
        peer: peer.clone(),
        requests: FrameReader::server(
            body,
            terms.requests,
            config.receive_bytes_max,
            usage.unpacking().clone(),
            call_use.clone(),
        ),
        responses: FrameWriter::server(
            send_half.clone(),
            terms.responses,
            terms.accepted,
            bytes_min,
            call_use.clone(),
        ),
    };
    run(routes, parts.uri, call, send_half, call_use);
}

fn run(
    routes: &dyn Routes,
    uri: Uri,
    call: ServerCall,
    send_half: Arc<SendHalf>,
    usage: Arc<CallUse>,
) {
    let deadline = call.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let handler = match catch_unwind(AssertUnwindSafe(|| routes.serve(uri.path(), call))) {
        Ok(handler) => Some(handler),
        Err(_) => return panicked(&send_half, &uri),
    };
    let mut task = CallTask { handler, uri, send_half, deadline, timer: None, _usage: usage };
    // A spawned task is polled again, with its own waker.
    if Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(task);
    }
}

/// The HTTP status for a request that is not a gRPC request.
fn refusal(parts: &request::Parts) -> Option<StatusCode> {
    if parts.method != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    match headers::content(&parts.headers) {
        Content::Grpc => None,
        Content::OtherCodec | Content::Other => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

fn refuse(mut respond: SendResponse<Payload>, status: StatusCode) {
    let mut response = Response::new(());
    *response.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    // Fails if the stream is over; then nobody waits for the response.
    let _ = respond.send_response(response, true);
}

/// What a request's header fields ask for.
struct Terms {
    timeout: Option<Duration>,
    requests: Compression,
    responses: Compression,
    /// The compression that the client accepts besides the identity.
    accepted: Compression,
}

fn terms(fields: &HeaderMap, config: &GrpcConfig) -> Result<Terms, Status> {
    let requests = reader::compression(fields)
        .ok_or_else(|| Status::unimplemented("the compression of the requests is unknown"))?;
    let timeout = match fields.get(headers::TIMEOUT) {
        None => None,
        Some(value) => Some(
            timeout::parse(value.as_bytes())
                .ok_or_else(|| Status::internal("grpc-timeout is invalid"))?,
        ),
    };
    let accepted = accepted(fields, requests);
    let wanted = config.compress && requests == accepted;
    let responses = if wanted { requests } else { Compression::Identity };
    Ok(Terms { timeout, requests, responses, accepted })
}

/// The compression that the client accepts besides the identity. If the client does not say, it
/// accepts the one that it sends.
fn accepted(fields: &HeaderMap, requests: Compression) -> Compression {
    let mut lists = fields.get_all(headers::ACCEPT_ENCODING).iter().peekable();
    if lists.peek().is_none() {
        return requests;
    }
    let mut names = lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    let gzip = Compression::Gzip.name().as_bytes();
    match names.any(|name| name.trim_ascii() == gzip) {
        true => Compression::Gzip,
        false => Compression::Identity,
    }
}

/// Runs a handler until it has finished, or nobody waits for it any more.
struct CallTask {
    /// `None` once it was dropped.
    handler: Option<BoxFuture<'static, ()>>,
    uri: Uri,
    send_half: Arc<SendHalf>,
    deadline: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Keeps the call counted while its handler runs.
    _usage: Arc<CallUse>,
}

impl Future for CallTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let handler = self.handler.as_mut().expect("a future that is done is not polled");
        match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx))) {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) => return self.discard(),
            Err(_) => {
                panicked(&self.send_half, &self.uri);
                return self.discard();
            }
        }
        if self.is_late(cx) {
            let status = Status::deadline_exceeded("the handler did not finish by the deadline");
            self.send_half.end_now(&status);
            return self.discard();
        }
        if self.send_half.poll_reset(cx).is_ready() {
            return self.discard();
        }
        Poll::Pending
    }
}

impl CallTask {
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = self.deadline else { return false };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        timer.as_mut().poll(cx).is_ready()
    }

    /// Drops the handler, whose drop may panic too.
    fn discard(&mut self) -> Poll<()> {
        let handler = self.handler.take();
        if catch_unwind(AssertUnwindSafe(|| drop(handler))).is_err() {
            panicked(&self.send_half, &self.uri);
        }
        Poll::Ready(())
    }
}

fn panicked(send_half: &SendHalf, uri: &Uri) {
    tracing::error!(path = uri.path(), "a handler panicked");
    send_half.end(&Status::internal("the handler panicked"), &Metadata::new());
}
