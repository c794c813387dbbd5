//! What a transaction consists of.

/// A range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a> {
    /// The first one, or the only one.
    pub from: &'a [u8],
    /// Where the range ends.
    pub end: End<'a>,
}

impl Keys<'_> {
    /// Whether a key is one of these.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self.end {
            End::Single => key == self.from,
            End::Before(end) => key >= self.from && key < end,
            End::Last => key >= self.from,
        }
    }
}

/// Where a range of keys ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// It is one key.
    Single,
    /// Before this key.
    Before(&'a [u8]),
    /// Behind all keys.
    Last,
}

/// What a comparison looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// How often the key was written since it was created.
    Version(i64),
    /// The revision that created it.
    Created(i64),
    /// The revision that wrote it last.
    Modified(i64),
    /// Its value.
    Value(&'a [u8]),
    /// Its lease.
    Lease(i64),
}

/// How a key's property and the given one have to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Relation {
    /// They are equal.
    Equal = 0,
    /// The key's is greater.
    Greater = 1,
    /// The key's is less.
    Less = 2,
    /// They differ.
    NotEqual = 3,
}

/// A comparison. It has to hold for each key of the range. A key that is not there has numbers that
/// are 0, and no value that equals another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare<'a> {
    /// Which keys.
    pub keys: Keys<'a>,
    /// With what.
    pub target: Target<'a>,
    /// How.
    pub relation: Relation,
}

/// Reads keys and values in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<'a> {
    /// Which keys.
    pub keys: Keys<'a>,
    /// As of which revision; 0 for the latest.
    pub revision: i64,
    /// At most so many; 0 for all. All are counted.
    pub limit: u64,
    /// Without their values.
    pub keys_only: bool,
    /// Only their number.
    pub count_only: bool,
}

/// Stores a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// The value; [`None`] keeps the one that is there.
    pub value: Option<&'a [u8]>,
    /// The lease that the key goes with, 0 for none; [`None`] keeps the one that is there.
    pub lease: Option<i64>,
    /// Whether the result has what was there before.
    pub wants_previous: bool,
}

/// Part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Reads.
    Range(Range<'a>),
    /// Stores a value.
    Put(Put<'a>),
    /// Deletes keys.
    Delete {
        /// Which.
        keys: Keys<'a>,
        /// Whether the result has what was deleted.
        wants_previous: bool,
    },
    /// A transaction within.
    Txn(Txn<'a>),
}

/// A transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn<'a> {
    /// Comparisons.
    pub compares: Vec<Compare<'a>>,
    /// What is done if all are true.
    pub then: Vec<Operation<'a>>,
    /// What is done if not.
    pub otherwise: Vec<Operation<'a>>,
}

impl<'a> Txn<'a> {
    /// A transaction that does one thing.
    pub fn of(operation: Operation<'a>) -> Txn<'a> {
        Txn { then: vec![operation], ..Txn::default() }
    }
}
