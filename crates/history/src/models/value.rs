//! Values that grow, in constant space.
//!
//! A register that is appended to a hundred thousand times would fill the memory with its past
//! values. So a value is known by its length and a hash that can be continued (a polynomial, modulo
//! the prime 2^61 - 1, for two bases): two values with the same are taken for the same.

use std::fmt;

use crate::bytes::Bytes;

const PRIME: u64 = (1 << 61) - 1;
/// Any two numbers below the prime.
const BASES: [u64; 2] = [0x0a3b_91c4_55d7_e1f9, 0x153c_7d11_98ab_02e7];
/// So much of a value is kept for people.
const SHOWN: usize = 60;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    hashes: [u64; 2],
    length: u64,
    shown: Bytes,
}

impl Value {
    /// Of these bytes.
    pub fn of(bytes: &Bytes) -> Value {
        let hash = |base: u64| {
            // Each byte counts as one more, so that zeros at the begin make a difference.
            let add = |hash, byte: &u8| (product(hash, base) + u64::from(*byte) + 1) % PRIME;
            bytes.as_slice().iter().fold(0, add)
        };
        let shown = &bytes.as_slice()[..bytes.as_slice().len().min(SHOWN)];
        let length = bytes.as_slice().len() as u64;
        Value { hashes: BASES.map(hash), length, shown: shown.into() }
    }

    /// The value with another one behind it.
    pub fn with(&self, more: &Value) -> Value {
        let hash = |which: usize| {
            let shifted = product(self.hashes[which], power(BASES[which], more.length));
            (shifted + more.hashes[which]) % PRIME
        };
        let shown = match self.length {
            0..60 => {
                let mut all = self.shown.with(&more.shown).as_slice().to_vec();
                all.truncate(SHOWN);
                all.as_slice().into()
            }
            _ => self.shown.clone(),
        };
        Value { hashes: [hash(0), hash(1)], length: self.length + more.length, shown }
    }

    /// How many bytes there are.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length > SHOWN as u64 {
            false => write!(f, "{:?}", self.shown),
            true => write!(f, "{:?}… ({} bytes)", self.shown, self.length),
        }
    }
}

fn product(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other) % u128::from(PRIME);
    u64::try_from(product).expect("it is below the prime")
}

fn power(base: u64, exponent: u64) -> u64 {
    let (mut power, mut square, mut left) = (1, base, exponent);
    while left > 0 {
        if left % 2 == 1 {
            power = product(power, square);
        }
        square = product(square, square);
        left /= 2;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_two_pieces_is_the_value() {
        let bytes: Vec<u8> = (0..=255).chain([0, 0, 7]).collect();
        let whole = Value::of(&bytes.as_slice().into());
        for cut in 0..bytes.len() {
            let [begin, end] = [&bytes[..cut], &bytes[cut..]].map(|piece| Value::of(&piece.into()));
            assert_eq!(begin.with(&end), whole, "cut at {cut}");
            assert!(cut == 0 || end.with(&begin) != whole, "cut at {cut}");
        }
        assert_eq!(whole.length(), 259);
        assert!(whole.to_string().ends_with("… (259 bytes)"), "{whole}");
    }

    #[test]
    fn zeros_count() {
        let zeros: Vec<Value> = (0..4).map(|n| Value::of(&vec![0; n].as_slice().into())).collect();
        assert!((1..4).all(|n| zeros[n] != zeros[n - 1]));
        assert_eq!(zeros[1].with(&zeros[2]), zeros[3]);
    }
}
