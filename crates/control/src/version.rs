//! Versions of the control protocol and their negotiation (C3).

use core::fmt;

/// A version of the control protocol. Ordered: a later version is greater.
///
/// A minor version only adds what an earlier one may skip (C2). A major version may change anything
/// except the frame, the first fields of a hello, and the error message (C4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Changes when an earlier implementation cannot follow.
    pub major: u8,
    /// Changes when messages are added that earlier implementations may skip.
    pub minor: u8,
}

impl Version {
    /// The version as on the wire.
    pub const fn to_bits(self) -> u16 {
        (self.major as u16) << 8 | self.minor as u16
    }

    /// The version that `bits` names; every value names one.
    pub const fn from_bits(bits: u16) -> Version {
        Version { major: (bits >> 8) as u8, minor: bits as u8 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The versions that a process supports: all from `oldest` to `newest`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// At most `newest`.
    pub oldest: Version,
    /// At least `oldest`.
    pub newest: Version,
}

impl VersionRange {
    /// The version that two processes use: the lower of their newest ones, if both support it (C3).
    pub fn agree(self, other: VersionRange) -> Option<Version> {
        let version = self.newest.min(other.newest);
        (version >= self.oldest && version >= other.oldest).then_some(version)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{} to {}", self.oldest, self.newest),
        }
    }
}

/// The versions that this code supports.
pub const SUPPORTED: VersionRange =
    VersionRange { oldest: Version { major: 1, minor: 0 }, newest: Version { major: 1, minor: 4 } };

#[cfg(test)]
mod tests {
    use super::*;

    fn range(oldest: u16, newest: u16) -> VersionRange {
        VersionRange { oldest: Version::from_bits(oldest), newest: Version::from_bits(newest) }
    }

    #[test]
    fn c3_the_lower_newest_version_is_agreed_if_both_speak_it() {
        let agreed = Some(Version { major: 1, minor: 2 });
        assert_eq!(range(0x100, 0x102).agree(range(0x101, 0x203)), agreed);
        assert_eq!(range(0x101, 0x203).agree(range(0x100, 0x102)), agreed);
        assert_eq!(range(0x100, 0x102).agree(range(0x103, 0x203)), None);
        assert_eq!(range(0x103, 0x203).agree(range(0x100, 0x102)), None);
    }

    #[test]
    fn ranges_print_as_a_person_writes_them() {
        assert_eq!(range(0x100, 0x203).to_string(), "1.0 to 2.3");
        assert_eq!(SUPPORTED.to_string(), "1.0 to 1.4");
        assert_eq!(range(0x100, 0x100).to_string(), "1.0");
    }
}
