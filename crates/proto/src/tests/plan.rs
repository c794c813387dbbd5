//! What a test asks for, and what came of it: the simple oracle of the harness.

use std::rc::Rc;

use petasos_wire::RejectCode;

/// One call: what is asked, how the handler answers, how long the caller waits.
///
/// A call's method is its place in the harness's list of plans, so that both ends know from the
/// method alone which bytes are right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) request_bytes: u32,
    pub(super) response_bytes: u32,
    /// Longest response that the caller takes.
    pub(super) response_bytes_max: u32,
    pub(super) answer: Answer,
    pub(super) timeout_ns: Option<u64>,
}

/// What the handler does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Now,
    /// Answers from another thread after so many nanoseconds.
    After(u64),
    Never,
    Reject(RejectCode),
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With a response; its bytes have been checked by the harness.
    Answered,
    Rejected(Option<RejectCode>),
    Overlong,
    Expired,
    Cancelled,
    Reset,
    /// The backlog was full.
    Refused,
}

impl Plan {
    /// A call whose handler answers at once.
    pub(super) fn new(request_bytes: u32, response_bytes: u32) -> Plan {
        Plan {
            request_bytes,
            response_bytes,
            response_bytes_max: u32::MAX,
            answer: Answer::Now,
            timeout_ns: None,
        }
    }

    pub(super) fn answered(self, answer: Answer) -> Plan {
        Plan { answer, ..self }
    }

    pub(super) fn after_us(self, us: u64) -> Plan {
        self.answered(Answer::After(us * 1000))
    }

    pub(super) fn timeout_us(self, us: u64) -> Plan {
        Plan { timeout_ns: Some(us * 1000), ..self }
    }

    pub(super) fn takes(self, response_bytes_max: u32) -> Plan {
        Plan { response_bytes_max, ..self }
    }
}

/// The client's context of a call.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) method: u16,
    pub(super) request: Vec<u8>,
    pub(super) response: Vec<u8>,
}

/// The server's buffer of a slot; the harness counts the living ones.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    pub(super) _living: Rc<()>,
}

/// The right bytes of a request.
pub(super) fn request_of(method: u16, bytes: u32) -> Vec<u8> {
    pattern(u32::from(method) * 2, bytes)
}

/// The right bytes of a response.
pub(super) fn response_of(method: u16, bytes: u32) -> Vec<u8> {
    pattern(u32::from(method) * 2 + 1, bytes)
}

/// Bytes in which a packet of the wrong message or at the wrong offset shows.
fn pattern(seed: u32, bytes: u32) -> Vec<u8> {
    let at = |index: u32| (index ^ seed.wrapping_mul(0x9e37_79b1)).wrapping_mul(0x85eb_ca6b) >> 24;
    (0..bytes).map(|index| at(index) as u8).collect()
}
