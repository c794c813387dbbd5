//! The service's side of a session.

use super::{Handover, Violation};
use crate::ask::{Ask, RECALL_VERSION};
use crate::frame::{Deframer, Frame};
use crate::hello::{Hello, Versions};
use crate::kind;
use crate::message::FromApplication;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Hello,
    Attached,
    Over,
}

/// What an application has said so far.
#[derive(Clone, Debug)]
pub struct ServiceSession {
    deframer: Deframer,
    phase: Phase,
    /// The version that was agreed on.
    version: u16,
    /// The number of the last request.
    requests: u32,
    handover: Handover,
}

impl Default for ServiceSession {
    fn default() -> ServiceSession {
        let (deframer, phase, handover) = (Deframer::default(), Phase::Hello, Handover::None);
        ServiceSession { deframer, phase, version: 0, requests: 0, handover }
    }
}

impl ServiceSession {
    /// Takes bytes from the front of `input`, up to the end of one frame, and returns what it says.
    /// `None` if all were taken and no frame is complete.
    ///
    /// # Errors
    /// See [`Violation`]. The session is over then.
    pub fn poll_message(
        &mut self,
        input: &mut &[u8],
    ) -> Result<Option<FromApplication>, Violation> {
        if self.phase == Phase::Over {
            *input = &[];
            return Ok(None);
        }
        let said = self.next(input);
        if matches!(said, Err(_) | Ok(Some(FromApplication::Detach(..)))) {
            self.phase = Phase::Over;
        }
        said
    }

    /// D14: goes on to this step, which the service is about to say. Says whether it is next.
    pub fn say(&mut self, step: Handover) -> bool {
        matches!(step, Handover::Announced | Handover::Moving) && self.handover.step(step)
    }

    /// D14: how far the application has moved.
    pub fn handover(&self) -> Handover {
        self.handover
    }

    /// Whether a frame has begun and not ended.
    pub fn is_within_frame(&self) -> bool {
        self.phase != Phase::Over && self.deframer.is_within_frame()
    }

    fn next(&mut self, input: &mut &[u8]) -> Result<Option<FromApplication>, Violation> {
        let Some(frame) = self.deframer.next_frame(input)? else { return Ok(None) };
        if self.phase == Phase::Hello {
            let (hello, version) = read_hello(frame)?;
            (self.phase, self.version) = (Phase::Attached, version);
            return Ok(Some(FromApplication::Hello(hello)));
        }
        if frame.kind == kind::HELLO {
            return Err(Violation::HelloTwice);
        }
        let kind = frame.kind;
        let said = FromApplication::read(kind, frame.body)?;
        let request = match &said {
            FromApplication::Grow(grow) => Some(grow.request),
            FromApplication::Ask(request, _) => Some(*request),
            _ => None,
        };
        if let Some(found) = request {
            let expected = self.requests.saturating_add(1);
            if found != expected {
                return Err(Violation::Request { expected, found });
            }
            self.requests = expected;
        }
        let is_in_order = match &said {
            FromApplication::Attached => self.handover.step(Handover::Attached),
            FromApplication::Moved => self.handover.step(Handover::Moved),
            FromApplication::Ask(_, Ask::Recall { .. }) => self.version >= RECALL_VERSION,
            _ => true,
        };
        if is_in_order { Ok(Some(said)) } else { Err(Violation::Unexpected(kind)) }
    }
}

/// A hello, and the version that both speak. Its versions are judged first: a hello of other
/// versions may have other fields.
fn read_hello(frame: Frame<'_>) -> Result<(Hello, u16), Violation> {
    if frame.kind != kind::HELLO {
        return Err(Violation::HelloExpected(frame.kind));
    }
    let versions = Hello::versions_of(frame.body)?;
    let version = versions.agree(Versions::SUPPORTED);
    let version = version.ok_or(Violation::Versions(versions))?;
    Ok((Hello::read(frame.body)?, version))
}
