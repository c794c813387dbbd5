//! The keys between a client and a worker in one epoch (RT28).

use super::ClientSecret;
use crate::{End, KeyLife, Seal};

/// The link of a client and a worker in one epoch: a sealed session without a set-up, for all
/// packets between the two that do not go through the router.
///
/// Its half is made at the first need. After [`Link::close`] no more is made: whoever has forgotten
/// a link cannot know which numbers it has used.
#[derive(Debug)]
pub struct Link {
    /// What it is made of; `None` when it was made, or may not be any more.
    unmade: Option<ClientSecret>,
    made: Option<Box<Seal>>,
    worker: u16,
    end: End,
    life: KeyLife,
}

impl Link {
    /// Of the client with this secret and the worker with this number; number 0 is the router. The
    /// client is the end that sends requests.
    pub fn new(secret: &ClientSecret, worker: u16, end: End, life: KeyLife) -> Link {
        Link { unmade: Some(secret.clone()), made: None, worker, end, life }
    }

    /// This end's half. `None` if it was not needed before the link was closed: a packet for it is
    /// dropped.
    #[inline]
    pub fn half(&mut self) -> Option<&mut Seal> {
        if self.made.is_none() {
            self.make();
        }
        self.made.as_deref_mut()
    }

    #[cold]
    fn make(&mut self) {
        let Some(secret) = self.unmade.take() else { return };
        let session = secret.link(self.worker);
        let half = Seal::new(&session, self.end, self.worker.into(), self.life);
        self.made = Some(Box::new(half));
    }

    /// The epoch is not taken any more: what was made stays, for the pairs that are in it, and
    /// nothing else is made.
    pub fn close(&mut self) {
        self.unmade = None;
    }

    /// Whether the half was made.
    pub fn is_made(&self) -> bool {
        self.made.is_some()
    }
}
