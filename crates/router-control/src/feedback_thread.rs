//! The thread that hears feedback beside a split plane.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::{Clock, Time};
use petasos_endpoint::Mailbox;
use petasos_netio_udp::UdpIo;
use petasos_router::WorkerId;
use petasos_router_plane::{FeedbackLoop, MemberJoined};

use crate::idle::{Idle, sleep};

/// From the plane's thread.
pub(crate) enum FeedbackCommand {
    Join(MemberJoined, SocketAddr),
    End(WorkerId),
    Stop,
}

pub(crate) struct FeedbackThread<W> {
    pub(crate) heard: FeedbackLoop,
    pub(crate) io: UdpIo,
    pub(crate) commands: Arc<Mailbox<FeedbackCommand>>,
    /// Wakes the plane's thread, for what it waits for.
    pub(crate) wake: W,
    pub(crate) spin: Duration,
}

impl<W: Fn()> FeedbackThread<W> {
    pub(crate) fn run(mut self) {
        let clock = Clock::system();
        let (mut commands, mut idle) = (VecDeque::new(), Idle::new(self.spin));
        loop {
            let now = clock.now();
            if self.commands.has_mail() {
                self.commands.take(&mut commands);
            }
            for command in commands.drain(..) {
                match command {
                    FeedbackCommand::Join(joined, address) => {
                        // The plane has reached it from the same host.
                        let _ = self.heard.join(&mut self.io, &joined, address);
                    }
                    FeedbackCommand::End(id) => self.heard.end(&mut self.io, id),
                    FeedbackCommand::Stop => return,
                }
            }
            let turn = self.heard.turn(&mut self.io);
            if turn.wakes {
                (self.wake)();
            }
            let (io, mail) = (&mut self.io, &*self.commands);
            idle.rest(&clock, now, turn.is_busy, || sleep(io, mail, &clock, Time::NEVER));
        }
    }
}

/// However the thread ends, nobody leaves anything for it any more.
impl<W> Drop for FeedbackThread<W> {
    fn drop(&mut self) {
        self.commands.close();
    }
}
