//! The application's side of a session.

use petasos_shm::HeapKind;

use super::{Handover, Violation};
use crate::ask::{NotDone, RECALL_VERSION};
use crate::frame::{Deframer, Malformed};
use crate::hello::{HANDOVER_VERSION, Hello, Versions, Welcome};
use crate::message::{FromService, Grow};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The hello is not answered yet.
    Hello,
    /// So many lanes are still to come.
    Lanes(u16),
    Attached,
    Over,
}

/// What the service has said so far.
#[derive(Clone, Debug)]
pub struct ApplicationSession {
    deframer: Deframer,
    phase: Phase,
    versions: Versions,
    /// Lanes that were wanted, and later those that were given.
    lanes: u16,
    /// The numbers of the last request, and of the last one that is answered. `answered <= asked`.
    asked: u32,
    answered: u32,
    /// The version that was agreed on.
    version: u16,
    handover: Handover,
}

impl ApplicationSession {
    /// After this hello was sent.
    pub fn new(hello: &Hello) -> ApplicationSession {
        let (deframer, phase) = (Deframer::default(), Phase::Hello);
        let (versions, lanes) = (hello.versions, hello.lanes);
        let (asked, answered, version, handover) = (0, 0, 0, Handover::None);
        ApplicationSession { deframer, phase, versions, lanes, asked, answered, version, handover }
    }

    /// Takes bytes from the front of `input`, up to the end of one frame, and returns what it says.
    /// `None` if all were taken and no frame is complete.
    ///
    /// # Errors
    /// See [`Violation`]. The session is over then.
    pub fn poll_message(&mut self, input: &mut &[u8]) -> Result<Option<FromService>, Violation> {
        if self.phase == Phase::Over {
            *input = &[];
            return Ok(None);
        }
        let said = self.next(input);
        if matches!(said, Err(_) | Ok(Some(FromService::Detach(..) | FromService::Refuse(..)))) {
            self.phase = Phase::Over;
        }
        said
    }

    /// A request for an extent, to be sent; `None` after 2^32 - 1 requests.
    pub fn ask(&mut self, heap: HeapKind, bytes: u64) -> Option<Grow> {
        self.next_request().map(|request| Grow { request, heap, bytes })
    }

    /// The number of another request, to be sent; `None` after 2^32 - 1 requests.
    pub fn next_request(&mut self) -> Option<u32> {
        self.asked = self.asked.checked_add(1)?;
        Some(self.asked)
    }

    /// D14: goes on to this step, which the application is about to say. Says whether it is next.
    pub fn say(&mut self, step: Handover) -> bool {
        matches!(step, Handover::Attached | Handover::Moved) && self.handover.step(step)
    }

    /// The version that was agreed on; 0 before the welcome.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Whether all lanes have come.
    pub fn is_attached(&self) -> bool {
        self.phase == Phase::Attached
    }

    /// Whether a frame has begun and not ended.
    pub fn is_within_frame(&self) -> bool {
        self.phase != Phase::Over && self.deframer.is_within_frame()
    }

    fn next(&mut self, input: &mut &[u8]) -> Result<Option<FromService>, Violation> {
        let Some(frame) = self.deframer.next_frame(input)? else { return Ok(None) };
        let kind = frame.kind;
        let said = FromService::read(kind, frame.body)?;
        match (self.phase, &said) {
            (Phase::Hello, FromService::Welcome(welcome)) => self.on_welcome(*welcome)?,
            (Phase::Hello, FromService::Refuse(..)) => {}
            (Phase::Lanes(left), FromService::Lane { index, .. }) => self.on_lane(left, *index)?,
            (Phase::Attached, FromService::Extent { request: 0, .. }) => {}
            (Phase::Attached, FromService::Extent { request, .. }) => self.on_answer(*request)?,
            (Phase::Attached, FromService::NoExtent { request, .. }) => self.on_answer(*request)?,
            (Phase::Attached, FromService::Answer(answer))
                if self.version >= RECALL_VERSION || answer.result != Err(NotDone::Unknown) =>
            {
                self.on_answer(answer.request)?;
            }
            (Phase::Attached, FromService::GiveUp { .. }) => {}
            (Phase::Attached, FromService::Successor)
                if self.version >= HANDOVER_VERSION && self.handover.step(Handover::Announced) => {}
            (Phase::Attached, FromService::Move) if self.handover.step(Handover::Moving) => {}
            (Phase::Lanes(_) | Phase::Attached, FromService::Detach(..)) => {}
            _ => return Err(Violation::Unexpected(kind)),
        }
        Ok(Some(said))
    }

    fn on_welcome(&mut self, welcome: Welcome) -> Result<(), Violation> {
        let Versions { oldest, newest } = self.versions;
        if !(oldest..=newest).contains(&welcome.version) {
            return Err(Malformed::Value("version").into());
        }
        if welcome.lanes > self.lanes {
            return Err(Malformed::Value("lanes").into());
        }
        (self.lanes, self.version) = (welcome.lanes, welcome.version);
        self.phase = Phase::Lanes(welcome.lanes);
        Ok(())
    }

    fn on_lane(&mut self, left: u16, index: u16) -> Result<(), Violation> {
        if index != self.lanes - left {
            return Err(Malformed::Value("lane").into());
        }
        self.phase = if left == 1 { Phase::Attached } else { Phase::Lanes(left - 1) };
        Ok(())
    }

    /// Requests are answered in their order.
    fn on_answer(&mut self, request: u32) -> Result<(), Violation> {
        let expected = self.answered.saturating_add(1);
        if request != expected || request > self.asked {
            return Err(Violation::Request { expected, found: request });
        }
        self.answered = request;
        Ok(())
    }
}
