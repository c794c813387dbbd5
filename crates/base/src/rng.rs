//! A small seeded random number generator. A simulation is replayed from its seed, so the algorithm
//! must not change.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
///
/// Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator whose whole sequence is determined by `seed`.
    pub const fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// The next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no members");
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// True with `probability` (0 is never, 1 is always).
    pub fn chance(&mut self, probability: f64) -> bool {
        ((self.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// A number from the exponential distribution of mean 1, above 0 and below 37.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        // In (0, 1), without its ends.
        let uniform = ((self.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
        -uniform.ln()
    }
}

/// A seed from the operating system's randomness. Every call returns a different one.
pub fn random_seed() -> u64 {
    secret_u64()
}

/// An unpredictable number from the system's cryptographic generator. It costs a system call, so
/// use it for set-up and not for every packet: for those there is
/// [`SecretBlock`](crate::SecretBlock).
///
/// # Panics
/// If the system has no randomness. Linux has it from early boot on.
pub fn secret_u64() -> u64 {
    getrandom::u64().expect("the system gives random numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_sequence() {
        let mut rng = Rng::new(0);
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn chance_is_exact_at_its_ends() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| !rng.chance(0.0) && rng.chance(1.0)));
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new(2);
        assert!((0..1000).all(|_| rng.below(3) < 3));
    }

    #[test]
    fn exponential_numbers_have_the_moments() {
        let mut rng = Rng::new(3);
        let numbers: Vec<f64> = (0..100_000).map(|_| rng.exponential()).collect();
        let mean = |power| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / 100_000.0;
        // The standard deviations of these means are 0.003 and 0.014.
        assert!((mean(1) - 1.0).abs() < 0.02 && (mean(2) - 2.0).abs() < 0.1);
        assert!(numbers.iter().all(|x| (0.0..37.0).contains(x) && *x > 0.0));
    }

    #[test]
    fn seeds_differ() {
        assert_ne!(random_seed(), random_seed());
    }
}
