//! A connection to a server, and its calls.

mod connect;
mod greeting;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use h2::Reason;
use h2::client::SendRequest;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Method, Request};
use petasos_call::{Metadata, Status};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::compress::{ACCEPTED, Compression};
use crate::payload::Payload;
use crate::places::Share;
use crate::send_half::SendHalf;
use crate::{ClientConfig, FrameReader, FrameWriter, failure, headers, timeout};

/// A connection to a gRPC server; clones share it. It closes when all clones and calls are gone.
#[derive(Clone)]
pub struct Connection {
    requests: SendRequest<Payload>,
    shared: Arc<Shared>,
}

struct Shared {
    scheme: Scheme,
    authority: Authority,
    config: ClientConfig,
    /// Nothing is ever sent; the channel closes when the connection's task ends.
    alive: watch::Receiver<()>,
    /// Each call holds a clone, to be counted.
    calls: Arc<()>,
    /// The connection's share of the places for decompression.
    unpacking: Share,
}

/// The path of a method, such as `/routeguide.RouteGuide/GetFeature`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MethodPath(PathAndQuery);

impl MethodPath {
    /// Parses a path; `None` if it is invalid.
    pub fn new(path: &str) -> Option<MethodPath> {
        PathAndQuery::try_from(path).ok().map(MethodPath)
    }
}

/// The head of a call.
#[derive(Clone, Debug, Default)]
pub struct ClientHead {
    /// Metadata, sent before the messages.
    pub metadata: Metadata,
    /// How long the call may take, from when [`Connection::call`] is polled.
    pub timeout: Option<Duration>,
    /// How requests are compressed; the server chooses the compression of responses.
    pub compression: Compression,
    /// Longest response that is accepted, in bytes, if that is not the connection's limit.
    pub receive_bytes_max: Option<usize>,
}

impl Connection {
    /// Begins a call of a method, on the Tokio runtime of the connection. It waits while the
    /// server's limit of concurrent calls is reached.
    ///
    /// # Errors
    /// `UNAVAILABLE`: the connection is over and the call has not begun; another connection may
    /// carry it. `DEADLINE_EXCEEDED`: no time is left, and the call has not begun.
    pub async fn call(
        &self,
        path: &MethodPath,
        head: &ClientHead,
    ) -> Result<(FrameWriter, FrameReader), Status> {
        let deadline = deadline(head);
        let request = self.request(path, head);
        let ready = self.requests.clone().ready();
        let ready = match deadline {
            None => ready.await,
            Some(deadline) => timeout_at(deadline, ready)
                .await
                .map_err(|_| Status::deadline_exceeded("no time was left to begin the call"))?,
        };
        let requests = ready.map_err(|error| not_begun(&error))?;
        self.begin(requests, request, head, deadline)
    }

    /// Like [`Connection::call`], without waiting. Must run in the context of a Tokio runtime if
    /// the call has a timeout. `None`: the server accepts no more calls now.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub fn try_call(
        &self,
        path: &MethodPath,
        head: &ClientHead,
    ) -> Option<Result<(FrameWriter, FrameReader), Status>> {
        let mut requests = self.requests.clone();
        let begun = match requests.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return None,
            Poll::Ready(Err(error)) => Err(not_begun(&error)),
            Poll::Ready(Ok(())) => {
                self.begin(requests, self.request(path, head), head, deadline(head))
            }
        };
        Some(begun)
    }

    fn begin(
        &self,
        mut requests: SendRequest<Payload>,
        request: Request<()>,
        head: &ClientHead,
        deadline: Option<Instant>,
    ) -> Result<(FrameWriter, FrameReader), Status> {
        let begun = requests.send_request(request, false);
        let (response, stream) = begun.map_err(|error| not_begun(&error))?;
        let config = &self.shared.config;
        let bytes_max = head.receive_bytes_max.unwrap_or(config.receive_bytes_max);
        let send_half = SendHalf::open(stream);
        let shared = (self.shared.calls.clone(), self.shared.unpacking.clone());
        let reader = FrameReader::client(response, send_half.clone(), deadline, bytes_max, shared);
        let bytes_min = config.compress_bytes_min;
        Ok((FrameWriter::client(send_half, deadline, head.compression, bytes_min), reader))
    }

    /// Whether the connection has ended, and with it all its calls.
    pub fn is_closed(&self) -> bool {
        self.shared.alive.has_changed().is_err()
    }

    /// Whether the server has told this client to begin its calls on another connection (a GOAWAY
    /// without an error), as servers do that restart or limit the age of connections.
    pub fn is_left(&self) -> bool {
        let ready = self.requests.clone().poll_ready(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Err(error)) = ready else { return false };
        error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR)
    }

    /// Waits until the connection has ended, without keeping it open.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut alive = self.shared.alive.clone();
        async move {
            // Nothing is ever sent, so the wait ends when the sender is dropped.
            let _ = alive.changed().await;
        }
    }

    fn request(&self, path: &MethodPath, head: &ClientHead) -> Request<()> {
        let uri = Uri::builder()
            .scheme(self.shared.scheme.clone())
            .authority(self.shared.authority.clone())
            .path_and_query(path.0.clone());
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.build().expect("its parts are right, and all are there");
        *request.headers_mut() = fields(head);
        request
    }
}

fn deadline(head: &ClientHead) -> Option<Instant> {
    head.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

fn fields(head: &ClientHead) -> HeaderMap {
    const AGENT: HeaderValue =
        HeaderValue::from_static(concat!("grpc-rust-petasos/", env!("CARGO_PKG_VERSION")));
    let mut fields = HeaderMap::with_capacity(8);
    fields.insert(TE, HeaderValue::from_static("trailers"));
    fields.insert(CONTENT_TYPE, headers::CONTENT);
    fields.insert(headers::ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED));
    if head.compression != Compression::Identity {
        fields.insert(headers::ENCODING, HeaderValue::from_static(head.compression.name()));
    }
    if let Some(timeout) = head.timeout {
        let value = HeaderValue::try_from(timeout::format(timeout));
        fields.insert(headers::TIMEOUT, value.expect("digits and a letter"));
    }
    headers::put_metadata(&mut fields, &head.metadata);
    fields.entry(USER_AGENT).or_insert(AGENT);
    fields
}

/// The status of a call that was not sent.
fn not_begun(error: &h2::Error) -> Status {
    match error.is_reset() {
        true => failure::from_h2(error),
        false => Status::unavailable(format!("the connection is over: {error}")),
    }
}
