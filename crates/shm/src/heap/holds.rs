//! Which places of a heap may still be read through slices that were made earlier.
//!
//! All slices that are made between two removals share one [`Hold`], so that making one costs a
//! count and nothing else. A removal ends the present hold. The removed place is free when its hold
//! and all earlier ones are gone, since any slice that leads into it has one of these.

use std::collections::VecDeque;
use std::sync::Arc;

use petasos_abi::Extent;

use super::range::Range;

/// Keeps a range mapped, and places from being used again.
#[derive(Debug)]
pub(super) struct Hold {
    /// Never read: it is there to be kept.
    _range: Arc<Range>,
}

/// The holds of a heap.
///
/// Invariant: `ended` is in the order of the removals. Only slices have clones of holds.
#[derive(Debug)]
pub(super) struct Holds {
    range: Arc<Range>,
    present: Arc<Hold>,
    ended: VecDeque<(Arc<Hold>, Extent)>,
}

impl Holds {
    pub(super) fn new(range: Range) -> Holds {
        let range = Arc::new(range);
        let present = Arc::new(Hold { _range: range.clone() });
        Holds { range, present, ended: VecDeque::new() }
    }

    pub(super) fn range(&self) -> &Range {
        &self.range
    }

    /// The range, for whoever keeps it mapped and uses no place that may be removed.
    pub(super) fn shared_range(&self) -> Arc<Range> {
        self.range.clone()
    }

    /// For a new slice.
    #[inline]
    pub(super) fn hold(&self) -> Arc<Hold> {
        self.present.clone()
    }

    /// No slice of this extent will be made any more.
    pub(super) fn end(&mut self, extent: Extent) {
        let next = Arc::new(Hold { _range: self.range.clone() });
        let ended = core::mem::replace(&mut self.present, next);
        self.ended.push_back((ended, extent));
    }

    /// An extent that has been removed, and of which no slice is left. Each is returned once.
    pub(super) fn poll_free(&mut self) -> Option<Extent> {
        let (hold, _) = self.ended.front_mut()?;
        // Not a look at the count alone: this also orders what slices have read before what the
        // caller does with the place.
        Arc::get_mut(hold)?;
        self.ended.pop_front().map(|(_, extent)| extent)
    }
}
