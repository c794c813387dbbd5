//! A service that answers every descriptor with another, as its event loop would.

use std::path::Path;
use std::time::Duration;

use petasos_abi::{Contents, Descriptor};
use petasos_attach::reason::DetachCode;
use petasos_attach::{
    Attached, Ended, Lane, LaneError, Listener, ListenerConfig, PushError, Terms,
};
use petasos_base::{SystemClock, Time};
use petasos_shm::HeapKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::PATIENCE;

/// The most descriptors of a lane in a turn.
const BURST: usize = 64;

pub struct App {
    pub attached: Attached,
    pub lanes: Vec<Lane>,
    /// An answer for which a lane had no room.
    held: Vec<Option<Descriptor>>,
    pub answered: u64,
}

pub struct Service {
    pub listener: Listener,
    pub terms: Terms,
    pub apps: Vec<App>,
    /// Names of applications whose attachments have ended, and why.
    pub ended: Vec<(String, String)>,
    pub wakes: u64,
    pub sleeps: u64,
    /// Added to the time.
    pub skew: Duration,
    clock: SystemClock,
}

impl Service {
    pub fn bind(path: &Path, config: ListenerConfig) -> Service {
        let listener = Listener::bind(path, config).expect("the path is free");
        let (terms, clock) = (Terms::default(), SystemClock::default());
        let (apps, ended) = (Vec::new(), Vec::new());
        let skew = Duration::ZERO;
        Service { listener, terms, apps, ended, wakes: 0, sleeps: 0, skew, clock }
    }

    pub fn now(&self) -> Time {
        self.clock.now() + self.skew
    }

    /// Whether there was something to do.
    pub fn turn(&mut self) -> bool {
        let now = self.now();
        let mut is_busy = false;
        while let Some(applicant) = self.listener.poll(now).expect("there are descriptors") {
            let attached = applicant.accept(&self.terms);
            let mut attached = attached.expect("there is memory");
            let lanes = attached.take_lanes();
            let held = vec![None; lanes.len()];
            self.apps.push(App { attached, lanes, held, answered: 0 });
            is_busy = true;
        }
        let mut at = 0;
        while at < self.apps.len() {
            match self.apps[at].turn(now, &mut self.wakes) {
                Ok(busy) => (is_busy, at) = (is_busy | busy, at + 1),
                Err(why) => {
                    let App { attached, .. } = self.apps.swap_remove(at);
                    let is_ended = why.is::<Ended>();
                    let (name, why) = (attached.hello().name.to_string(), why.to_string());
                    // An attachment that has ended by itself has told the application.
                    if !is_ended {
                        attached.detach(DetachCode::Violation, &why);
                    }
                    self.ended.push((name, why));
                    is_busy = true;
                }
            }
        }
        is_busy
    }

    /// Turns until it is so.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Service) -> bool) {
        let deadline = self.clock.now() + PATIENCE;
        while !is_so(self) {
            if !self.turn() {
                std::thread::yield_now();
            }
            assert!(self.clock.now() < deadline, "it never came to that: {what}; {:?}", self.ended);
        }
    }

    /// Sleeps until somebody wakes it, if there is nothing to do.
    pub fn sleep(&mut self) {
        let mut lanes = self.apps.iter_mut().flat_map(|app| &mut app.lanes);
        let may = lanes.all(Lane::doze);
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        for app in &self.apps {
            let wants = if app.attached.wants_to_write() { PollFlags::OUT } else { PollFlags::IN };
            fds.push(PollFd::new(&app.attached, PollFlags::IN | wants));
            fds.extend(app.lanes.iter().map(|lane| PollFd::new(lane, PollFlags::IN)));
        }
        if may {
            self.sleeps += 1;
            let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
            poll(&mut fds, Some(&timeout)).expect("it can sleep");
        }
        for lane in self.apps.iter_mut().flat_map(|app| &mut app.lanes) {
            // How it ended shows in the next turn.
            let _ = lane.rise();
        }
    }

    pub fn app(&self, name: &str) -> Option<&App> {
        self.apps.iter().find(|app| app.attached.hello().name.as_str() == name)
    }

    pub fn end_of(&self, name: &str) -> Option<&str> {
        self.ended.iter().find(|(ended, _)| ended == name).map(|(_, why)| why.as_str())
    }
}

impl App {
    fn turn(&mut self, now: Time, wakes: &mut u64) -> Result<bool, Box<dyn std::error::Error>> {
        self.attached.turn(now, |_| {})?;
        let mut is_busy = false;
        for at in 0..self.lanes.len() {
            for _ in 0..BURST {
                if !self.answer(at)? {
                    break;
                }
                is_busy = true;
            }
            self.lanes[at].release();
            *wakes += u64::from(self.lanes[at].flush());
            match self.lanes[at].rise() {
                Ok(()) => {}
                Err(LaneError::Gone) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(is_busy)
    }

    /// Whether one was answered.
    fn answer(&mut self, at: usize) -> Result<bool, Box<dyn std::error::Error>> {
        let answer = match self.held[at].take() {
            Some(held) => held,
            None => match self.lanes[at].pop()? {
                Some(descriptor) => self.answer_to(descriptor)?,
                None => return Ok(false),
            },
        };
        match self.lanes[at].push(&answer) {
            Ok(()) => self.answered += 1,
            Err(PushError::Full(answer)) => {
                self.held[at] = Some(answer);
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Grants grow by one. The bytes of messages are reversed.
    fn answer_to(&mut self, said: Descriptor) -> Result<Descriptor, Box<dyn std::error::Error>> {
        match said {
            Descriptor::Message { call, message } => {
                let Contents { offset, bytes } = message;
                let mut copy = vec![0; bytes.min(1 << 20) as usize];
                self.attached.heap(HeapKind::Send).copy_out(offset, &mut copy)?;
                copy.reverse();
                self.attached.write(offset, &copy)?;
                Ok(Descriptor::Message { call, message })
            }
            Descriptor::Grant { call, bytes } => {
                Ok(Descriptor::Grant { call, bytes: bytes.wrapping_add(1) })
            }
            other => Err(format!("an unexpected {other:?}").into()),
        }
    }
}
