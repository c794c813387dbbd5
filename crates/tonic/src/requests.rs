//! Requests for tonic: a head, and messages with their prefixes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, TE};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri, Version};
use http_body::{Body as HttpBody, Frame};
use petasos::grpc::{FrameReader, FrameWriter, ServerCall};
use tonic::body::Body;
use tonic::transport::server::TcpConnectInfo;

use crate::fields;

const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const PREFIX_BYTES: usize = 5;

/// The request of a call, and the receiver of its responses; only the latter if the path is
/// invalid.
///
/// The request names no compression. The port has decompressed its messages, and decides about
/// responses itself.
pub(crate) fn request(
    path: &str,
    call: ServerCall,
) -> Result<(Request<Body>, FrameWriter), FrameWriter> {
    let ServerCall { metadata, timeout, peer, requests, responses, .. } = call;
    let Ok(path) = PathAndQuery::try_from(path) else { return Err(responses) };
    let mut request = Request::new(Body::new(Messages { requests, message: None, is_over: false }));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from(path);
    *request.version_mut() = Version::HTTP_2;
    let mut fields = fields::to_fields(&metadata);
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    fields.insert(TE, HeaderValue::from_static("trailers"));
    if let Some(timeout) = timeout {
        fields.insert(TIMEOUT, fields::timeout(timeout));
    }
    *request.headers_mut() = fields;
    let connection = TcpConnectInfo { local_addr: None, remote_addr: Some(peer.address) };
    request.extensions_mut().insert(connection);
    request.extensions_mut().insert(peer);
    Ok((request, responses))
}

/// The body with the client's messages.
struct Messages {
    requests: FrameReader,
    /// The message after the prefix that was returned last.
    message: Option<Bytes>,
    is_over: bool,
}

impl HttpBody for Messages {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        if let Some(message) = self.message.take() {
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(self.requests.poll_next(cx));
        self.is_over = !matches!(next, Ok(Some(_)));
        Poll::Ready(match next {
            Ok(None) => None,
            Ok(Some(message)) => Some(prefix(message.len()).map(|prefix| {
                self.message = (!message.is_empty()).then_some(message);
                Frame::data(prefix)
            })),
            Err(status) => Some(Err(fields::to_tonic(&status))),
        })
    }
}

/// The prefix of an uncompressed message; it may have arrived compressed.
fn prefix(message_bytes: usize) -> Result<Bytes, tonic::Status> {
    let too_long = |_| tonic::Status::resource_exhausted("the message is longer than 4 GiB");
    let length = u32::try_from(message_bytes).map_err(too_long)?;
    let mut prefix = [0; PREFIX_BYTES];
    prefix[1..].copy_from_slice(&length.to_be_bytes());
    Ok(Bytes::copy_from_slice(&prefix))
}
