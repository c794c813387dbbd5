//! The faults of a link.

use petasos_base::Rng;

/// Probabilities of the faults of one packet on one link, each from 0 to 1.
///
/// They hold per link: a packet that crosses four links runs each risk four times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultProfile {
    /// The packet is lost.
    pub loss: f64,
    /// The packet arrives a second time, later.
    pub duplicate: f64,
    /// The packet is held back while others overtake it.
    pub reorder: f64,
    /// Bits flip. The receiver's UDP checksum detects that and drops the packet, unless:
    pub corrupt: f64,
    /// A corrupted packet's checksum is correct by accident, so that the damage is delivered.
    /// [`FaultProfile::UNDETECTED_REALISTIC`] is the probability for a 16-bit checksum. Set it
    /// higher only where something above the network checks the bytes as well.
    pub undetected: f64,
}

impl FaultProfile {
    /// The probability that a 16-bit checksum misses damage.
    pub const UNDETECTED_REALISTIC: f64 = 1.0 / 65_536.0;

    /// No faults.
    pub const fn clean() -> FaultProfile {
        FaultProfile { loss: 0.0, duplicate: 0.0, reorder: 0.0, corrupt: 0.0, undetected: 0.0 }
    }

    /// Bad conditions in a datacenter: a percent of every fault, no undetected damage.
    pub const fn lossy() -> FaultProfile {
        FaultProfile {
            loss: 0.01,
            duplicate: 0.001,
            reorder: 0.01,
            corrupt: 0.001,
            undetected: 0.0,
        }
    }

    /// Worse than any real network, undetected damage included.
    pub const fn hostile() -> FaultProfile {
        FaultProfile {
            loss: 0.1,
            duplicate: 0.05,
            reorder: 0.2,
            corrupt: 0.02,
            undetected: FaultProfile::UNDETECTED_REALISTIC,
        }
    }

    /// A random profile between clean and hostile. Each fault is absent half of the time, so that
    /// seeds also cover faults in isolation. Never undetected damage.
    pub fn random(rng: &mut Rng) -> FaultProfile {
        let worst = FaultProfile::hostile();
        let mut knob = |max: f64| if rng.chance(0.5) { max * small_fraction(rng) } else { 0.0 };
        FaultProfile {
            loss: knob(worst.loss),
            duplicate: knob(worst.duplicate),
            reorder: knob(worst.reorder),
            corrupt: knob(worst.corrupt),
            undetected: 0.0,
        }
    }

    /// Whether nothing can go wrong.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.loss == 0.0 && self.duplicate == 0.0 && self.reorder == 0.0 && self.corrupt == 0.0
    }

    /// # Panics
    /// If a probability lies outside 0 to 1: the caller's fault.
    pub(crate) fn check(&self) {
        let knobs = [self.loss, self.duplicate, self.reorder, self.corrupt, self.undetected];
        assert!(knobs.iter().all(|p| (0.0..=1.0).contains(p)), "not a probability: {self:?}");
    }
}

/// A number from 1/1024 to 1, each power of two equally likely: rare faults find other bugs than
/// frequent ones.
fn small_fraction(rng: &mut Rng) -> f64 {
    1.0 / (1u64 << rng.below(11)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_profiles_are_valid_varied_and_follow_the_seed() {
        let mut rng = Rng::new(3);
        let profiles: Vec<_> = (0..200).map(|_| FaultProfile::random(&mut rng)).collect();
        profiles.iter().for_each(FaultProfile::check);
        assert!(profiles.iter().any(|p| p.loss > 0.0 && p.duplicate == 0.0));
        assert!(profiles.iter().any(|p| p.loss == 0.0 && p.corrupt > 0.0));
        assert!(profiles.iter().all(|p| p.undetected == 0.0));
        assert_eq!(profiles[0], FaultProfile::random(&mut Rng::new(3)));
    }

    #[test]
    fn presets_grow_worse() {
        assert!(FaultProfile::clean().is_clean() && !FaultProfile::lossy().is_clean());
        assert!(FaultProfile::lossy().loss < FaultProfile::hostile().loss);
        FaultProfile::hostile().check();
    }

    #[test]
    #[should_panic(expected = "not a probability")]
    fn a_probability_above_one_is_refused() {
        FaultProfile { loss: 1.5, ..FaultProfile::clean() }.check();
    }
}
