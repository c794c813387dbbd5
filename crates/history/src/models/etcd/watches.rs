//! Watches: what can be said of each by itself, and what it says of the store.

use std::collections::BTreeMap;

use crate::evidence::Violation;
use crate::history::Call;
use crate::models::etcd::facts::Window;
use crate::op::{Event, Keys, Seen};

/// What a watch has told.
#[derive(Debug)]
pub struct Told<'h> {
    /// What it says of the store, if it has seen anything.
    pub window: Option<Window<'h>>,
    /// Revisions, each higher than those before, and when they were told.
    pub sights: Vec<(u64, u64)>,
}

/// What a watch has seen so far.
struct Watch<'h> {
    /// The first revision that it shows, if that is known.
    from: Option<u64>,
    /// It has shown all up to here.
    to: Option<u64>,
    events: BTreeMap<u64, Vec<&'h Event>>,
    sights: Vec<(u64, u64)>,
}

/// Reads what a watch has seen.
///
/// # Errors
/// What is wrong by itself: events that are repeated, out of order, of other keys, or too early.
pub fn told<'h>(
    index: usize,
    call: &'h Call,
    keys: &Keys,
    revision: u64,
) -> Result<Told<'h>, Violation> {
    let from = (revision != 0).then_some(revision);
    let mut watch = Watch { from, to: None, events: BTreeMap::new(), sights: Vec::new() };
    for (at, place, seen) in &call.seen {
        watch.see(*at, seen, keys).map_err(|what| Violation::Contradiction {
            calls: vec![index],
            what: format!("a watch {what} (line {})", place.line),
        })?;
    }
    let Watch { from, to, events, sights } = watch;
    let keys = keys.clone();
    let window = from.zip(to).map(|(from, to)| Window { keys, from, to, events });
    Ok(Told { window, sights })
}

impl<'h> Watch<'h> {
    fn see(&mut self, at: u64, seen: &'h Seen, keys: &Keys) -> Result<(), String> {
        match seen {
            Seen::Created(revision) => {
                if self.to.is_some() {
                    return Err("was made after it had seen something".into());
                }
                self.from = self.from.or(revision.checked_add(1));
                self.sight(*revision, at);
            }
            Seen::Progress(revision) => {
                self.reach(*revision);
                self.sight(*revision, at);
            }
            Seen::Events(events) => self.events(at, events, keys)?,
        }
        Ok(())
    }

    fn events(&mut self, at: u64, events: &'h [Event], keys: &Keys) -> Result<(), String> {
        let before = self.to;
        for event in events {
            let (revision, key) = (event.revision(), event.key());
            if !keys.has(key) {
                return Err(format!("has seen {key:?}, which it did not watch"));
            }
            if self.from.is_some_and(|from| revision < from) {
                return Err(format!("has seen revision {revision}, before that where it began"));
            }
            if before.is_some_and(|before| revision <= before) {
                return Err(format!("has seen revision {revision} when it had seen all up to it"));
            }
            if self.to.is_some_and(|to| revision < to) {
                return Err(format!("has seen revision {revision} after a later one"));
            }
            let same = self.events.entry(revision).or_default();
            if same.iter().any(|other| other.key() == key) {
                return Err(format!("has seen {key:?} twice at revision {revision}"));
            }
            same.push(event);
            self.from = self.from.or(Some(revision));
            self.reach(revision);
        }
        if let Some(revision) = self.to.filter(|_| !events.is_empty()) {
            self.sight(revision, at);
        }
        Ok(())
    }

    fn reach(&mut self, revision: u64) {
        self.to = self.to.max(Some(revision));
    }

    fn sight(&mut self, revision: u64, at: u64) {
        if self.sights.last().is_none_or(|(last, _)| *last < revision) {
            self.sights.push((revision, at));
        }
    }
}
