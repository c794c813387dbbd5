//! Counts an application's calls when they are connected, and when they leave its datapath.

use petasos_base::Time;
use petasos_engine::{Application as Number, CallId, Direction, Finished, ItemKind};

use crate::application::{Application, Memory};
use crate::known::Known;
use crate::stats::{Stats, Way};

impl<M: Memory> Application<M> {
    /// Counts an item that has left the datapath, with so many bytes of a message. Gives its call,
    /// unless it was forgotten.
    #[inline]
    pub(crate) fn count(
        &mut self,
        item: &Finished,
        (direction, bytes): (Direction, usize),
        now: Time,
    ) -> Option<&Known> {
        let known = self.calls.get_mut(item.call.index as usize).and_then(Option::as_mut);
        let known = known.filter(|known| known.id == item.call)?;
        if bytes > 0 {
            let is_request = known.is_callers() == (direction == Direction::Outbound);
            self.stats.add_bytes(known.row, is_request, bytes as u64);
        }
        if item.kind == ItemKind::End {
            let nanos = now.nanos_since(known.began);
            let method = known.method.of(&self.bindings);
            self.stats.end(&mut known.row, method, item.status.as_ref(), nanos);
        }
        Some(known)
    }

    /// A call that the application has made goes there.
    #[inline]
    pub(crate) fn connected(&mut self, id: CallId, far: (Number, CallId), way: Way) {
        let known = self.calls[id.index as usize].as_mut().filter(|known| known.id == id);
        let known = known.expect("its request is there");
        known.far = Some(far);
        known.row = self.stats.begin(known.method.of(&self.bindings), way);
    }

    /// What is counted of its calls.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}
