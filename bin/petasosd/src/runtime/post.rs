//! Letters between the runtimes of the service.
//!
//! Each runtime has a box, into which all others put letters. A letter is never lost, and those of
//! one runtime to another keep their order. How many there are at a time is bounded by the calls
//! that count as their callers' ([`Crossing`](petasos_service::Crossing)).

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use petasos_service::{HubId, Letter};

use super::bell::Bell;

/// The boxes of all runtimes.
#[derive(Default)]
pub struct Boxes(Mutex<Vec<Option<Mailbox>>>);

/// Where letters to a runtime go.
#[derive(Clone)]
struct Mailbox {
    letters: Sender<Letter>,
    bell: Arc<Bell>,
}

/// A runtime's box, and its way to those of others.
pub struct Post {
    inbox: Receiver<Letter>,
    boxes: Arc<Boxes>,
    /// By hub: the boxes that it has used.
    known: Vec<Option<Mailbox>>,
    /// Those that are to be woken.
    sent_to: Vec<HubId>,
}

impl Boxes {
    /// The box of another runtime.
    pub fn open(self: &Arc<Boxes>, hub: HubId, bell: &Arc<Bell>) -> Post {
        let (letters, inbox) = channel();
        let index = hub.0 as usize;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() <= index {
            all.resize_with(index + 1, || None);
        }
        all[index] = Some(Mailbox { letters, bell: bell.clone() });
        Post { inbox, boxes: self.clone(), known: Vec::new(), sent_to: Vec::new() }
    }

    fn find(&self, hub: HubId) -> Option<Mailbox> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(hub.0 as usize).cloned().flatten()
    }
}

impl Post {
    /// The next letter that has come.
    pub fn next(&self) -> Option<Letter> {
        self.inbox.try_recv().ok()
    }

    /// Sends a letter. [`Post::ring_all`] is to follow.
    pub fn send(&mut self, to: HubId, letter: Letter) {
        let mailbox = self.mailbox(to);
        // Boxes are there as long as the process is, but for the moment in which it ends.
        let _ = mailbox.letters.send(letter);
        if !self.sent_to.contains(&to) {
            self.sent_to.push(to);
        }
    }

    /// Wakes those to whom letters were sent.
    pub fn ring_all(&mut self) {
        while let Some(hub) = self.sent_to.pop() {
            self.ring(hub);
        }
    }

    /// The boxes of all.
    pub fn boxes(&self) -> &Arc<Boxes> {
        &self.boxes
    }

    /// Wakes a runtime.
    pub fn ring(&mut self, hub: HubId) {
        self.mailbox(hub).bell.ring();
    }

    fn mailbox(&mut self, hub: HubId) -> &Mailbox {
        let index = hub.0 as usize;
        if self.known.len() <= index {
            self.known.resize_with(index + 1, || None);
        }
        let boxes = &self.boxes;
        self.known[index].get_or_insert_with(|| boxes.find(hub).expect("each hub has a box"))
    }
}
