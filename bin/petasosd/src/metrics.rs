//! What is counted, for Prometheus: an HTTP server of one page, `GET /metrics`.
//!
//! It runs in the thread that serves operators. The page is made of a copy of the counters, at most
//! once per [`FRESH`], however many ask.
//!
//! # Invariants
//! - At most [`CONNECTIONS_MAX`] connections are open, each for at most [`PATIENCE`]. Others wait
//!   in the system's queue.
//! - Of a request, at most [`HEAD_BYTES_MAX`] are read. A connection has one request.

mod text;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep, timeout};

pub use text::text;

/// The most connections at a time.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// So long a page is given again.
const FRESH: Duration = Duration::from_secs(1);
/// So long nobody is taken on after the system could not do it.
const PAUSE: Duration = Duration::from_secs(1);

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

/// Serves pages for as long as the runtime runs.
pub async fn serve<F>(place: Place, render: impl Fn() -> F + Clone + Send + Sync + 'static)
where
    F: Future<Output = Result<String, String>> + Send,
{
    let listener = match opened(place).await {
        Ok(listener) => listener,
        Err(error) => return eprintln!("petasosd: metrics are not served: {error}"),
    };
    let (permits, page) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Arc::new(Page::default()));
    loop {
        let permit = permits.clone().acquire_owned().await.expect("nobody closes it");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                sleep(PAUSE).await;
                continue;
            }
        };
        let (page, render) = (page.clone(), render.clone());
        tokio::spawn(async move {
            // Whoever takes too long, or leaves, has no use for an answer.
            let _ = timeout(PATIENCE, answer(&stream, &page, &render)).await;
            drop(permit);
        });
    }
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

async fn answer<F>(stream: &TcpStream, page: &Page, render: &impl Fn() -> F) -> std::io::Result<()>
where
    F: Future<Output = Result<String, String>>,
{
    let (status, body, has_body) = match wanted(&head(stream).await?) {
        Ok(has_body) => match fresh(page, render).await {
            Ok(body) => ("200 OK", body, has_body),
            Err(why) => ("503 Service Unavailable", format!("{why}\n").into(), has_body),
        },
        Err(status) => (status, format!("{status}: GET /metrics\n").into(), true),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    write(stream, head.as_bytes()).await?;
    if has_body {
        write(stream, body.as_bytes()).await?;
    }
    Ok(())
}

/// Reads the head of a request: all up to an empty line, or as much as is taken.
async fn head(stream: &TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(1024);
    while head.len() < HEAD_BYTES_MAX {
        stream.readable().await?;
        let mut bytes = [0; 1024];
        match stream.try_read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                // An end may have begun in what came before.
                let begin = head.len().saturating_sub(3);
                head.extend_from_slice(&bytes[..count]);
                if is_whole(&head[begin..]) {
                    break;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
}

/// Whether the page is wanted with its body; or what is answered instead.
fn wanted(head: &[u8]) -> Result<bool, &'static str> {
    if !is_whole(head) {
        let is_long = head.len() >= HEAD_BYTES_MAX;
        return Err(if is_long {
            "431 Request Header Fields Too Large"
        } else {
            "400 Bad Request"
        });
    }
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| "400 Bad Request")?;
    let mut words = line.trim_end_matches('\r').split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    if !version.is_some_and(|version| version.starts_with("HTTP/1.")) || words.next().is_some() {
        return Err("400 Bad Request");
    }
    let has_body = match method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Err("405 Method Not Allowed"),
    };
    match target.and_then(|target| target.split('?').next()) {
        Some("/metrics") => Ok(has_body),
        _ => Err("404 Not Found"),
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

async fn write(stream: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        stream.ready(Interest::WRITABLE).await?;
        match stream.try_write(bytes) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
        let of = |head: &str| wanted(head.as_bytes());
        assert_eq!(of("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(true));
        assert_eq!(of("GET /metrics?a=b HTTP/1.0\r\n\r\n"), Ok(true));
        assert_eq!(of("HEAD /metrics HTTP/1.1\n\n"), Ok(false));
        for (wrong, status) in [
            ("", "400"),
            ("GET /metrics HTTP/1.1\r\n", "400"),
            ("GET /metrics\r\n\r\n", "400"),
            ("GET /metrics HTTP/2\r\n\r\n", "400"),
            ("GET  /metrics HTTP/1.1\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics/x HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (&"x".repeat(HEAD_BYTES_MAX), "431"),
        ] {
            let answer = of(wrong).expect_err(wrong);
            assert!(answer.starts_with(status), "{wrong}: {answer}");
        }
        assert!(wanted(b"\xff\xfe /metrics HTTP/1.1\r\n\r\n").is_err());
    }
}
