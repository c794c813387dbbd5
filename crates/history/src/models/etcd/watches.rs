//! Watches: what can be said of each by itself, and what it says of the store.

use std::collections::BTreeMap;

use crate::evidence::Violation;
use crate::history::{Call, Place};
use crate::model::{Model, Part};
use crate::models::etcd::facts::Window;
use crate::models::etcd::model::Etcd;
use crate::op::{Event, Keys, Seen};

/// What a watch has told.
#[derive(Debug)]
pub struct Told<'h> {
    /// What it says of the store, if it has seen anything.
    pub window: Option<Window<'h>>,
    /// Revisions, each higher than those before.
    pub sights: Vec<Sight>,
}

/// A revision that a watch was told of.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// Which.
    pub revision: u64,
    /// When.
    pub at: u64,
    /// The line that says so.
    pub place: Place,
}

/// What a watch has seen so far.
struct Watch<'h> {
    /// The first revision that it shows, if that is known.
    from: Option<u64>,
    /// It has shown all up to here.
    to: Option<u64>,
    events: BTreeMap<u64, Vec<&'h Event>>,
    sights: Vec<Sight>,
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
) -> Result<Told<'h>, String> {
    let from = (revision != 0).then_some(revision);
    let mut watch = Watch { from, to: None, events: BTreeMap::new(), sights: Vec::new() };
    for (at, place, seen) in &call.seen {
        let flaw = |what| format!("a watch {what} (line {})", place.line);
        watch.see((*at, *place), seen, keys).map_err(flaw)?;
    }
    let Watch { from, to, events, sights } = watch;
    let keys = keys.clone();
    let window = from.zip(to).map(|(from, to)| Window { index, keys, from, to, events });
    Ok(Told { window, sights })
}

impl<'h> Watch<'h> {
    fn see(&mut self, at: (u64, Place), seen: &'h Seen, keys: &Keys) -> Result<(), String> {
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

    fn events(&mut self, at: (u64, Place), events: &'h [Event], keys: &Keys) -> Result<(), String> {
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

    fn sight(&mut self, revision: u64, (at, place): (u64, Place)) {
        if self.sights.last().is_none_or(|last| last.revision < revision) {
            self.sights.push(Sight { revision, at, place });
        }
    }
}

/// Which watch has not seen what an order of the calls has done, if the order fits but for that.
pub fn blamed(part: &Part<Etcd<'_>>, windows: &[Window<'_>], order: &[usize]) -> Option<Violation> {
    let Part { model, calls } = part;
    let mut store = model.start();
    for call in order {
        let call = &calls[*call];
        let step = model.apply(&mut store, &call.call, u64::MAX)?;
        let stored = step.undo.stored();
        let flaw = windows.iter().find(|window| !stored.is_empty() && !window.fits(&store, stored));
        if let Some(window) = flaw {
            let revision = store.revision;
            let what = format!("a watch has not seen revision {revision} as it was made");
            return Some(Violation::Contradiction {
                calls: vec![window.index, call.call.index],
                what,
            });
        }
    }
    None
}
