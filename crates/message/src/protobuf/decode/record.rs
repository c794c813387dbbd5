//! One field's value on the wire.

/// Where a record lies: what its tag said, and where its message ends.
#[derive(Clone, Copy)]
pub(super) struct Record {
    /// Behind the tag.
    pub(super) at: usize,
    /// The end of the message that has the record.
    pub(super) end: usize,
    pub(super) wire_type: u32,
}
