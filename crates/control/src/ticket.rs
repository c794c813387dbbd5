//! Tickets, with which a connection can replace one that broke (C21).

use core::fmt;

use crate::Malformed;
use crate::fields::Reader;

/// The most resumes that a dialler may send on one connection.
pub const RESUMES_MAX: usize = 4;

/// A secret number of one connection. Whoever shows it may replace that connection by another one.
/// It must be unpredictable, and is valid once.
#[derive(Clone, Copy)]
pub struct Ticket([u8; 16]);

impl Ticket {
    /// A ticket of these bytes.
    pub const fn new(bytes: [u8; 16]) -> Ticket {
        Ticket(bytes)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Ticket, Malformed> {
        Ok(Ticket(reader.array()?))
    }
}

/// Compares in constant time.
impl PartialEq for Ticket {
    fn eq(&self, other: &Ticket) -> bool {
        u128::from_le_bytes(self.0) ^ u128::from_le_bytes(other.0) == 0
    }
}

impl Eq for Ticket {}

/// Keeps the secret out of logs.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(..)")
    }
}
