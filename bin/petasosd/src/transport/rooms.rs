//! How many calls over gRPC may be under way: in all, and of one end.
//!
//! A call counts until its port is gone, which the transport and the call's future share. So what
//! they have to tell each other is bounded, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places for calls.
#[derive(Clone, Debug)]
pub struct Rooms {
    all_max: usize,
    each_max: usize,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// By whose calls they are. Who has none is not there.
    each: HashMap<Arc<str>, usize>,
}

/// The place of a call, until this is dropped.
#[derive(Debug)]
pub struct Room {
    rooms: Rooms,
    holder: Arc<str>,
}

impl Rooms {
    /// Places for `all_max` calls, of which one end has `each_max` at most.
    pub fn new(all_max: usize, each_max: usize) -> Rooms {
        Rooms { all_max, each_max, counts: Arc::default() }
    }

    /// A place for a call of `holder`, if there is one.
    pub fn take(&self, holder: &Arc<str>) -> Option<Room> {
        let mut counts = self.counts();
        let of_holder = counts.each.get(holder).copied().unwrap_or(0);
        if counts.all >= self.all_max || of_holder >= self.each_max {
            return None;
        }
        counts.all += 1;
        counts.each.insert(holder.clone(), of_holder + 1);
        Some(Room { rooms: self.clone(), holder: holder.clone() })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut counts = self.rooms.counts();
        counts.all -= 1;
        let Some(of_holder) = counts.each.get_mut(&self.holder) else { return };
        *of_holder -= 1;
        if *of_holder == 0 {
            counts.each.remove(&self.holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_end_leaves_room_for_others_and_all_together_are_bounded() {
        let rooms = Rooms::new(5, 2);
        let of = |holder: &str| rooms.take(&holder.into());
        let mut held = vec![of("a"), of("a"), of("b"), of("b"), of("c")];
        assert!(held.iter().all(Option::is_some));
        assert!(of("d").is_none(), "there are five");
        drop(held.pop());
        assert!(of("a").is_none(), "it has two");
        assert!(of("d").is_some(), "which is over at once");
        drop(held);
        let counts = rooms.counts();
        assert!(counts.all == 0 && counts.each.is_empty(), "who is gone takes no room");
    }
}
