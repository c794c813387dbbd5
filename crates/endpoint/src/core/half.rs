//! The local halves of sessions, by name.

/// The local half of a session, or what pairs know of a link. If its index has become another's,
/// that is harmless: the other holds no share unless it joins by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Half {
    Client(u32),
    Server(u32),
    /// The pairs of a client that are bound by a link.
    Link(u32),
}
