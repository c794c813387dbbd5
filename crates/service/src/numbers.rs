//! Calls by their numbers.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use petasos_abi::CallNumber;
use petasos_base::secret_u64;
use petasos_engine::CallId;

/// Places of [`CallNumbers`] that are found without a hash.
const PLACES: usize = 256;

/// Calls by the numbers that their lane has for them.
///
/// Both sides count up. So a call has the place that the low bits of its number name, unless an
/// older one is still there. Then it is in a map, however the application chose the number.
///
/// Invariant: a number is at its place, or in the map, not in both.
#[derive(Debug, Default)]
pub(crate) struct CallNumbers {
    /// Empty until the first call, then [`PLACES`].
    places: Vec<Option<(CallNumber, CallId)>>,
    others: HashMap<CallNumber, CallId, Mix>,
}

impl CallNumbers {
    /// The call that has a number now.
    #[inline]
    pub(crate) fn get(&self, number: CallNumber) -> Option<CallId> {
        match self.places.get(place_of(number)) {
            Some(Some((known, id))) if *known == number => Some(*id),
            _ if self.others.is_empty() => None,
            _ => self.others.get(&number).copied(),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.iter().flatten().count() + self.others.len()
    }

    /// A call begins, whose number no other has.
    #[inline]
    pub(crate) fn insert(&mut self, number: CallNumber, id: CallId) {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        match &mut self.places[place_of(number)] {
            place @ None => *place = Some((number, id)),
            Some(_) => drop(self.others.insert(number, id)),
        }
    }

    /// The call of a number is over.
    #[inline]
    pub(crate) fn remove(&mut self, number: CallNumber) {
        match self.places.get_mut(place_of(number)) {
            Some(place) if place.is_some_and(|(known, _)| known == number) => *place = None,
            _ => drop(self.others.remove(&number)),
        }
    }
}

/// Numbers of the two sides begin at different places.
fn place_of(number: CallNumber) -> usize {
    let number = number.get();
    (number ^ number >> 56) as usize % PLACES
}

/// Multiplies by a secret: the application chooses numbers, and must not choose them so that all
/// are in one place. (Multiply-shift hashing: Dietzfelbinger et al., 1997.)
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    factors: [u64; 2],
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { factors: [secret_u64() | 1, secret_u64() | 1] }
    }
}

impl BuildHasher for Mix {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed { factors: self.factors, hash: 0 }
    }
}

/// The hash of one number.
pub(crate) struct Mixed {
    factors: [u64; 2],
    hash: u64,
}

impl Hasher for Mixed {
    fn write_u64(&mut self, number: u64) {
        // The high half of the product depends on all bits of the number.
        let product = u128::from(number ^ self.factors[1]) * u128::from(self.factors[0]);
        self.hash = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(self.hash ^ u64::from_le_bytes(word));
        }
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use petasos_abi::Side;

    use super::*;

    #[test]
    fn calls_are_found_by_any_numbers_until_they_are_removed() {
        let (mut numbers, mut model) = (CallNumbers::default(), HashMap::new());
        let mut rng = petasos_base::Rng::new(7);
        for step in 0..20_000u64 {
            // A few places for many numbers, and some of each side.
            let side = if rng.chance(0.5) { Side::Service } else { Side::Application };
            let number = CallNumber::new(side, rng.below(64) * 128);
            assert_eq!(numbers.get(number), model.get(&number).copied());
            if model.remove(&number).is_some() {
                numbers.remove(number);
            } else {
                let id = CallId::from_number(step);
                numbers.insert(number, id);
                model.insert(number, id);
            }
            let at_places = numbers.places.iter().flatten().count();
            assert_eq!(at_places + numbers.others.len(), model.len());
        }
        assert!(!numbers.others.is_empty());
    }

    #[test]
    fn calls_one_after_the_other_need_no_map() {
        let mut numbers = CallNumbers::default();
        for count in 0..10_000 {
            for side in [Side::Application, Side::Service] {
                numbers.insert(CallNumber::new(side, count), CallId::from_number(count));
                if count >= 100 {
                    numbers.remove(CallNumber::new(side, count - 100));
                }
            }
        }
        assert_eq!(numbers.others.capacity(), 0);
    }

    #[test]
    fn numbers_are_spread_over_low_and_high_bits() {
        let count = |places: &dyn Fn(u64) -> u64| {
            (0..64).map(places).collect::<std::collections::HashSet<_>>().len()
        };
        for step in [1u64, 2, 64, 1 << 20, 1 << 40, 1 << 57] {
            // One secret in some hundred spreads one of these steps less well.
            let mut tries = (0..8).map(|_| {
                let mix = Mix::default();
                let hash = |number: u64| mix.hash_one(number.wrapping_mul(step));
                count(&|number| hash(number) % 4096).min(count(&|number| hash(number) >> 52))
            });
            assert!(tries.any(|places| places > 24), "{step}");
        }
    }
}
