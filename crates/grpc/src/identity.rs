//! Who a client is.

/// What a verified certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// DNS names and URIs of the certificate (its subject alternative names), DNS names first.
    pub names: Vec<String>,
    /// The certificate, in DER.
    pub certificate: Vec<u8>,
}
