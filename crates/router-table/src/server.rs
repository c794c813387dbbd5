//! The thread's start and end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use petasos_base::Clock;
use petasos_endpoint::{
    AttachError, Endpoint, EndpointConfig, Mailbox, Node, PoolConfig, SessionConfig,
};
use petasos_netio::PacketIo;
use petasos_netio_udp::UdpIo;
use petasos_schema::Limits;

use crate::judging::Judging;
use crate::table::Table;
use crate::thread::{BIND, BindThread, State, bind};
use crate::verdict::{Command, Judge, Verdicts};

/// What an answer has besides its schema.
const ANSWER_BYTES: usize = 1024;

/// Why there is no thread. The system's fault, unless the node has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindServerError {
    /// The endpoint cannot be attached to the node.
    #[error("no endpoint for binds: {0}")]
    Attach(#[from] AttachError),
    /// The system has no descriptor or thread left.
    #[error("the system gives no descriptor or thread: {0}")]
    System(#[from] io::Error),
}

/// Answers binds from a table at a node, and judges workers: see the crate's documentation.
/// Dropping it ends its thread.
pub struct BindServer {
    judge: Judge,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl BindServer {
    /// Starts it as an endpoint of `node`, whose packets come to `io`. Clients reach it by an
    /// ordinary session with the node, which should have no other endpoint that serves.
    ///
    /// # Errors
    /// See [`BindServerError`].
    pub fn start(node: &Node, io: UdpIo, table: Table) -> Result<BindServer, BindServerError> {
        let address = io.local_address();
        let commands = Arc::new(Mailbox::new()?);
        let verdicts = Arc::new(Verdicts::new(node.router_waker()));
        let judge = Judge { commands: commands.clone(), verdicts: verdicts.clone() };
        let (report, begun) = mpsc::channel();
        let node = node.clone();
        // An endpoint belongs to the thread that it was made on.
        let run = move || {
            let made = endpoint(&node, io, table, (&commands, &verdicts));
            drop(node);
            match made {
                Ok(endpoint) => {
                    // Whoever starts the thread waits for this.
                    let _ = report.send(Ok(()));
                    BindThread { endpoint, commands, verdicts }.run();
                }
                Err(error) => drop(report.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new().name("petasos-binds".into()).spawn(run)?;
        begun.recv().expect("the thread says how it begins")?;
        Ok(BindServer { judge, thread: Some(thread), address })
    }

    /// Asks it about workers.
    pub fn judge(&self) -> Judge {
        self.judge.clone()
    }

    /// Whether its thread runs.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Where packets of binds come.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn endpoint(
    node: &Node,
    io: UdpIo,
    table: Table,
    (commands, verdicts): (&Arc<Mailbox<Command>>, &Arc<Verdicts>),
) -> Result<Endpoint<State>, BindServerError> {
    let (commands, verdicts) = (commands.clone(), verdicts.clone());
    let state = State { table, judging: Judging::default(), commands, verdicts };
    let commands = &state.commands.clone();
    let mut endpoint = Endpoint::new(config(), io, Clock::system(), state);
    endpoint.register(BIND, bind);
    endpoint.attach(node)?;
    // The endpoint's loop sleeps by itself: this wakes it.
    commands.sleep_always();
    endpoint.context().watch(commands.as_fd().try_clone_to_owned()?)?;
    Ok(endpoint)
}

/// Sessions for a few short requests, whose answers have schemas.
fn config() -> EndpointConfig {
    let message_bytes_max = (Limits::default().bytes_max + ANSWER_BYTES) as u32;
    let session = SessionConfig { slots: 2, message_bytes_max, ..SessionConfig::default() };
    EndpointConfig {
        session,
        pool: PoolConfig { lent_bytes_max: 1 << 30, ..PoolConfig::default() },
        sessions_per_peer_max: 4096,
        ..EndpointConfig::default()
    }
}

impl core::fmt::Debug for BindServer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BindServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for BindServer {
    fn drop(&mut self) {
        // A thread that is gone need not be told.
        let _ = self.judge.commands.post(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was reported; a drop must not panic.
            let _ = thread.join();
        }
    }
}
