//! How an operation ended (K19).

/// What a response says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Status {
    /// It is done.
    #[error("done")]
    Done = 0,
    /// The key has no item. Nothing has changed.
    #[error("the key has no item")]
    Absent = 1,
    /// The key has an item, or another one than was compared with. Nothing has changed: read it,
    /// and try again.
    #[error("the key has an item, or has another one by now")]
    Present = 2,
    /// The store has no room. Nothing has changed: try again when it has.
    #[error("the store has no room for it")]
    Full = 3,
    /// The value is no number, or the sum would be none. Nothing has changed.
    #[error("the value is no number of 8 bytes, or the sum would be none")]
    NoNumber = 4,
    /// Key or value are too long, or the key is empty. Nothing has changed.
    #[error("a key has 1 to 1024 bytes, and a value at most what the server is configured for")]
    TooLong = 5,
    /// A transaction has locked the key's bucket. Nothing has changed: try again soon.
    #[error("a transaction has locked the key")]
    Locked = 6,
    /// The request is not as the specification says. Nothing has changed.
    #[error("the request is malformed")]
    Malformed = 7,
    /// The endpoint does not own the key's partition: get the layout, and ask its owner.
    #[error("the endpoint does not own the key")]
    NotOwner = 8,
    /// One of many operations whose responses together are long enough. It was not done: ask again.
    #[error("it was not done, as the response is long enough without it")]
    NotReached = 9,
}

impl Status {
    /// The status with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Status> {
        use Status::*;
        let all = [
            Done, Absent, Present, Full, NoNumber, TooLong, Locked, Malformed, NotOwner, NotReached,
        ];
        all.get(usize::from(code)).copied()
    }
}
