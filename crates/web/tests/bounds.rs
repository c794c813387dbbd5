//! What clients cannot take more of than there may be.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use petasos_web::{Limits, Tls, serve};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Longer than anything takes that works.
const WATCHDOG: Duration = Duration::from_secs(60);

const LIMITS: Limits = Limits {
    connections_max: 2,
    head_bytes_max: 8 << 10,
    patience: Duration::from_millis(300),
    age_max: Duration::from_secs(60),
    keep_alive: true,
};

/// A server that answers with the path, or with what is long.
async fn start(limits: Limits, tls: Option<Tls>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |request: Request<()>| async move {
        match request.uri().path() {
            "/long" => Response::new(Bytes::from(vec![b'x'; 64 << 20])),
            path => Response::new(Bytes::copy_from_slice(path.as_bytes())),
        }
    };
    tokio::spawn(serve(listener, tls, limits, answer));
    address
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Says something, and hears all until the end.
async fn said(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), what: &str) -> String {
    stream.write_all(what.as_bytes()).await.unwrap();
    rest(stream).await
}

async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut heard = Vec::new();
    // A server that does not read all resets the connection.
    let _ = timeout(WATCHDOG, stream.read_to_end(&mut heard)).await.expect("it ends");
    String::from_utf8_lossy(&heard).into_owned()
}

const CLOSE: &str = "GET /a HTTP/1.1\r\nConnection: close\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_one_after_the_other() {
    let address = start(LIMITS, None).await;
    let mut stream = connect(address).await;
    let heard = said(&mut stream, &format!("GET /1 HTTP/1.1\r\n\r\n{CLOSE}")).await;
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n") && heard.ends_with("/a"), "{heard}");
    assert_eq!(heard.matches("HTTP/1.1 200 OK").count(), 2);
    let head = said(&mut connect(address).await, &CLOSE.replace("GET", "HEAD")).await;
    assert!(head.contains("Content-Length: 2\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let limits = Limits { keep_alive: false, ..LIMITS };
    let mut stream = connect(start(limits, None).await).await;
    let heard = said(&mut stream, "GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n").await;
    assert_eq!(heard.matches("HTTP/1.1 200 OK").count(), 1, "{heard}");
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_short_and_there_are_no_bodies() {
    let address = start(LIMITS, None).await;
    let status = async |request: &str| {
        let heard = said(&mut connect(address).await, request).await;
        heard.strip_prefix("HTTP/1.1 ").map_or(0, |heard| heard[..3].parse::<u16>().unwrap())
    };
    assert_eq!(status("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello").await, 413);
    assert_eq!(status("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").await, 413);
    assert_eq!(status(&"x".repeat(8 << 10)).await, 431);
    let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(20 << 10));
    assert_eq!(status(&long).await, 431);
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
    assert_eq!(status(&many).await, 431);
    for nonsense in ["nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n"] {
        assert_eq!(status(nonsense).await, 400, "{nonsense}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_makes_room_for_others() {
    let address = start(LIMITS, None).await;
    let mut silent = [connect(address).await, connect(address).await];
    silent[1].write_all(b"GET / HTTP/1.1\r\nslow").await.unwrap();
    // There are two places: this one is served when one of them is free.
    let heard = said(&mut connect(address).await, CLOSE).await;
    assert!(heard.ends_with("/a"), "{heard}");
    for stream in &mut silent {
        let heard = rest(stream).await;
        assert!(heard.is_empty() || heard.starts_with("HTTP/1.1 408"), "{heard}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_and_who_stays_makes_room_for_others() {
    let limits = Limits { age_max: Duration::from_millis(500), ..LIMITS };
    let address = start(limits, None).await;
    let mut deaf = connect(address).await;
    deaf.write_all(b"GET /long HTTP/1.1\r\n\r\n").await.unwrap();
    let mut chatty = connect(address).await;
    let talks = tokio::spawn(async move {
        let mut bytes = [0; 4096];
        while chatty.write_all(b"GET /b HTTP/1.1\r\n\r\n").await.is_ok() {
            match chatty.read(&mut bytes).await {
                Ok(count) if count > 0 => tokio::time::sleep(Duration::from_millis(10)).await,
                _ => break,
            }
        }
    });
    let heard = said(&mut connect(address).await, CLOSE).await;
    assert!(heard.ends_with("/a"), "{heard}");
    timeout(WATCHDOG, talks).await.expect("its connection grows old").unwrap();
    let heard = said(&mut connect(address).await, CLOSE).await;
    assert!(heard.ends_with("/a"), "the deaf one has gone, too: {heard}");
    drop(deaf);
}

/// Files of a certificate and its key, removed when dropped.
struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_the_server_proves_itself_and_strangers_cost_a_handshake() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["dash.example".to_owned()]).unwrap();
    let folder = std::env::temp_dir().join(format!("petasos-web-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = Files(folder);
    let (cert_file, key_file) = (files.0.join("cert"), files.0.join("key"));
    std::fs::write(&cert_file, cert.pem()).unwrap();
    std::fs::write(&key_file, signing_key.serialize_pem()).unwrap();
    let tls = Tls::from_files(cert_file, key_file.clone()).unwrap();
    assert!(Tls::from_files(key_file.clone(), key_file).is_err());
    let address = start(LIMITS, Some(tls)).await;
    let mut plain = [connect(address).await, connect(address).await];
    plain[0].write_all(CLOSE.as_bytes()).await.unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(cert.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let named = |name: &str| ServerName::try_from(name.to_owned()).unwrap();
    let stream = connect(address).await;
    let mut stream = connector.connect(named("dash.example"), stream).await.unwrap();
    let heard = said(&mut stream, CLOSE).await;
    assert!(heard.ends_with("/a"), "{heard}");
    let stream = connect(address).await;
    assert!(connector.connect(named("other.example"), stream).await.is_err());
    for stream in &mut plain {
        assert!(!rest(stream).await.contains("HTTP/1.1 200"));
    }
}
