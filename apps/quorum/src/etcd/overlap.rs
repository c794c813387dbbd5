//! No key is written twice by one transaction: which of the two would count? etcd's rule: a key
//! that is put is put once, whichever way comparisons within go, and not deleted, not even the
//! other way. Deletions may overlap. (etcd overlooks some of that: deletions from a key on, and
//! those of a transaction within that comes after a put of another one.)

use super::operation::{End, Keys, Operation, Txn};

/// A key would be written twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap;

/// What operations may write.
#[derive(Default)]
struct Written<'a> {
    /// Each with the number of the operation of its list.
    puts: Vec<(&'a [u8], usize)>,
    deleted: Vec<Keys<'a>>,
}

impl<'a> Written<'a> {
    fn of(list: &[Operation<'a>]) -> Result<Written<'a>, Overlap> {
        let mut all = Written::default();
        for (number, operation) in list.iter().enumerate() {
            match operation {
                Operation::Range(_) => {}
                Operation::Put(put) => all.puts.push((put.key, number)),
                Operation::Delete { keys, .. } => all.deleted.push(*keys),
                // Only one way of it is gone: what both put is not put twice.
                Operation::Txn(txn) => {
                    for list in [&txn.then, &txn.otherwise] {
                        let Written { puts, deleted } = Written::of(list)?;
                        all.puts.extend(puts.iter().map(|(key, _)| (*key, number)));
                        all.deleted.extend(deleted);
                    }
                }
            }
        }
        all.puts.sort_unstable();
        all.is_single().then_some(all).ok_or(Overlap)
    }

    /// Whether no two operations write the same.
    fn is_single(&self) -> bool {
        let is_put_twice =
            self.puts.windows(2).any(|two| two[0].0 == two[1].0 && two[0].1 != two[1].1);
        let is_put = |keys: &Keys<'_>| {
            let from = self.puts.partition_point(|(key, _)| *key < keys.from);
            let until = match keys.end {
                End::Single => self.puts.partition_point(|(key, _)| *key <= keys.from),
                End::Before(end) => self.puts.partition_point(|(key, _)| *key < end),
                End::Last => self.puts.len(),
            };
            from < until
        };
        !is_put_twice && !self.deleted.iter().any(is_put)
    }
}

/// Checks both ways of a transaction.
///
/// # Errors
/// A key may be written twice.
pub fn check(txn: &Txn<'_>) -> Result<(), Overlap> {
    Written::of(&txn.then)?;
    Written::of(&txn.otherwise).map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::operation::Put;
    use super::*;

    fn put(key: &[u8]) -> Operation<'_> {
        Operation::Put(Put { key, value: Some(b""), lease: Some(0), wants_previous: false })
    }

    fn delete<'a>(from: &'a [u8], end: End<'a>) -> Operation<'a> {
        Operation::Delete { keys: Keys { from, end }, wants_previous: false }
    }

    fn is_good(then: Vec<Operation<'_>>) -> bool {
        check(&Txn { then, ..Txn::default() }).is_ok()
    }

    #[test]
    fn a_key_is_put_once_and_not_deleted() {
        let both = |then, otherwise| Operation::Txn(Txn { compares: vec![], then, otherwise });
        assert!(is_good(vec![put(b"a"), put(b"b"), delete(b"c", End::Last)]));
        assert!(is_good(vec![put(b"a"), delete(b"b", End::Before(b"a")), delete(b"b", End::Last)]));
        assert!(is_good(vec![both(vec![put(b"a")], vec![put(b"a"), delete(b"b", End::Single)])]));
        assert!(!is_good(vec![both(vec![put(b"a")], vec![delete(b"a", End::Single)])]));
        assert!(!is_good(vec![put(b"a"), put(b"a")]));
        assert!(!is_good(vec![delete(b"a", End::Single), put(b"a")]));
        assert!(!is_good(vec![put(b"b"), delete(b"a", End::Before(b"c"))]));
        assert!(!is_good(vec![put(b"a"), both(vec![], vec![put(b"a")])]));
        assert!(!is_good(vec![delete(b"", End::Last), both(vec![put(b"z")], vec![])]));
        assert!(!is_good(vec![both(vec![put(b"a"), put(b"a")], vec![])]));
    }
}
