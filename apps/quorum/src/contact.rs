//! What all members know of each other: a membership's contexts, and what comes before their
//! messages.

use std::net::SocketAddr;

/// Where a member is, and which of its lives this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// 128 random bits that were made with the member's data, and end with it: whoever has the
    /// member's number and not these has lost what it has promised, or never was it (QR8). They are
    /// told to members only.
    pub incarnation: u128,
    /// Its control address.
    pub address: SocketAddr,
}

const VERSION: u8 = 1;

impl Contact {
    /// The bytes of a [`Membership`](petasos_raft::Membership)'s context: version (1), incarnation
    /// (16), the address as text.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.incarnation.to_le_bytes());
        bytes.extend_from_slice(self.address.to_string().as_bytes());
        bytes
    }

    /// Reads them, from bytes that nobody vouches for.
    pub fn decode(bytes: &[u8]) -> Option<Contact> {
        let (&[VERSION], rest) = bytes.split_first_chunk()? else { return None };
        let (incarnation, address) = rest.split_first_chunk()?;
        let address = core::str::from_utf8(address).ok()?.parse().ok()?;
        Some(Contact { incarnation: u128::from_le_bytes(*incarnation), address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_are_read_as_they_were_written_or_not_at_all() {
        for address in ["127.0.0.1:7431", "[::1]:9"] {
            let contact = Contact { incarnation: 7 << 90, address: address.parse().unwrap() };
            let bytes = contact.encode();
            assert_eq!(Contact::decode(&bytes), Some(contact));
            assert!(
                (0..bytes.len() - 1)
                    .all(|length| { Contact::decode(&bytes[..length]) != Some(contact) })
            );
        }
        assert_eq!(Contact::decode(b""), None);
        assert_eq!(Contact::decode(&[1; 40]), None);
    }
}
