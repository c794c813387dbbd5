//! A call, as the service knows it for the application at one of its ends.

use petasos_abi::{CallNumber, Side};
use petasos_base::Time;
use petasos_engine::{Application as Number, CallId};

use crate::flow::Flow;
use crate::schemas::{BoundMethod, MethodAt};
use crate::stats::{RowIndex, Stats};

/// A call as the application knows it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) id: CallId,
    pub(crate) number: CallNumber,
    pub(crate) method: MethodAt,
    /// The application that has the other end, and the call there.
    pub(crate) far: Option<(Number, CallId)>,
    /// Where the caller's request is to go: a target of the application.
    pub(crate) target: u32,
    /// The application has cancelled it, and does not count it any more.
    pub(crate) is_cancelled: bool,
    /// The application has said that no more messages follow.
    pub(crate) has_closed: bool,
    /// The application has sent a head, or a message, before which a head would have to come.
    pub(crate) has_begun: bool,
    /// Of a call with streams, from [`Application::remember`](crate::Application) on.
    pub(crate) flow: Option<Box<Flow>>,
    /// What counts it.
    pub(crate) row: RowIndex,
    pub(crate) began: Time,
}

impl Known {
    pub(crate) fn new(
        (id, number): (CallId, CallNumber),
        (method, target): (MethodAt, u32),
        began: Time,
    ) -> Known {
        let (has_closed, has_begun, row) = (false, false, RowIndex::NONE);
        let (far, flow) = (None, None);
        let is_cancelled = false;
        Known {
            id,
            number,
            method,
            far,
            target,
            is_cancelled,
            has_closed,
            has_begun,
            flow,
            row,
            began,
        }
    }

    /// Whether the application has made the call.
    pub(crate) fn is_callers(&self) -> bool {
        self.number.begun_by() == Side::Application
    }

    /// Whether the application takes another message.
    #[inline]
    pub(crate) fn takes_message(&self) -> bool {
        self.flow.as_ref().is_none_or(|flow| flow.ours.may_send())
    }

    /// Whether the call has streams.
    pub(crate) fn is_stream(&self) -> bool {
        self.flow.is_some()
    }

    /// The call is over, if it was not, and nobody is told an end.
    #[inline]
    pub(crate) fn give_up(&mut self, stats: &mut Stats, method: &BoundMethod) {
        stats.give_up(&mut self.row, method);
    }
}
