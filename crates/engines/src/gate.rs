//! The loop of engines that admit calls or end them, and record the results of admitted calls.

use petasos_engine::{Code, Direction, Item, ItemKind, Status, Work};

use crate::calls::Calls;

/// What such an engine decides. It is known when the loop is compiled: none of this is a virtual
/// call.
pub(crate) trait Gate {
    /// What is kept of a call that was let in.
    type Under;

    /// Sees what engines of the same policy have changed.
    fn refresh(&mut self);

    /// Whether a call may begin. What is to be noted at its end is kept in [`Gate::calls`].
    fn admit(&mut self, work: &Work<'_>, item: &Item) -> bool;

    /// Counts a call that may not begin. Gives how it ends.
    fn refuse(&self) -> Status;

    /// The calls that were let in and are under way.
    fn calls(&mut self) -> &mut Calls<Self::Under>;

    /// Notes how a call has ended; without a code if it was given up before its time was up, which
    /// says nothing about who serves it.
    fn record(&self, work: &Work<'_>, under: &Self::Under, code: Option<Code>);
}

/// Does the work of a turn.
pub(crate) fn pass<G: Gate>(gate: &mut G, work: &mut Work<'_>) {
    gate.refresh();
    for direction in Direction::ALL {
        while let Some(item) = work.next(direction) {
            match work.kind(&item) {
                ItemKind::Request if !gate.admit(work, &item) => {
                    work.end(item, gate.refuse());
                    continue;
                }
                ItemKind::End => {
                    let code = work.status(&item).map_or(Code::Ok, Status::code);
                    record(gate, work, &item, Some(code));
                }
                // It took too long if its time was up.
                ItemKind::Cancel => {
                    let is_late = work.now() >= work.call(&item).deadline;
                    record(gate, work, &item, is_late.then_some(Code::DeadlineExceeded));
                }
                _ => {}
            }
            work.forward(item);
        }
    }
}

fn record<G: Gate>(gate: &mut G, work: &Work<'_>, item: &Item, code: Option<Code>) {
    if let Some(under) = gate.calls().remove(work.call_id(item)) {
        gate.record(work, &under, code);
    }
}
