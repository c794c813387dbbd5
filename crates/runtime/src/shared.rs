//! The part of a loop that other threads use: its commands.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use core::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_call::Status;
use petasos_endpoint::{AtRouter, Notifier, ServerSessionId};
use petasos_managed::ProgramBuffers;
use petasos_rpc::peer::Peer;
use petasos_rpc::settings::ChannelInfo;

use super::head::NewCall;
use super::keys::CallKey;
use super::remote::RemoteCompletion;
use super::slow::SlowCounts;
use super::streams::{RemoteStream, Side, StreamKey};
use super::task::Task;

/// A command from another thread to a loop.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields' names say it")]
pub enum Command {
    /// Poll a task.
    Wake(Task),
    /// Forget a call whose future was dropped on that thread.
    GiveUp(CallKey),
    /// A direction of a stream is no longer used on that thread.
    LeaveStream { key: StreamKey, side: Side },
    /// A direction of a stream that is used on that thread has something for the loop.
    Stream(Arc<RemoteStream>),
    /// Begin a call.
    Begin(Box<RemoteCall>),
    /// Put the outcome of a call into this cell, because its future has moved to another thread.
    Move { call: CallKey, remote: Arc<RemoteCompletion> },
    /// Add a channel with this number.
    Open { channel: u32, info: Arc<ChannelInfo> },
    /// Connect a channel, and report success or failure.
    Connect { channel: u32, timeout: Duration, remote: Arc<RemoteCompletion> },
    /// The last handle to the channel was dropped.
    Close { channel: u32 },
    /// Complete `remote` when this time has passed.
    Timer { timeout: Duration, remote: Arc<RemoteCompletion> },
    /// A channel's name has been looked up.
    Resolved { channel: u32, info: Arc<ChannelInfo>, found: io::Result<Vec<SocketAddr>> },
    /// Say what the loop has at the routers of the groups that it has joined.
    Routers(Sender<Vec<AtRouter>>),
    /// A joined group, by the order of joining, has other routers: names were looked up again.
    Rename { group: usize, routers: Vec<SocketAddr> },
    /// Shut down, with this grace period for handlers.
    Stop { grace: Duration },
}

/// A call that begins on another thread.
#[derive(Debug)]
pub struct RemoteCall {
    /// The call; its deadline is not set yet.
    pub call: NewCall,
    /// Its timeout, if there is one.
    pub timeout: Option<Duration>,
    /// The cell for its outcome.
    pub remote: Arc<RemoteCompletion>,
}

impl Command {
    /// Completes a command that its loop will never read.
    pub(crate) fn decline(self) {
        let remote = match self {
            Command::Begin(call) => call.remote,
            Command::Move { remote, .. } | Command::Connect { remote, .. } => remote,
            Command::Timer { remote, .. } => remote,
            Command::Stream(remote) => return remote.end(),
            _ => return,
        };
        remote.finish(Err(loop_gone()));
    }
}

/// The status of calls whose loop has ended.
#[cold]
pub(crate) fn loop_gone() -> Status {
    Status::unavailable("the channel's loop has ended")
}

/// The part of a loop that other threads use.
pub struct Shared {
    /// The loop's number, which no other loop of the process has.
    pub loop_id: u32,
    has_commands: AtomicBool,
    /// `None` once the loop has ended.
    mailbox: Mutex<Option<Mailbox>>,
    channels: Mutex<Numbers>,
    clients: Mutex<Clients>,
    /// Of a loop whose calls go through the managed service.
    buffers: OnceLock<ProgramBuffers>,
    /// Counts of turns in which tasks took too long.
    pub slow: SlowCounts,
}

/// The clients of sessions, by the sessions' places.
#[derive(Default)]
struct Clients {
    of_sessions: Vec<Option<(ServerSessionId, Peer)>>,
    of_groups: Vec<Option<(ServerSessionId, Peer)>>,
}

/// How a loop that has not ended receives commands.
#[derive(Default)]
struct Mailbox {
    /// Set before other code knows of the loop. It owns a descriptor, which is closed with the
    /// loop.
    notifier: Option<Notifier>,
    commands: Vec<Command>,
}

/// The numbers of a loop's channels.
#[derive(Default)]
struct Numbers {
    next: u32,
    free: Vec<u32>,
}

impl Clients {
    /// The table for a session, and its place there.
    fn of(
        &mut self,
        session: ServerSessionId,
    ) -> (&mut Vec<Option<(ServerSessionId, Peer)>>, usize) {
        match session.is_group() {
            true => (&mut self.of_groups, session.group_place() as usize),
            false => (&mut self.of_sessions, session.place()),
        }
    }
}

impl Shared {
    pub(crate) fn new(loop_id: u32) -> Shared {
        Shared {
            loop_id,
            has_commands: AtomicBool::new(false),
            mailbox: Mutex::new(Some(Mailbox::default())),
            channels: Mutex::default(),
            clients: Mutex::default(),
            buffers: OnceLock::new(),
            slow: SlowCounts::default(),
        }
    }

    /// Where programs take memory from that the managed service reads. `None` if there is no
    /// service.
    pub fn buffers(&self) -> Option<&ProgramBuffers> {
        self.buffers.get()
    }

    pub(crate) fn set_buffers(&self, buffers: ProgramBuffers) {
        assert!(self.buffers.set(buffers).is_ok(), "a loop has one carrier");
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().expect("nothing panics under the lock")
    }

    /// Notes the peer of a session.
    pub(crate) fn meet(&self, session: ServerSessionId, peer: Option<Peer>) {
        let mut clients = self.clients();
        let (clients, at) = clients.of(session);
        if clients.len() <= at {
            clients.resize_with(at + 1, || None);
        }
        clients[at] = peer.map(|peer| (session, peer));
    }

    /// Who has a session.
    pub(crate) fn client(&self, session: ServerSessionId) -> Option<Peer> {
        let mut clients = self.clients();
        let (clients, at) = clients.of(session);
        let (of, peer) = clients.get(at)?.as_ref()?;
        (*of == session).then(|| peer.clone())
    }

    pub(crate) fn set_notifier(&self, notifier: Notifier) {
        let mut mailbox = self.mailbox();
        let mailbox = mailbox.as_mut().expect("the loop has not ended");
        assert!(mailbox.notifier.replace(notifier).is_none(), "a loop has one notifier");
    }

    fn mailbox(&self) -> MutexGuard<'_, Option<Mailbox>> {
        self.mailbox.lock().expect("nothing panics under the lock")
    }

    /// Sends a command. A command that the loop will never read is declined.
    pub fn send(&self, command: Command) {
        let posted = match &mut *self.mailbox() {
            Some(mailbox) => {
                mailbox.commands.push(command);
                Ok(mailbox.notifier.clone())
            }
            None => Err(command),
        };
        let notifier = match posted {
            Ok(notifier) => notifier,
            Err(command) => return command.decline(),
        };
        // Release: pairs with the acquire in `has_commands`, though the lock alone would do.
        self.has_commands.store(true, Ordering::Release);
        if let Some(notifier) = notifier {
            notifier.notify();
        }
    }

    /// Whether another thread has sent a command.
    #[inline]
    pub fn has_commands(&self) -> bool {
        self.has_commands.load(Ordering::Acquire)
    }

    pub(crate) fn take_commands(&self) -> Vec<Command> {
        // Cleared before the commands are taken, so that a command that is sent meanwhile is seen
        // later.
        self.has_commands.store(false, Ordering::Relaxed);
        let mut mailbox = self.mailbox();
        mailbox.as_mut().map(|mailbox| core::mem::take(&mut mailbox.commands)).unwrap_or_default()
    }

    /// Says that the loop has ended. Commands that it has not read, and later ones, are declined.
    pub(crate) fn close(&self) {
        let clients = core::mem::take(&mut *self.clients());
        drop(clients);
        let mailbox = self.mailbox().take();
        mailbox.unwrap_or_default().commands.into_iter().for_each(Command::decline);
    }

    /// Whether the loop has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.mailbox().is_none()
    }

    /// A number for a channel.
    pub fn take_channel_number(&self) -> u32 {
        let mut numbers = self.channels.lock().expect("nothing panics under the lock");
        numbers.free.pop().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next - 1
        })
    }

    /// Frees a channel's number. The loop must not know a channel with it.
    pub(crate) fn give_channel_number(&self, number: u32) {
        self.channels.lock().expect("nothing panics under the lock").free.push(number);
    }
}
