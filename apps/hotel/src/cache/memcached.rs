//! memcached as a cache.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::Cache;
use super::protocol::{self, Broken, Reply, VALUE_BYTES_MAX};
use crate::error::Error;
use crate::pool::{CONNECTIONS_MAX, Held, Pool};

/// What one operation may take, connecting included.
const LIMIT: Duration = Duration::from_millis(500);
/// What is read at a time.
const READ_BYTES: usize = 16 << 10;
/// The most keys of one command; more are asked for in several.
const KEYS_MAX: usize = 256;
/// The most bytes of values that one command may get.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Where memcached is: `unix:PATH`, or `ADDRESS:PORT`.
#[derive(Clone, Debug)]
pub enum Place {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl FromStr for Place {
    type Err = String;
    fn from_str(text: &str) -> Result<Place, String> {
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => Ok(Place::Unix(path.into())),
            _ => match text.parse() {
                Ok(address) => Ok(Place::Tcp(address)),
                Err(_) => Err("neither unix:PATH nor ADDRESS:PORT".to_owned()),
            },
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
            Place::Tcp(address) => write!(f, "{address}"),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection, between two commands.
struct Connection {
    stream: Box<dyn Stream>,
    /// What was received and not read yet: empty between two commands.
    received: Vec<u8>,
}

/// memcached at a place. Connections are made when they are needed.
pub struct Memcached {
    place: Place,
    pool: Pool<Connection>,
}

impl Memcached {
    /// The server at a place.
    pub fn new(place: Place) -> Memcached {
        Memcached { place, pool: Pool::new(CONNECTIONS_MAX, |_| true) }
    }

    /// Runs one command on a connection. An idle connection may have been closed by the server
    /// meanwhile, which shows only now: so a failure on it is none before a new one fails, too.
    async fn command(&self, command: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let whole = async {
            loop {
                let mut is_new = false;
                let connect = async {
                    is_new = true;
                    connect(&self.place).await
                };
                let mut connection: Held<'_, Connection> = self.pool.take(connect).await?;
                match connection.command(command).await {
                    Ok(values) => {
                        connection.give_back();
                        return Ok(values);
                    }
                    Err(error) if is_new => return Err(error),
                    Err(_) => {}
                }
            }
        };
        match timeout(LIMIT, whole).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::late("memcached", LIMIT)),
        }
    }
}

async fn connect(place: &Place) -> Result<Connection, Error> {
    let stream: Result<Box<dyn Stream>, std::io::Error> = match place {
        Place::Unix(path) => UnixStream::connect(path).await.map(|stream| Box::new(stream) as _),
        Place::Tcp(address) => TcpStream::connect(address).await.and_then(|stream| {
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as _)
        }),
    };
    match stream {
        Ok(stream) => Ok(Connection { stream, received: Vec::new() }),
        Err(error) => Err(Error::away(format!("memcached at {place}: {error}"))),
    }
}

fn of_io(error: std::io::Error) -> Error {
    Error::away(format!("memcached: {error}"))
}

impl Connection {
    async fn command(&mut self, command: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Error> {
        self.stream.write_all(command).await.map_err(of_io)?;
        let (mut values, mut bytes) = (Vec::new(), 0);
        loop {
            match self.reply().await? {
                Reply::Value { key, value } => {
                    bytes += value.len();
                    if values.len() == KEYS_MAX || bytes > ANSWER_BYTES_MAX {
                        return Err(Error::away("memcached: too much is answered"));
                    }
                    values.push((key, value));
                }
                Reply::End | Reply::Done => break,
                Reply::Failed(why) => return Err(Error::away(format!("memcached: {why}"))),
            }
        }
        match self.received.is_empty() {
            true => Ok(values),
            false => Err(Error::away("memcached: more than was asked for")),
        }
    }

    async fn reply(&mut self) -> Result<Reply, Error> {
        loop {
            match protocol::reply(&self.received) {
                Ok(Some((reply, used))) => {
                    self.received.drain(..used);
                    return Ok(reply);
                }
                Ok(None) => {}
                Err(Broken) => return Err(Error::away("memcached: no answer of memcached's")),
            }
            // The protocol's bounds refuse what is longer before this much has come.
            debug_assert!(self.received.len() < VALUE_BYTES_MAX + 2 * READ_BYTES);
            self.received.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.received).await.map_err(of_io)? == 0 {
                return Err(Error::away("memcached has closed the connection"));
            }
        }
    }
}

fn checked(key: &str) -> Result<&str, Error> {
    match protocol::is_key(key) {
        true => Ok(key),
        false => Err(Error::invalid(format!("`{}` is no key", key.escape_debug()))),
    }
}

impl Cache for Memcached {
    async fn get(&self, keys: &[String]) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let mut values = Vec::new();
        for keys in keys.chunks(KEYS_MAX) {
            let keys = keys.iter().map(|key| checked(key)).collect::<Result<Vec<_>, _>>()?;
            values.extend(self.command(&protocol::get(keys)).await?);
        }
        Ok(values)
    }

    async fn set(&self, key: &str, value: &[u8], expiry: Option<Duration>) -> Result<(), Error> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::invalid("the value is too long for memcached"));
        }
        // At least a second: 0 means for ever.
        let expiry_s = expiry.map_or(0, |expiry| expiry.as_secs().clamp(1, 1 << 20) as u32);
        let command = protocol::set(checked(key)?, value, expiry_s);
        self.command(&command).await.map(drop)
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        self.command(&protocol::delete(checked(key)?)).await.map(drop)
    }
}
