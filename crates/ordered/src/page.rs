//! What is made of scans: pages and sums.

/// Keys of a range with their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In the scan's order.
    pub items: Vec<(Vec<u8>, u64)>,
    /// Whether the range has more, beyond the last of these.
    pub has_more: bool,
}

/// The sum of a range's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many keys.
    pub keys: u64,
    /// Of all their numbers: 2^64 of the largest fit.
    pub total: u128,
}
