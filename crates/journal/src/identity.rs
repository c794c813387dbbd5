//! Whose directory it is (QR17): a file of one block, written when everything else is there.

use crate::bytes::{head, seal, sealed, u32_at, u64_at, u128_at};
use crate::error::Doing;
use crate::{Error, File, FileError, Files, IdentityError};

/// A member of a group. Both are numbers that are never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The group.
    pub group: u128,
    /// The member's number in it.
    pub member: u64,
}

/// The file.
pub(crate) const IDENTITY: &str = "identity";
/// Under this name it is written.
pub(crate) const IDENTITY_NEW: &str = "identity.new";
/// The file that is locked.
pub(crate) const LOCK: &str = "lock";
/// The format of all files in the directory.
pub(crate) const FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"petasosJ";
const BLOCK_BYTES: usize = 64;

impl Identity {
    /// Reads whose directory it is.
    ///
    /// # Errors
    /// [`IdentityError`], if it is nobody's, or cannot be read.
    pub fn read(files: &impl Files) -> Result<Identity, Error> {
        let unreadable = |error: FileError| IdentityError::Unreadable { what: error.to_string() };
        let file = match files.open_read_only(IDENTITY) {
            Err(FileError::NotFound) => return Err(IdentityError::None.into()),
            file => file.map_err(unreadable)?,
        };
        let (block, bytes) = head::<BLOCK_BYTES>(&file).map_err(unreadable)?;
        Ok(parse(&block, bytes)?)
    }

    /// Checks that the directory is this member's.
    pub(crate) fn check(self, files: &impl Files) -> Result<(), Error> {
        let found = Identity::read(files)?;
        if found.group != self.group {
            let (found, expected) = (found.group, self.group);
            return Err(IdentityError::OtherGroup { found, expected }.into());
        }
        if found.member != self.member {
            let (found, expected) = (found.member, self.member);
            return Err(IdentityError::OtherMember { found, expected }.into());
        }
        Ok(())
    }

    /// Makes the directory this member's; everything else in it is there, and synced.
    pub(crate) fn write(self, files: &impl Files) -> Result<(), Error> {
        let file = files.create(IDENTITY_NEW).doing("making", IDENTITY_NEW)?;
        file.write_at(&self.block(), 0).doing("writing", IDENTITY_NEW)?;
        file.sync().or_failed("syncing", IDENTITY_NEW)?;
        files.rename(IDENTITY_NEW, IDENTITY).doing("renaming", IDENTITY_NEW)?;
        files.sync_directory().or_failed("syncing", ".")
    }

    fn block(self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        block[16..32].copy_from_slice(&self.group.to_le_bytes());
        block[32..40].copy_from_slice(&self.member.to_le_bytes());
        seal(&mut block, 0);
        block
    }
}

/// A newer format may have another length, and its sum elsewhere: it is looked at first.
fn parse(block: &[u8; BLOCK_BYTES], bytes: u64) -> Result<Identity, IdentityError> {
    let unreadable = |what: &str| IdentityError::Unreadable { what: what.to_owned() };
    if block[..8] != MAGIC {
        return Err(unreadable("it does not begin as a journal's does"));
    }
    let format = u32_at(block, 8);
    if sealed(block, 0).is_none() || bytes != BLOCK_BYTES as u64 {
        return Err(match format {
            ..=FORMAT => unreadable("its sum is wrong"),
            found => IdentityError::Newer { found, known: FORMAT },
        });
    }
    if format != FORMAT {
        return Err(IdentityError::Newer { found: format, known: FORMAT });
    }
    Ok(Identity { group: u128_at(block, 16), member: u64_at(block, 32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Identity = Identity { group: 7, member: 3 };

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        assert_eq!(parse(&OURS.block(), BLOCK_BYTES as u64), Ok(OURS));
    }

    #[test]
    fn no_flipped_bit_is_accepted() {
        for bit in 0..BLOCK_BYTES * 8 {
            let mut block = OURS.block();
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&block, BLOCK_BYTES as u64).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut block = OURS.block();
        block[8] = 2;
        seal(&mut block, 0);
        let newer = Err(IdentityError::Newer { found: 2, known: 1 });
        assert_eq!(parse(&block, BLOCK_BYTES as u64), newer);
        block[60] ^= 1;
        assert_eq!(parse(&block, 100), newer, "its sum may be elsewhere");
    }
}
