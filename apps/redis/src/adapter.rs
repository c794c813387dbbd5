//! Serves clients that know only Redis' own protocol, on loopback.
//!
//! One thread serves all connections. What a connection makes this process keep is bounded: a
//! command and what was read at once, and the replies of the reads that run at once (`rounds`);
//! nothing more is read before these are written.

use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::generated::RedisClient;
use crate::resp::{Command, ProtocolError, Reader};
use crate::rounds::{Out, Runner};

/// What an adapter allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; further ones are told so and closed.
    pub connections_max: usize,
    /// How long a request may take.
    pub timeout: Duration,
    /// Whether reads go to the primary, too, and so see what was written.
    pub reads_on_primary: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        let timeout = Duration::from_secs(10);
        Limits { connections_max: 1024, timeout, reads_on_primary: false }
    }
}

/// A port for clients of Redis.
pub struct Adapter {
    listener: TcpListener,
    runner: Rc<Runner>,
    connections: Rc<Semaphore>,
}

/// What is read at once.
const READ_BYTES: usize = 16 << 10;
/// Commands that are run before replies are written.
const ROUND_COMMANDS: usize = 256;
/// After a failure to accept, for example because there are no descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);

impl Adapter {
    /// Listens on loopback; with port 0 the system chooses one.
    ///
    /// # Errors
    /// The address is not of loopback, as nothing is encrypted and nobody is asked who it is; or it
    /// cannot be had.
    pub async fn bind(
        address: SocketAddr,
        client: RedisClient,
        limits: Limits,
    ) -> io::Result<Adapter> {
        if !address.ip().is_loopback() {
            let why = "an adapter listens on loopback only: run one beside each client";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let Limits { connections_max, timeout, reads_on_primary } = limits;
        Ok(Adapter {
            listener: TcpListener::bind(address).await?,
            runner: Rc::new(Runner { client, timeout, reads_on_primary }),
            connections: Rc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS))),
        })
    }

    /// Where clients connect.
    ///
    /// # Errors
    /// The system's.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves clients until this is dropped, within a `LocalSet` of Tokio.
    pub async fn serve(self) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            };
            let (runner, connections) = (self.runner.clone(), self.connections.clone());
            tokio::task::spawn_local(async move {
                // A client that is gone needs no answer.
                let _ = match connections.try_acquire() {
                    Ok(_one) => serve_one(stream, &runner).await,
                    Err(_) => refuse(stream).await,
                };
            });
        }
    }
}

async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    Out::new(&mut stream).end(Some("ERR max number of clients reached")).await
}

async fn serve_one(mut stream: TcpStream, runner: &Runner) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut from, to) = stream.split();
    let (mut reader, mut out) = (Reader::default(), Out::new(to));
    let mut room = vec![0; READ_BYTES];
    loop {
        let count = from.read(&mut room).await?;
        if count == 0 {
            return Ok(());
        }
        reader.extend(&room[..count]);
        loop {
            let (commands, broken) = whole(&mut reader);
            let may_be_more = commands.len() == ROUND_COMMANDS;
            runner.run(commands, &mut out).await?;
            if out.has_quit() {
                return out.end(None).await;
            }
            if let Some(error) = broken {
                return out.end(Some(&format!("ERR Protocol error: {error}"))).await;
            }
            if !may_be_more {
                break;
            }
        }
    }
}

/// The commands that are there, and what is wrong behind them.
fn whole(reader: &mut Reader) -> (Vec<Command>, Option<ProtocolError>) {
    let mut commands = Vec::new();
    while commands.len() < ROUND_COMMANDS {
        match reader.read() {
            Ok(Some(command)) => commands.push(command),
            Ok(None) => break,
            Err(error) => return (commands, Some(error)),
        }
    }
    (commands, None)
}
