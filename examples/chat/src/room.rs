//! The service: who is in the room, and what the members are told.
//!
//! Each line goes into a queue per member, and from there into the member's stream, which accepts
//! no more than its reader allows (a few hundred kilobytes). So a member who does not read delays
//! nobody: when the queue is full, the member is dropped, and the call ends with
//! `RESOURCE_EXHAUSTED`.
//!
//! Invariants: nothing is awaited under the lock; a member is in the room exactly as long as its
//! handler lives, or until it is dropped for not reading.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use petasos::{Msg, Sender, Status, Streaming};
use tokio::sync::{mpsc, oneshot};

use crate::chat::{Coming, Heard, Room, Said};

/// How many lines a member may be behind, in addition to those in its stream.
const LINES_MAX: usize = 256;
const TEXT_BYTES_MAX: usize = 4096;

/// The room. Clones share it.
#[derive(Clone, Default)]
pub struct Hall {
    members: Arc<Mutex<BTreeMap<String, Member>>>,
}

/// The room's data about a member.
struct Member {
    lines: mpsc::Sender<Arc<Msg<Heard>>>,
    /// Dropped together with the member, which tells its handler that it was removed.
    _stays: oneshot::Sender<Infallible>,
}

/// A handler's place in the room, which is freed when this is dropped.
struct Seat {
    hall: Hall,
    name: String,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.hall.members().remove(&self.name).is_some() {
            self.hall.tell(&coming(&self.name, Coming::LEFT));
        }
    }
}

impl Hall {
    fn members(&self) -> MutexGuard<'_, BTreeMap<String, Member>> {
        self.members.lock().expect("nothing panics under the lock")
    }

    /// Adds a member, if nobody has the name.
    fn enter(&self, name: &str, member: Member) -> Result<(Seat, usize), Status> {
        if name.is_empty() {
            return Err(Status::invalid_argument("the metadata `name` says who joins"));
        }
        // A member that enters receives everything that follows, and nothing before.
        let mut members = self.members();
        if members.contains_key(name) {
            return Err(Status::already_exists(format!("`{name}` is here already")));
        }
        let others = members.len();
        members.insert(name.to_owned(), member);
        drop(members);
        self.tell(&coming(name, Coming::JOINED));
        Ok((Seat { hall: self.clone(), name: name.to_owned() }, others))
    }

    /// Tells all members except the one whom the line is about. Members whose queue is full are
    /// removed, and the others are told about that in turn.
    fn tell(&self, line: &Arc<Msg<Heard>>) {
        let mut members = self.members();
        let mut lines = vec![Arc::clone(line)];
        while let Some(line) = lines.pop() {
            let others = members.iter().filter(|(name, _)| *name != line.who());
            let is_full = |member: &Member| member.lines.try_send(Arc::clone(&line)).is_err();
            let full = others.filter(|(_, member)| is_full(member));
            let full: Vec<String> = full.map(|(name, _)| name.clone()).collect();
            for name in full {
                members.remove(&name);
                lines.push(coming(&name, Coming::DROPPED));
            }
        }
    }
}

fn coming(who: &str, how: Coming) -> Arc<Msg<Heard>> {
    let mut line = Heard::new();
    line.set_who(who).set_coming(how);
    Arc::new(line)
}

/// Passes on what a member says, until it closes its half.
async fn hear(seat: &Seat, mut said: Streaming<Said>) -> Result<(), Status> {
    while let Some(words) = said.message().await? {
        if words.text().len() > TEXT_BYTES_MAX {
            return Err(Status::invalid_argument("a line has at most 4096 bytes"));
        }
        let mut line = Heard::new();
        line.set_who(&seat.name).set_text(words.text());
        seat.hall.tell(&Arc::new(line));
    }
    Ok(())
}

/// Sends a member what the others say.
async fn speak(
    mut lines: mpsc::Receiver<Arc<Msg<Heard>>>,
    mut out: Sender<Heard>,
) -> Result<(), Status> {
    while let Some(line) = lines.recv().await {
        // Waits while the member does not read.
        out.send(Msg::clone(&line)).await?;
    }
    Ok(())
}

impl Room for Hall {
    async fn join(&self, said: Streaming<Said>, mut out: Sender<Heard>) -> Result<(), Status> {
        let name = said.metadata().get("name").unwrap_or_default();
        let (tell, lines) = mpsc::channel(LINES_MAX);
        let (stays, dropped) = oneshot::channel();
        let (seat, others) = self.enter(name, Member { lines: tell, _stays: stays })?;
        out.metadata_mut().append("others", &others.to_string()).expect("digits are a value");
        out.send_metadata();
        tokio::select! {
            biased;
            _ = dropped => {
                let what = format!("{LINES_MAX} lines were said that `{}` did not read", seat.name);
                Err(Status::resource_exhausted(what))
            }
            ended = speak(lines, out) => ended,
            ended = hear(&seat, said) => ended,
        }
    }
}
