//! What a datagram and a segmented send may carry.

/// The longest UDP payload over IPv4, and the most that one segmented send may carry.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Holds whatever one call receives.
pub(crate) const RECEIVE_BYTES_MAX: usize = 65_536;
/// The most datagrams of one segmented send that every kernel takes.
pub(crate) const SEGMENTS_MAX: usize = 64;
