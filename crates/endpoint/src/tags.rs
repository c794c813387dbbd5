//! The tags of sessions.
//!
//! A packet must carry its session's tag to be accepted (W4), so nobody may be able to guess a tag
//! from other tags that they have been granted. Tags come from blocks of the system's cryptographic
//! generator, of which each byte is used once. Simulations and tests that are replayed use a seed
//! instead.

use petasos_base::{Rng, SecretBlock};
use petasos_wire::TAG_MAX;

/// Where tags come from.
pub(crate) enum Tags {
    /// The system. The only state is what it gave for later tags, which earlier ones do not reveal.
    Secret(SecretBlock),
    /// A seed, so that a run can be repeated. Three tags reveal all later ones.
    Seeded(Rng),
}

impl Tags {
    pub(crate) fn new(seed: Option<u64>) -> Tags {
        seed.map_or(Tags::Secret(SecretBlock::new()), |seed| Tags::Seeded(Rng::new(seed)))
    }

    /// The next tag.
    pub(crate) fn take(&mut self) -> u32 {
        match self {
            // The bound is so near a power of two that no value is noticeably more likely.
            Tags::Secret(block) => (block.next_u64() % u64::from(TAG_MAX)) as u32,
            Tags::Seeded(rng) => rng.below(u64::from(TAG_MAX)) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(seed: Option<u64>) -> [u32; 3] {
        let mut tags = Tags::new(seed);
        [(); 3].map(|()| tags.take())
    }

    #[test]
    fn a_seed_repeats_them() {
        assert_eq!(three(Some(7)), three(Some(7)));
        assert_ne!(three(Some(7)), three(Some(8)));
    }

    /// Issue 10: all tags of an endpoint came from one SplitMix64, whose state three of them give.
    /// Without a seed each tag has bytes of its own, so nothing follows from any number of tags.
    #[test]
    fn issue_10_granted_tags_do_not_tell_the_next() {
        assert!(matches!(Tags::new(crate::EndpointConfig::default().seed), Tags::Secret(_)));
        assert!(three(None).iter().all(|tag| *tag < TAG_MAX));
        assert_ne!(three(None), three(None));
    }
}
