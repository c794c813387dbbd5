use std::sync::Arc;

use petasos_engine::*;

use super::support::*;
use crate::Null;
use crate::hold::Hold;

/// Holds one item for ever, and passes the others on by rank or by age.
struct Keep {
    hold: Hold<u32>,
    is_by_rank: bool,
}

struct KeepPolicy(bool);

impl Policy for KeepPolicy {
    fn engine(&self, _: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        Ok(Box::new(Keep { hold: Hold::default(), is_by_rank: self.0 }))
    }

    fn state(&self) -> State {
        State::new(Null.version(), &())
    }
}

impl Engine for Keep {
    fn work(&mut self, work: &mut Work<'_>) {
        while let Some(item) = work.next(Direction::Outbound) {
            let rank = work.bytes(&item);
            self.hold.push(work, item, rank);
            while self.hold.len() > 1 {
                let first =
                    if self.is_by_rank { self.hold.pop_first() } else { self.hold.pop_oldest() };
                work.forward(first.expect("there are two"));
            }
            assert!(self.hold.entries() <= 70, "{} entries of one item", self.hold.entries());
        }
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        self.hold.give_back(decompose);
        None
    }
}

#[test]
fn one_item_that_stays_does_not_keep_what_is_known_of_others() {
    for is_by_rank in [true, false] {
        let mut rig = Rig::with(&Null, Arc::new(KeepPolicy(is_by_rank)));
        for n in 0..10_000 {
            let id = rig.datapath.begin(call()).unwrap();
            // By rank, the first one stays; by age, those that have left are last by rank.
            let bytes = if is_by_rank && n == 0 { u32::MAX } else { 20_000 - n };
            rig.submit(id, ItemKind::Request, bytes);
            rig.run();
        }
        assert_eq!(rig.out().len(), 9_999);
        assert_eq!(rig.detach().1.len(), 1);
    }
}
