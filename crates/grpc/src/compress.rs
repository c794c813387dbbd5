//! The names of compressions in headers.

/// How messages are compressed (`grpc-encoding`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    #[default]
    Identity,
    /// RFC 1952.
    Gzip,
}

/// What both ends declare that they accept (`grpc-accept-encoding`).
pub(crate) const ACCEPTED: &str = "identity,gzip";

impl Compression {
    /// The name in headers.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::Identity => "identity",
            Compression::Gzip => "gzip",
        }
    }

    pub(crate) fn from_name(name: &[u8]) -> Option<Compression> {
        match name {
            b"identity" => Some(Compression::Identity),
            b"gzip" => Some(Compression::Gzip),
            _ => None,
        }
    }
}
