//! Snapshots of a member, on a thread of their own: written, sent in pieces, received, and read
//! (QR21). Files are slow, and the member's loop does not wait for them.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};

use petasos_journal::{
    Error, Files, Receipt, SnapshotHead, SnapshotId, SnapshotReader, SnapshotWriter, snapshot,
};
use petasos_raft::{MemberId, Membership, Position};

use crate::machine::StateMachine;
use crate::state::{Loading, Replicated};

/// Work that waits for the thread at most.
const JOBS_MAX: usize = 32;
/// Snapshots that are kept: the newest, and one that may be on its way.
const KEPT: usize = 2;
/// Bytes of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// What the thread is to do.
pub(super) enum Job {
    /// A snapshot begins; its parts follow, in order.
    Begin(SnapshotHead),
    Part(Vec<u8>),
    Finish,
    /// A piece of a snapshot for a member.
    Read {
        to: MemberId,
        index: u64,
        at: u64,
    },
    /// A piece has come. The token is its sender's.
    Receive {
        token: u64,
        id: SnapshotId,
        at: u64,
        bytes: Vec<u8>,
    },
}

/// What it has done.
pub(super) enum Kept<M> {
    /// A snapshot is durable.
    Saved(u64),
    /// It is not, as there is no space, or a piece of one is damaged: there will be another one.
    NotSaved,
    /// A piece to send.
    Piece { to: MemberId, id: SnapshotId, at: u64, bytes: Vec<u8> },
    /// The snapshot to send cannot be read.
    NoPiece { to: MemberId },
    /// Where the next piece begins, for who has sent one.
    Received { token: u64, next: u64 },
    /// A snapshot has come, and is durable here.
    Loaded { token: u64, position: Position, membership: Membership, state: Box<Replicated<M>> },
    /// A file has failed: the member ends.
    Failed(Error),
}

/// The thread.
pub(super) struct Keeper<M> {
    jobs: Option<SyncSender<Job>>,
    kept: Receiver<Kept<M>>,
    thread: Option<JoinHandle<()>>,
}

impl<M: StateMachine + Send + 'static> Keeper<M> {
    /// Starts it. `machine` makes an empty machine; `wake` is called when there is something to
    /// hear of.
    pub fn start<F: Files>(
        files: F,
        group: u128,
        machine: impl Fn() -> M + Send + 'static,
        wake: impl Fn() + Send + 'static,
    ) -> std::io::Result<Keeper<M>> {
        let (jobs, taken) = sync_channel(JOBS_MAX);
        let (tell, kept) = channel();
        let mut work = Work { files, group, machine, tell, wake, writer: None, receipt: None };
        let run = move || taken.into_iter().for_each(|job| work.job(job));
        let thread = thread::Builder::new().name("snapshots".to_owned()).spawn(run)?;
        Ok(Keeper { jobs: Some(jobs), kept, thread: Some(thread) })
    }

    /// Gives the thread something to do. If it has too much, gives it back.
    pub fn give(&self, job: Job) -> Result<(), Job> {
        let Some(jobs) = &self.jobs else { return Err(job) };
        jobs.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }

    pub fn next(&self) -> Option<Kept<M>> {
        self.kept.try_recv().ok()
    }
}

impl<M> Drop for Keeper<M> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // What it has not finished is begun anew at the next start.
            let _ = thread.join();
        }
    }
}

struct Work<M, F: Files, N, W> {
    files: F,
    group: u128,
    machine: N,
    tell: Sender<Kept<M>>,
    wake: W,
    writer: Option<SnapshotWriter<F>>,
    receipt: Option<(SnapshotId, Receipt<F>)>,
}

impl<M: StateMachine, F: Files, N: Fn() -> M, W: Fn()> Work<M, F, N, W> {
    fn tell(&self, kept: Kept<M>) {
        // Who does not listen any more has ended.
        let _ = self.tell.send(kept);
        (self.wake)();
    }

    fn job(&mut self, job: Job) {
        let result = match job {
            Job::Begin(head) => self.begin(head),
            Job::Part(part) => self.write(&part),
            Job::Finish => self.finish(),
            Job::Read { to, index, at } => {
                let kept = self.piece(to, index, at).unwrap_or(Kept::NoPiece { to });
                self.tell(kept);
                Ok(())
            }
            Job::Receive { token, id, at, bytes } => self.receive(token, id, at, &bytes),
        };
        match result {
            // There is room for more.
            Ok(()) => (self.wake)(),
            Err(error @ Error::Failed(_)) => self.tell(Kept::Failed(error)),
            Err(_) => self.tell(Kept::NotSaved),
        }
    }

    fn begin(&mut self, head: SnapshotHead) -> Result<(), Error> {
        // One that has not ended is given up, so that there is room.
        self.writer = None;
        self.writer = Some(SnapshotWriter::begin(self.files.clone(), head)?);
        Ok(())
    }

    /// After an error, further parts are dropped.
    fn write(&mut self, part: &[u8]) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let result = writer.write(part);
        if result.is_err() {
            self.writer = None;
        }
        result
    }

    fn finish(&mut self) -> Result<(), Error> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let id = writer.finish()?;
        self.tell(Kept::Saved(id.index));
        snapshot::remove_old(&self.files, KEPT)
    }

    fn piece(&self, to: MemberId, index: u64, at: u64) -> Result<Kept<M>, Error> {
        let reader = SnapshotReader::open(&self.files, self.group, index)?;
        let (id, bytes) = (reader.id()?, reader.piece(at, PIECE_BYTES)?);
        Ok(Kept::Piece { to, id, at, bytes })
    }

    fn receive(&mut self, token: u64, id: SnapshotId, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut receipt = match self.receipt.take() {
            Some((of, receipt)) if of == id => receipt,
            _ => Receipt::begin(self.files.clone(), self.group, id)?,
        };
        match receipt.piece(at, bytes) {
            // Whoever sent it goes on from what there is.
            Ok(()) | Err(Error::BadPiece { .. } | Error::Full) => {}
            Err(error) => return Err(error),
        }
        if !receipt.is_whole() {
            let next = receipt.received();
            self.receipt = Some((id, receipt));
            self.tell(Kept::Received { token, next });
            return Ok(());
        }
        receipt.finish()?;
        let loaded = self.load(token, id.index)?;
        self.tell(loaded);
        snapshot::remove_old(&self.files, KEPT)
    }

    fn load(&self, token: u64, index: u64) -> Result<Kept<M>, Error> {
        let mut reader = SnapshotReader::open(&self.files, self.group, index)?;
        let head = reader.head().clone();
        let unreadable = || Error::BadPiece { what: "its state cannot be read" };
        let state = read_state(&mut reader, (self.machine)())?;
        let membership = Membership::decode(&head.configuration).ok_or_else(unreadable)?;
        let position = Position { term: head.term, index: head.index };
        Ok(Kept::Loaded { token, position, membership, state: Box::new(state) })
    }
}

/// Reads a snapshot's state into an empty machine.
///
/// # Errors
/// Damage, errors of files, and [`Error::BadPiece`] if it is no state of this machine.
pub fn read_state<M: StateMachine, F: Files>(
    reader: &mut SnapshotReader<F>,
    machine: M,
) -> Result<Replicated<M>, Error> {
    let unreadable = |_| Error::BadPiece { what: "its state cannot be read" };
    let index = reader.head().index;
    let (mut loading, mut part) = (Loading::new(machine), Vec::new());
    while reader.next(&mut part)? {
        loading.part(&part).map_err(unreadable)?;
    }
    loading.finish(index).map_err(unreadable)
}
