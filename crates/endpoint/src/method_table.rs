//! Numbers of a group's methods (RT31): the router gives them, and a worker maps them to its own.
//!
//! Threat model: a router tells as much as it likes. What is kept of a table that is not complete
//! is bounded by [`TABLE_BYTES_MAX`]; a longer table is dropped as a whole, and the worker serves
//! nothing of it. The map of numbers has at most one entry for each number that there is.

use core::fmt;
use std::sync::Arc;

use petasos_control::Table;

/// The most bytes of names of a table.
const TABLE_BYTES_MAX: usize = 4 << 20;
/// In place of an own number: the worker does not have the method.
const NO_METHOD: u16 = u16::MAX;

/// Finds the number of a worker's own method by the names of its service and of itself. `None`: the
/// worker does not have it.
#[derive(Clone)]
pub struct MethodNames(Arc<Find>);

type Find = dyn Fn(&str, &str) -> Option<u16> + Send + Sync;

impl MethodNames {
    /// Names that `find` finds. It is called when a router has told its table, not for requests.
    pub fn new(find: impl Fn(&str, &str) -> Option<u16> + Send + Sync + 'static) -> MethodNames {
        MethodNames(Arc::new(find))
    }
}

impl fmt::Debug for MethodNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MethodNames").finish_non_exhaustive()
    }
}

/// A table that a router tells, until all of it has come.
#[derive(Default)]
pub(crate) struct ToldTable {
    parts: Vec<Table>,
    bytes: usize,
    /// The newest that is complete.
    whole: Option<Arc<[Table]>>,
}

impl ToldTable {
    /// Takes a part. Returns the table, if that was its last.
    pub(crate) fn hear(&mut self, part: Table) -> Option<Arc<[Table]>> {
        let is_last = part.is_last;
        self.bytes += bytes_of(&part);
        if self.bytes <= TABLE_BYTES_MAX {
            self.parts.push(part);
        } else {
            self.parts = Vec::new();
        }
        if !is_last {
            return None;
        }
        let (parts, bytes) = (core::mem::take(&mut self.parts), core::mem::take(&mut self.bytes));
        if bytes > TABLE_BYTES_MAX {
            tracing::warn!(bytes, "a router's table of methods is longer than can be known");
            return None;
        }
        self.whole = Some(parts.into());
        self.whole.clone()
    }

    /// A join was refused: what has come of a table so far is told again (RT34).
    pub(crate) fn begin_anew(&mut self) {
        (self.parts, self.bytes) = (Vec::new(), 0);
    }

    /// The newest table that is complete.
    pub(crate) fn whole(&self) -> Option<Arc<[Table]>> {
        self.whole.clone()
    }
}

fn bytes_of(part: &Table) -> usize {
    let names = part.methods.iter().map(|name| size_of_val(name) + name.as_str().len());
    size_of::<Table>() + part.service.as_str().len() + names.sum::<usize>()
}

/// The worker's own numbers, by the group's. Those of earlier tables stay: requests of the epoch
/// before have them, and what a number means never changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnMethods(Vec<u16>);

impl OwnMethods {
    pub(crate) fn learn(&mut self, table: &[Table], names: &MethodNames) {
        let OwnMethods(own) = self;
        for part in table {
            let numbers = usize::from(part.first)..;
            for (number, method) in numbers.zip(&part.methods) {
                let found = (names.0)(part.service.as_str(), method.as_str());
                if number >= own.len() {
                    own.resize(number + 1, NO_METHOD);
                }
                own[number] = found.unwrap_or(NO_METHOD);
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u16) -> Option<u16> {
        self.0.get(usize::from(number)).copied().filter(|own| *own != NO_METHOD)
    }
}

#[cfg(test)]
mod tests {
    use petasos_control::Text;

    use super::*;

    fn part(first: u16, service: &str, methods: &[&str], is_last: bool) -> Table {
        let methods = methods.iter().map(|name| Text::new(name)).collect();
        Table { epoch: 0, first, is_last, service: Text::new(service), methods }
    }

    #[test]
    fn rt31_numbers_are_mapped_by_the_names_of_services_and_methods() {
        let mut told = ToldTable::default();
        assert!(told.hear(part(5, "a.A", &["Get", "Put"], false)).is_none(), "more is to come");
        assert!(told.whole().is_none());
        let table = told.hear(part(9, "a.B", &["Get", "Gone"], true)).expect("it is complete");
        assert_eq!(told.whole().map(|whole| whole.len()), Some(2));
        let names = MethodNames::new(|service, method| match (service, method) {
            ("a.A", "Get") => Some(1),
            ("a.A", "Put") => Some(2),
            ("a.B", "Get") => Some(7),
            _ => None,
        });
        let mut own = OwnMethods::default();
        own.learn(&table, &names);
        let of = |number| own.get(number);
        assert_eq!([5, 6, 9].map(of), [Some(1), Some(2), Some(7)]);
        assert_eq!([0, 4, 7, 8, 10, 11, u16::MAX].map(of), [None; 7]);
        // Another table adds to that.
        let table = told.hear(part(11, "a.A", &["Get"], true)).expect("it is complete");
        own.learn(&table, &names);
        assert_eq!([5, 9, 10, 11].map(|number| own.get(number)), [Some(1), Some(7), None, Some(1)]);
    }

    #[test]
    fn rt31_a_table_without_an_end_is_dropped_and_the_next_one_is_heard() {
        let mut told = ToldTable::default();
        let names: Vec<String> = (0..100).map(|n| format!("M{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let long = part(1, "a.A", &names, false);
        for _ in 0..2 * TABLE_BYTES_MAX / bytes_of(&long) {
            assert!(told.hear(long.clone()).is_none());
            assert!(told.parts.iter().map(bytes_of).sum::<usize>() <= TABLE_BYTES_MAX);
        }
        assert!(told.hear(part(1, "a.A", &["Get"], true)).is_none(), "it was too long");
        // The first part is told again after a refusal.
        assert!(told.hear(part(1, "a.A", &["Get"], false)).is_none());
        told.begin_anew();
        let table = told.hear(part(1, "a.A", &["Get"], true)).expect("it is complete");
        assert_eq!(table.len(), 1);
    }
}
