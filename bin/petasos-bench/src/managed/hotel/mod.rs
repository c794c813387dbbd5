//! Reservations of hotels: calls that a policy decides by a field of their requests, as in the mRPC
//! paper's section 7.2. One of a hundred is by a customer who is to be refused.

mod grpc;
mod typed;

use petasos_base::sync::{AtomicU64, Ordering};

pub use grpc::{GrpcHotelClient, server as grpc_server};
pub use typed::{HotelClient, server};

/// Who is refused.
pub const FORBIDDEN: &str = "mallory";
/// One call of so many is hers.
pub const ONE_OF: u64 = 100;
/// Another.
const WELCOME: &str = "alice b.";
const FROM: &str = "2015-04-09";
const TO: &str = "2015-04-10";
/// What is recommended to everybody.
const HOTELS: [&str; 3] = ["Clift Hotel", "W San Francisco", "Hotel Zetta"];

/// Who calls next, and how many have been refused.
#[derive(Debug, Default)]
struct Guests {
    came: AtomicU64,
    refused: AtomicU64,
}

impl Guests {
    /// The next customer.
    fn next(&self) -> &'static str {
        let number = self.came.fetch_add(1, Ordering::Relaxed);
        if number % ONE_OF == ONE_OF - 1 { FORBIDDEN } else { WELCOME }
    }

    /// One was refused.
    ///
    /// # Errors
    /// If it was one who may call.
    fn refused(&self, name: &str) -> Result<(), String> {
        if name != FORBIDDEN {
            return Err(format!("`{name}` is refused"));
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// How many were refused, and how many were to be.
    fn counts(&self) -> [u64; 2] {
        [self.refused.load(Ordering::Relaxed), self.came.load(Ordering::Relaxed) / ONE_OF]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_is_to_be_refused() {
        let guests = Guests::default();
        let forbidden = (0..250).filter(|_| guests.next() == FORBIDDEN).count();
        assert_eq!((forbidden, guests.counts()), (2, [0, 2]));
        guests.refused(FORBIDDEN).expect("she may be");
        assert_eq!(guests.counts(), [1, 2]);
        assert!(guests.refused(WELCOME).is_err());
    }
}
