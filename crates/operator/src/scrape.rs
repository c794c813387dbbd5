//! What is counted, for Prometheus: an HTTP server of one page, `GET /metrics`.
//!
//! The page is made of a copy of the counters, at most
//! once per [`FRESH`], however many ask.
//!
//! # Invariants
//! - Connections, heads and times are bounded by [`LIMITS`]. A connection has one request.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use petasos_web::Limits;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// What scrapers may take.
const LIMITS: Limits = Limits {
    connections_max: 16,
    head_bytes_max: 8 << 10,
    patience: Duration::from_secs(5),
    age_max: Duration::from_secs(5),
    keep_alive: false,
};
/// So long a page is given again.
const FRESH: Duration = Duration::from_secs(1);
/// So often a port is tried that another process has.
const TRY_EVERY: Duration = Duration::from_millis(200);

/// Where scrapers are served.
pub enum Place {
    /// There.
    Open(std::net::TcpListener),
    /// There, once the process before this one has left the port.
    WhenFree(SocketAddr),
}

/// Listens for scrapers. Those of other hosts need consent.
///
/// # Errors
/// Why not.
pub fn listen(
    address: SocketAddr,
    is_plain_allowed: bool,
) -> Result<std::net::TcpListener, String> {
    check(address, is_plain_allowed)?;
    let failed = |error| format!("cannot serve metrics at {address}: {error}");
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Whether scrapers may be served there.
///
/// # Errors
/// It is beyond this host, and there is no consent.
pub fn check(address: SocketAddr, is_plain_allowed: bool) -> Result<(), String> {
    if address.ip().is_loopback() || is_plain_allowed {
        return Ok(());
    }
    Err(format!(
        "metrics at {address} would be read by other hosts, unencrypted and by everybody: give \
         --metrics-plaintext to allow that, or an address of loopback"
    ))
}

/// The page, and when it was made.
type Page = Mutex<Option<(Instant, Arc<str>)>>;

/// Serves pages for as long as the runtime runs; `program` says it if that cannot be.
pub async fn serve<F>(
    program: &'static str,
    place: Place,
    render: impl Fn() -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Result<String, String>> + Send,
{
    let listener = match opened(place).await {
        Ok(listener) => listener,
        Err(error) => return eprintln!("{program}: metrics are not served: {error}"),
    };
    let page = Arc::new(Page::default());
    let answer = move |request: Request<()>| {
        let (page, render) = (page.clone(), render.clone());
        async move { answer(&request, &page, &render).await }
    };
    petasos_web::serve(listener, None, LIMITS, answer).await;
}

async fn opened(place: Place) -> std::io::Result<TcpListener> {
    let address = match place {
        Place::Open(listener) => return TcpListener::from_std(listener),
        Place::WhenFree(address) => address,
    };
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => sleep(TRY_EVERY).await,
            opened => return opened,
        }
    }
}

async fn answer<F>(request: &Request<()>, page: &Page, render: &impl Fn() -> F) -> Response<Bytes>
where
    F: Future<Output = Result<String, String>>,
{
    let (status, body) = match refusal(request.method(), request.uri().path()) {
        Some(status) => (status, format!("{status}: GET /metrics\n").into()),
        None => match fresh(page, render).await {
            Ok(body) => (StatusCode::OK, body),
            Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n").into()),
        },
    };
    let mut response = Response::new(Bytes::copy_from_slice(body.as_bytes()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What is answered instead of the page, if it is not asked for.
fn refusal(method: &Method, path: &str) -> Option<StatusCode> {
    match (method, path) {
        (&(Method::GET | Method::HEAD), "/metrics") => None,
        (&(Method::GET | Method::HEAD), _) => Some(StatusCode::NOT_FOUND),
        _ => Some(StatusCode::METHOD_NOT_ALLOWED),
    }
}

/// The page, made anew if it is not fresh. Those who ask meanwhile wait for the same.
async fn fresh<F>(page: &Page, render: &impl Fn() -> F) -> Result<Arc<str>, String>
where
    F: Future<Output = Result<String, String>>,
{
    let mut page = page.lock().await;
    let now = Instant::now();
    if let Some((made, text)) = &*page
        && now.duration_since(*made) < FRESH
    {
        return Ok(text.clone());
    }
    let text: Arc<str> = render().await?.into();
    *page = Some((now, text.clone()));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_need_consent() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("it is an address");
        for inside in ["127.0.0.1:9464", "127.8.8.8:1", "[::1]:0"] {
            assert_eq!(check(at(inside), false), Ok(()), "{inside}");
        }
        for beyond in ["0.0.0.0:9464", "[::]:9464", "10.0.0.1:9464", "[2001:db8::1]:1"] {
            let why = check(at(beyond), false).expect_err(beyond);
            assert!(why.contains("--metrics-plaintext"), "{why}");
            assert_eq!(check(at(beyond), true), Ok(()));
        }
    }

    #[test]
    fn only_the_page_is_served() {
        assert_eq!(refusal(&Method::GET, "/metrics"), None);
        assert_eq!(refusal(&Method::HEAD, "/metrics"), None);
        for (method, path, status) in [
            (Method::GET, "/", 404),
            (Method::GET, "/metrics/x", 404),
            (Method::GET, "*", 404),
            (Method::POST, "/metrics", 405),
            (Method::CONNECT, "", 405),
        ] {
            let refused = refusal(&method, path).map(|status| status.as_u16());
            assert_eq!(refused, Some(status), "{method} {path}");
        }
    }
}
