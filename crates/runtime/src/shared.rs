//! What other threads touch of a loop: its commands.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use core::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_call::Status;
use petasos_endpoint::{Notifier, ServerSessionId};
use petasos_rpc::peer::Peer;
use petasos_rpc::settings::ChannelInfo;

use super::head::NewCall;
use super::keys::CallKey;
use super::remote::RemoteCompletion;
use super::slow::SlowCounts;
use super::streams::{RemoteStream, Side, StreamKey};
use super::task::Task;

/// What another thread asks of a loop.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields' names say it")]
pub enum Command {
    /// To poll a task.
    Wake(Task),
    /// To forget a call whose future was dropped there.
    GiveUp(CallKey),
    /// Nothing more is done there with a direction of a stream.
    LeaveStream { key: StreamKey, side: Side },
    /// A direction of a stream that is used there has something for the loop.
    Stream(Arc<RemoteStream>),
    /// To begin a call.
    Begin(Box<RemoteCall>),
    /// To leave the outcome of a call where its future has gone.
    Move { call: CallKey, remote: Arc<RemoteCompletion> },
    /// To add a channel under its number.
    Open { channel: u32, info: Arc<ChannelInfo> },
    /// To connect a channel, and to tell when that has succeeded or failed.
    Connect { channel: u32, timeout: Duration, remote: Arc<RemoteCompletion> },
    /// Nobody has the channel any more.
    Close { channel: u32 },
    /// To tell somebody when this time has passed.
    Timer { timeout: Duration, remote: Arc<RemoteCompletion> },
    /// A channel's name has been looked up.
    Resolved { channel: u32, info: Arc<ChannelInfo>, found: io::Result<Vec<SocketAddr>> },
    /// To end, and to give handlers this time for it.
    Stop { grace: Duration },
}

/// A call that begins on another thread.
#[derive(Debug)]
pub struct RemoteCall {
    /// Without a deadline yet.
    pub call: NewCall,
    /// The time that it has, if there is a limit.
    pub timeout: Option<Duration>,
    /// Where its outcome goes.
    pub remote: Arc<RemoteCompletion>,
}

impl Command {
    /// Answers a command that its loop will never read.
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

/// What calls of a loop that has ended fail with.
#[cold]
pub(crate) fn loop_gone() -> Status {
    Status::unavailable("the channel's loop has ended")
}

/// What other threads touch of a loop.
pub struct Shared {
    /// The loop's number, which no other loop of the process has.
    pub loop_id: u32,
    has_commands: AtomicBool,
    /// `None` once the loop has ended.
    mailbox: Mutex<Option<Mailbox>>,
    channels: Mutex<Numbers>,
    /// Who has the sessions that requests come in, by index, with the session's generation.
    clients: Mutex<Vec<Option<(ServerSessionId, Peer)>>>,
    /// Turns in which tasks took long.
    pub slow: SlowCounts,
}

/// How a loop that has not ended is reached.
#[derive(Default)]
struct Mailbox {
    /// Set before anybody else knows of the loop. It owns a descriptor, which goes with the loop.
    notifier: Option<Notifier>,
    commands: Vec<Command>,
}

/// The numbers of a loop's channels.
#[derive(Default)]
struct Numbers {
    next: u32,
    free: Vec<u32>,
}

impl Shared {
    pub(crate) fn new(loop_id: u32) -> Shared {
        Shared {
            loop_id,
            has_commands: AtomicBool::new(false),
            mailbox: Mutex::new(Some(Mailbox::default())),
            channels: Mutex::default(),
            clients: Mutex::default(),
            slow: SlowCounts::default(),
        }
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Option<(ServerSessionId, Peer)>>> {
        self.clients.lock().expect("nothing panics under the lock")
    }

    /// Notes who has a session.
    pub(crate) fn meet(&self, session: ServerSessionId, peer: Option<Peer>) {
        let (mut clients, at) = (self.clients(), session.index() as usize);
        if clients.len() <= at {
            clients.resize_with(at + 1, || None);
        }
        clients[at] = peer.map(|peer| (session, peer));
    }

    /// Who has a session.
    pub(crate) fn client(&self, session: ServerSessionId) -> Option<Peer> {
        let clients = self.clients();
        let (of, peer) = clients.get(session.index() as usize)?.as_ref()?;
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

    /// Posts a command. One that the loop will never read is declined.
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

    /// Whether another thread has asked for something.
    #[inline]
    pub fn has_commands(&self) -> bool {
        self.has_commands.load(Ordering::Acquire)
    }

    pub(crate) fn take_commands(&self) -> Vec<Command> {
        // Cleared before the commands are taken: one that is posted in between is seen again.
        self.has_commands.store(false, Ordering::Relaxed);
        let mut mailbox = self.mailbox();
        mailbox.as_mut().map(|mailbox| core::mem::take(&mut mailbox.commands)).unwrap_or_default()
    }

    /// The loop has ended: commands that it has not read, and later ones, are declined.
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

    /// The number can be given to another channel: the loop knows of none with it.
    pub(crate) fn give_channel_number(&self, number: u32) {
        self.channels.lock().expect("nothing panics under the lock").free.push(number);
    }
}
