//! A guest: HTTP connections to the frontend, which stay open.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HOST;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::mix::Ask;
use crate::error::Error;
use crate::pool::Pool;
use crate::timing::{KEY, Timing};

/// The most connections.
const CONNECTIONS_MAX: usize = 256;
/// The longest answer.
const BODY_BYTES_MAX: usize = 1 << 20;
/// What an answer may take.
const LIMIT: Duration = Duration::from_secs(6);

/// What the frontend has answered.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Bytes,
    /// Where the time went, as far as it was told.
    pub timing: Option<Timing>,
}

type Connection = SendRequest<Empty<Bytes>>;

/// Connections to a frontend.
pub struct Client {
    server: SocketAddr,
    connections: Pool<Connection>,
}

impl Client {
    pub fn new(server: SocketAddr) -> Client {
        let connections = Pool::new(CONNECTIONS_MAX, |one: &Connection| one.is_ready());
        Client { server, connections }
    }

    /// Asks once.
    ///
    /// # Errors
    /// The frontend cannot be reached, or did not answer in time.
    pub async fn ask(&self, ask: &Ask) -> Result<Reply, Error> {
        match timeout(LIMIT, self.exchange(ask)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::late("the frontend", LIMIT)),
        }
    }

    async fn exchange(&self, ask: &Ask) -> Result<Reply, Error> {
        let mut connection = self.connections.take(connect(self.server)).await?;
        let request = Request::builder().method(ask.method).uri(&ask.target);
        let request = request.header(HOST, "hotel").body(Empty::new());
        let request = request.map_err(|error| Error::invalid(error.to_string()))?;
        let response = connection.send_request(request).await.map_err(of_hyper)?;
        let reply = read(response).await?;
        // A connection that the frontend keeps is ready now or in a moment.
        if connection.ready().await.is_ok() {
            connection.give_back();
        }
        Ok(reply)
    }
}

fn of_hyper(error: hyper::Error) -> Error {
    Error::away(format!("the frontend: {error}"))
}

async fn connect(server: SocketAddr) -> Result<Connection, Error> {
    let away = |error: std::io::Error| Error::away(format!("the frontend at {server}: {error}"));
    let stream = TcpStream::connect(server).await.map_err(away)?;
    stream.set_nodelay(true).map_err(away)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(of_hyper)?;
    drop(tokio::spawn(connection));
    Ok(sender)
}

async fn read(response: Response<Incoming>) -> Result<Reply, Error> {
    let status = response.status().as_u16();
    let timing = response.headers().get(KEY).and_then(|value| value.to_str().ok());
    let timing = timing.and_then(Timing::parse);
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| Error::away(format!("the frontend: {error}")))?;
    Ok(Reply { status, body: body.to_bytes(), timing })
}
