//! Which partition a key is in, which everybody can compute, and which bucket, which nobody else
//! can (K12).

use siphasher::sip::SipHasher13;
use xxhash_rust::xxh64::xxh64;

/// The partition of a key, of so many: the highest 32 bits of XXH64 with seed 0, modulo `count`
/// (K12). Clients compute it to find a key's owner.
///
/// # Panics
/// If `count` is 0.
#[must_use]
pub fn partition_of(key: &[u8], count: u16) -> u16 {
    let highest = xxh64(key, 0) >> 32;
    (highest % u64::from(count)) as u16
}

/// A table's secret: keys that share a bucket cannot be chosen without it.
#[derive(Clone, Copy)]
pub(crate) struct Secret(SipHasher13);

impl Secret {
    pub fn new(bits: [u64; 2]) -> Secret {
        Secret(SipHasher13::new_with_keys(bits[0], bits[1]))
    }

    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(self.0.hash(key))
    }
}

// Not derived: a secret is not printed.
impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

/// A key's hash with a table's secret. It says nothing to anybody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u64);

impl KeyHash {
    /// The main bucket, of so many, by the lowest 32 bits.
    #[inline]
    pub(crate) fn bucket(self, count: u32) -> usize {
        (((self.0 & 0xffff_ffff) * u64::from(count)) >> 32) as usize
    }

    /// The highest 16 bits, which do not choose the bucket.
    #[inline]
    pub(crate) fn tag(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From XXH64's published vectors: nothing hashes to 0xef46db3751d8e999, and "abc" to
    /// 0x44bc2cf5ad770999.
    #[test]
    fn k12_the_partition_is_xxh64s() {
        assert_eq!(partition_of(b"", u16::MAX), (0xef46_db37_u64 % 65_535) as u16);
        assert_eq!(partition_of(b"abc", 1000), (0x44bc_2cf5_u64 % 1000) as u16);
        assert_eq!(partition_of(b"anything", 1), 0);
    }

    #[test]
    fn k12_buckets_follow_from_the_secret() {
        let [one, other] = [1, 2].map(|bits| Secret::new([bits, 3]));
        let differ = (0..1000u32).filter(|key| {
            let bucket_of = |secret: &Secret| secret.hash(&key.to_le_bytes()).bucket(1 << 20);
            bucket_of(&one) != bucket_of(&other)
        });
        assert!(differ.count() > 990);
        assert_eq!(format!("{one:?}"), "Secret");
    }

    #[test]
    fn buckets_are_all_used_and_none_beyond() {
        let used = |count: u32| {
            let secret = Secret::new([4, 5]);
            let mut used = vec![0u32; count as usize];
            (0..70_000u32).for_each(|key| used[secret.hash(&key.to_le_bytes()).bucket(count)] += 1);
            used
        };
        assert!(used(7).iter().all(|keys| (9_500..10_500).contains(keys)));
        assert_eq!(used(1), [70_000]);
    }
}
