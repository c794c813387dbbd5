//! Many requests at once, from any threads, through one loop.

use std::io;

use petasos_endpoint::{Endpoint, Notifier};

use super::ask::Ask;
use super::asker::{Asker, end_turn, run};
use super::inbox::Inbox;

/// Takes requests from any thread to a loop that asks a group ([`PipelineLoop`]). Copies are of the
/// same loop.
///
/// Its users bound how many requests wait. Those that the loop has not ended when it ends are
/// dropped, with what was to be told.
#[derive(Clone)]
pub struct Pipeline {
    inbox: Inbox,
    notifier: Notifier,
}

impl Pipeline {
    /// Asks.
    pub fn ask(&self, ask: Ask) {
        if self.inbox.leave(ask) {
            self.notifier.notify();
        }
    }

    /// Has the loop look whether it is over.
    pub fn wake(&self) {
        self.notifier.notify();
    }
}

/// The loop that asks a group for a [`Pipeline`]: it belongs to one thread.
pub struct PipelineLoop(Endpoint<Asker>);

impl PipelineLoop {
    /// A loop on an endpoint of a node, which has to stay, and the way to it.
    ///
    /// # Errors
    /// The system's, if it has no descriptor for the loop's mailbox.
    pub fn new(mut endpoint: Endpoint<Asker>) -> io::Result<(PipelineLoop, Pipeline)> {
        endpoint.on_turn(end_turn);
        let notifier = endpoint.notifier()?;
        let inbox = endpoint.state().inbox();
        Ok((PipelineLoop(endpoint), Pipeline { inbox, notifier }))
    }

    /// Asks until `is_over`, which is looked at each turn.
    pub fn run(&mut self, mut is_over: impl FnMut() -> bool) {
        run(&mut self.0, |_, _| is_over());
    }
}
