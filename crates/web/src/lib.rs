//! A bounded HTTP/1.1 server of short answers, for what people and scrapers look at.
//!
//! hyper reads and writes; this crate says how much of everything there may be. What is answered is
//! the caller's.
//!
//! # Invariants
//! - At most [`Limits::connections_max`] connections are open. Others wait in the system's queue.
//! - A head comes in within [`Limits::patience`] and has at most [`Limits::head_bytes_max`]; so
//!   long a connection may be idle, too. Requests have no body.
//! - A connection ends [`Limits::patience`] after [`Limits::age_max`] at the latest, whatever its
//!   client does.
//!
//! Boundary rule: knows HTTP and TLS; knows nothing of what is served, or of who may see it.

mod tls;

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

pub use tls::{CredentialError, Tls};

/// The most lines of a head.
const HEADERS_MAX: usize = 64;
/// So long nobody is taken on after the system could not do it.
const PAUSE: Duration = Duration::from_secs(1);

/// How much there may be of what costs something.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections_max: usize,
    /// The longest head of a request; at least 8 KiB, which hyper needs.
    pub head_bytes_max: usize,
    /// How long a handshake may take, a head, and a connection's idleness.
    pub patience: Duration,
    /// A connection takes no more requests when it is so old.
    pub age_max: Duration,
    /// A connection may have several requests.
    pub keep_alive: bool,
}

/// Answers the heads of requests, for as long as this is polled.
pub async fn serve<F>(
    listener: TcpListener,
    tls: Option<Tls>,
    limits: Limits,
    answer: impl Fn(Request<()>) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Response<Bytes>> + Send,
{
    let permits = Arc::new(Semaphore::new(limits.connections_max));
    loop {
        let permit = permits.clone().acquire_owned().await.expect("nobody closes it");
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let (tls, answer) = (tls.clone(), answer.clone());
        tokio::spawn(async move {
            converse(stream, tls, limits, answer).await;
            drop(permit);
        });
    }
}

async fn converse<F>(
    stream: TcpStream,
    tls: Option<Tls>,
    limits: Limits,
    answer: impl Fn(Request<()>) -> F + Send + Sync + 'static,
) where
    F: Future<Output = Response<Bytes>> + Send,
{
    // Answers are short: waiting for more to send makes them late.
    let _ = stream.set_nodelay(true);
    match tls {
        None => talk(TokioIo::new(stream), limits, answer).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(limits.patience, tls.accept(stream)).await {
                talk(TokioIo::new(stream), limits, answer).await;
            }
        }
    }
}

async fn talk<F>(
    stream: impl Read + Write + Unpin,
    limits: Limits,
    answer: impl Fn(Request<()>) -> F,
) where
    F: Future<Output = Response<Bytes>>,
{
    let service = service_fn(|request| {
        let answered = without_body(request).map(&answer);
        async move {
            Ok::<_, Infallible>(match answered {
                Some(answer) => answer.await.map(Full::new),
                None => has_body().map(Full::new),
            })
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .max_buf_size(limits.head_bytes_max)
        .max_headers(HEADERS_MAX)
        .keep_alive(limits.keep_alive)
        .title_case_headers(true);
    let mut connection = pin!(builder.serve_connection(stream, service));
    // Whoever takes too long, leaves, or talks no HTTP has no use for an answer.
    if timeout(limits.age_max, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(limits.patience, connection).await;
    }
}

/// The head of a request; none if there is more.
fn without_body(request: Request<Incoming>) -> Option<Request<()>> {
    let (head, body) = request.into_parts();
    body.is_end_stream().then(|| Request::from_parts(head, ()))
}

/// What a request with a body is answered.
fn has_body() -> Response<Bytes> {
    let mut refusal = Response::new(Bytes::from_static(b"requests have no body here\n"));
    *refusal.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
    // What is left of the body is not read.
    refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    refusal
}
