//! What groups reject and drop, for who reads the program's log: a line for each group, at most
//! once in [`LOOKS_BETWEEN`] looks, whatever comes (`docs/spec/route.md`, RT39).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};

use petasos_router_control::GroupSnapshot;

use crate::admin::turned_down;
use crate::groups::Groups;
use crate::said::say;

/// There is one a second.
const LOOKS_BETWEEN: u32 = 10;

/// How often something has happened since the start, by its name.
type Counts = Vec<(String, u64)>;

/// See the module's documentation.
#[derive(Default)]
pub struct Notices {
    of: HashMap<SocketAddr, Notice>,
    /// What groups were asked at the last look.
    asked: Vec<(SocketAddr, Receiver<GroupSnapshot>)>,
}

/// Of a group.
#[derive(Default)]
struct Notice {
    /// What was said.
    said: HashMap<String, u64>,
    /// Looks until something may be said again.
    rest: u32,
}

impl Notices {
    /// Says what is new since the last look, and asks for the next one. Waits for nobody: a group
    /// that has not answered is asked again.
    pub fn look(&mut self, groups: &Groups) {
        for (group, answer) in self.asked.split_off(0) {
            let Ok(snapshot) = answer.try_recv() else { continue };
            let line = self.of.entry(group).or_default().line(turned_down(&snapshot));
            line.into_iter().for_each(|line| say(&format!("group at {group}: {line}")));
        }
        let views = groups.views();
        self.of.retain(|group, _| views.iter().any(|view| view.listen == *group));
        self.asked.extend(views.into_iter().map(|view| {
            let (tell, told) = channel();
            // If nobody listens any more, the answer was late.
            view.operator.snapshot(move |snapshot| drop(tell.send(snapshot)));
            (view.listen, told)
        }));
    }
}

impl Notice {
    /// What has happened since it was said last, unless that was a moment ago.
    fn line(&mut self, counts: Counts) -> Option<String> {
        self.rest = self.rest.saturating_sub(1);
        if self.rest > 0 {
            return None;
        }
        let new = counts.into_iter().filter_map(|(name, count)| {
            let said = self.said.insert(name.clone(), count).unwrap_or(0);
            (count > said).then(|| format!("{name} {}", count - said))
        });
        let new: Vec<_> = new.collect();
        if new.is_empty() {
            return None;
        }
        self.rest = LOOKS_BETWEEN;
        Some(format!("packets without a worker since the last such line: {}", new.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(full: u64, void: u64) -> Counts {
        vec![("rejected as full".to_owned(), full), ("dropped as void".to_owned(), void)]
    }

    #[test]
    fn rt39_lines_are_limited_and_nothing_is_left_out_of_the_next_one() {
        let mut notice = Notice::default();
        assert_eq!(notice.line(counts(0, 0)), None);
        let first = notice.line(counts(3, 0)).expect("it is new");
        assert!(first.ends_with(": rejected as full 3"), "{first}");
        for look in 1..u64::from(LOOKS_BETWEEN) {
            assert_eq!(notice.line(counts(3 + look, look)), None);
        }
        let next = notice.line(counts(1000, 20)).expect("it was a while ago");
        assert!(next.ends_with(": rejected as full 997, dropped as void 20"), "{next}");
        for _ in 0..2 * LOOKS_BETWEEN {
            assert_eq!(notice.line(counts(1000, 20)), None, "nothing is new");
        }
        assert!(notice.line(counts(1001, 20)).is_some(), "and one that is, is said at once");
    }
}
