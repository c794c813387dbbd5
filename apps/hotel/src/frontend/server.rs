//! The frontend's HTTP/1.1 port. Its connections, and what a request may take, are bounded.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::{Answer, Frontend, told};
use crate::calls::{Profile, Recommendation, Reservation, Search, User};
use crate::error::Error;
use crate::timing::{KEY, Watch};

/// The most connections; others wait until one is closed.
const CONNECTIONS_MAX: usize = 1024;
/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a connection may take for the head of a request, idle times included.
const HEAD_LIMIT: Duration = Duration::from_secs(120);
/// What the answer of a request may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// The pause after a failure to accept: no descriptor may be free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A port that is open.
pub struct Http {
    listener: TcpListener,
}

impl Http {
    /// Opens the port.
    ///
    /// # Errors
    /// The address cannot be had.
    pub async fn bind(listen: SocketAddr) -> Result<Http, Error> {
        let listener = TcpListener::bind(listen).await;
        let listener = listener.map_err(|error| Error::away(format!("{listen}: {error}")))?;
        Ok(Http { listener })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(|error| Error::internal(error.to_string()))
    }
}

/// Serves guests for ever. It has to run in a local set.
pub async fn serve<S, P, C, R, U>(http: Http, frontend: Frontend<S, P, C, R, U>)
where
    S: Search,
    P: Profile,
    C: Recommendation,
    R: Reservation,
    U: User,
{
    let (frontend, permits) = (Rc::new(frontend), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    loop {
        let permit = permits.clone().acquire_owned().await.expect("it is never closed");
        match http.listener.accept().await {
            Ok((stream, _)) => drop(spawn_local(connection(stream, permit, frontend.clone()))),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn connection<S, P, C, R, U>(
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
    frontend: Rc<Frontend<S, P, C, R, U>>,
) where
    S: Search,
    P: Profile,
    C: Recommendation,
    R: Reservation,
    U: User,
{
    // Without this, answers wait for acknowledgements; a failure shows at the first read.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let frontend = frontend.clone();
        async move { Ok::<_, Infallible>(exchange(&*frontend, &request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(HEAD_BYTES_MAX);
    // The client may go away at any time.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn exchange<S, P, C, R, U>(
    frontend: &Frontend<S, P, C, R, U>,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>>
where
    S: Search,
    P: Profile,
    C: Recommendation,
    R: Reservation,
    U: User,
{
    let mut watch = Watch::start();
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let answer = match *request.method() {
        Method::GET | Method::POST => {
            let answer = timeout(ANSWER_LIMIT, frontend.answer(path, query, &mut watch)).await;
            answer.unwrap_or_else(|_| told(504, "the services did not answer in time"))
        }
        _ => told(405, "GET or POST"),
    };
    response(answer, &watch)
}

fn response(answer: Answer, watch: &Watch) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let timing = HeaderValue::try_from(watch.timing().text());
    headers.insert(KEY, timing.expect("a timing's text is allowed in headers"));
    response
}
