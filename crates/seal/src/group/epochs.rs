//! What belongs to the epochs that are taken (RT30).

use petasos_wire::EPOCHS;

/// What a process has of each epoch that it takes: the newest, and the one before until the
/// process's clock says that its time is up.
#[derive(Debug)]
pub struct Epochs<T> {
    newest: Option<(u16, T)>,
    before: Option<(u16, T)>,
}

/// An epoch that is not newer than the newest. The router's fault, or a message out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("epoch {0} is not newer than the newest")]
pub struct NotNext(pub u16);

impl<T> Default for Epochs<T> {
    fn default() -> Epochs<T> {
        Epochs { newest: None, before: None }
    }
}

impl<T> Epochs<T> {
    /// An epoch has begun, with what belongs to it. Gives what belonged to the one before the
    /// newest until now, which is not taken any more.
    ///
    /// # Errors
    /// See [`NotNext`]; nothing has changed.
    ///
    /// # Panics
    /// If the number has more than 12 bits.
    pub fn begin(&mut self, epoch: u16, its: T) -> Result<Option<T>, NotNext> {
        assert!(epoch < EPOCHS, "an epoch's number has 12 bits");
        if let Some((newest, _)) = &self.newest {
            let ahead = epoch.wrapping_sub(*newest) % EPOCHS;
            if ahead == 0 || ahead >= EPOCHS / 2 {
                return Err(NotNext(epoch));
            }
        }
        let before = core::mem::replace(&mut self.before, self.newest.take());
        self.newest = Some((epoch, its));
        Ok(before.map(|(_, its)| its))
    }

    /// The time of the epoch before the newest is up: it is not taken any more. Gives what belonged
    /// to it.
    pub fn end_before(&mut self) -> Option<T> {
        self.before.take().map(|(_, its)| its)
    }

    /// The newest epoch.
    pub fn newest(&mut self) -> Option<(u16, &mut T)> {
        self.newest.as_mut().map(|(epoch, its)| (*epoch, its))
    }

    /// What belongs to an epoch; `None` if it is not taken.
    #[inline]
    pub fn get(&mut self, epoch: u16) -> Option<&mut T> {
        let known = [&mut self.newest, &mut self.before];
        let mut known = known.into_iter().flatten();
        known.find(|(number, _)| *number == epoch).map(|(_, its)| its)
    }
}
