//! The local halves of sessions, by name.

/// The local half of a session, or of a pair's session. If its index has become another session's,
/// that is harmless: the other holds no share unless it joins by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Half {
    Client(u32),
    Server(u32),
}
