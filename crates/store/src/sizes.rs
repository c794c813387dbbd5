//! What a partition has, once a table's configuration was found to be possible.

/// What a table does when it has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It forgets what was written the longest ago (K3).
    Cache,
    /// It refuses the write (K4).
    Store,
}

/// What one partition has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub mode: Mode,
    /// Main buckets.
    pub buckets: u32,
    /// Overflow buckets.
    pub overflow: u32,
    pub log_words: u64,
    /// Of the longest item.
    pub item_words_max: u64,
    pub value_bytes_max: u32,
    pub locks_max: u32,
}
