//! Binds, which assign numbers to a service's methods in a session (R2).

use crate::{CodecSet, Malformed};

/// A schema's canonical hash, truncated to 16 bytes as in binds; zeros: none.
pub type Hash = [u8; 16];

/// In the number of a layout: only messages of unary calls are native (R2, R4).
pub const UNARY_ONLY: u16 = 1 << 15;

const VERSION: u16 = 1;
const REQUEST_BYTES: usize = 24;
const RESPONSE_BYTES: usize = 28;

/// The body of a bind request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindRequest<'a> {
    /// Version of the native layout that the caller supports, and [`UNARY_ONLY`]; 0: none.
    pub layout: u16,
    /// Hash of the caller's schema of the service; zeros: it has no schema.
    pub hash: Hash,
    /// Full name of the service.
    pub name: &'a str,
}

impl<'a> BindRequest<'a> {
    /// Parses a body. Newer versions begin with the same fields.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn parse(body: &'a [u8]) -> Result<BindRequest<'a>, Malformed> {
        let (fixed, name) = body.split_first_chunk::<REQUEST_BYTES>().ok_or(Malformed::TooShort)?;
        if u16_at(fixed, 0) == 0 {
            return Err(Malformed::Bind);
        }
        let name = std::str::from_utf8(name).map_err(|_| Malformed::Text)?;
        Ok(BindRequest { layout: u16_at(fixed, 2), hash: hash_at(fixed), name })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.layout.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.hash);
        out.extend_from_slice(self.name.as_bytes());
    }
}

/// The body of a bind response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindResponse<'a> {
    /// Version of the native layout that the server supports, and [`UNARY_ONLY`]; 0: none.
    pub layout: u16,
    /// The codecs that the server accepts.
    pub codecs: CodecSet,
    /// Hash of the server's schema of the service.
    pub hash: Hash,
    /// Number of the first method; not 0 if there are methods.
    pub first: u16,
    /// The number of methods.
    pub methods: u16,
    /// Compact schema of the service; empty if the hashes are equal.
    pub schema: &'a [u8],
}

impl<'a> BindResponse<'a> {
    /// Parses a body.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn parse(body: &'a [u8]) -> Result<BindResponse<'a>, Malformed> {
        let (fixed, schema) =
            body.split_first_chunk::<RESPONSE_BYTES>().ok_or(Malformed::TooShort)?;
        let codecs = u32::from_le_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        let (first, methods) = (u16_at(fixed, 24), u16_at(fixed, 26));
        let numbered = methods == 0 || first > 0 && first.checked_add(methods - 1).is_some();
        if u16_at(fixed, 0) != VERSION || !numbered {
            return Err(Malformed::Bind);
        }
        let (layout, codecs) = (u16_at(fixed, 2), CodecSet::from_bits(codecs));
        Ok(BindResponse { layout, codecs, hash: hash_at(fixed), first, methods, schema })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.layout.to_le_bytes());
        out.extend_from_slice(&self.codecs.bits().to_le_bytes());
        out.extend_from_slice(&self.hash);
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.methods.to_le_bytes());
        out.extend_from_slice(self.schema);
    }
}

fn u16_at(fixed: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([fixed[offset], fixed[offset + 1]])
}

/// The hash has the same position in both bodies.
fn hash_at(fixed: &[u8]) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(&fixed[8..24]);
    hash
}

#[cfg(test)]
#[path = "bind_tests.rs"]
mod tests;
