//! Memory of others, as compaction meets it.

use std::cell::RefCell;

use bytes::Bytes;
use petasos_base::Rng;
use petasos_message::{Outside, Segment, Source};

/// Where a region begins, in addresses of whoever wrote it.
pub const BASE: u64 = 0x7000_0000_0000;

/// Memory of an application: an image at [`BASE`], or anything else.
pub struct Region<'a>(pub &'a [u8]);

impl Region<'_> {
    fn range(&self, at: u64, bytes: usize) -> Result<&[u8], Outside> {
        let start = usize::try_from(at.wrapping_sub(BASE)).map_err(|_| Outside)?;
        let end = start.checked_add(bytes).ok_or(Outside)?;
        self.0.get(start..end).ok_or(Outside)
    }
}

impl Source for Region<'_> {
    fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), Outside> {
        to.copy_from_slice(self.range(at, to.len())?);
        Ok(())
    }

    fn segment(&self, at: u64, bytes: u32) -> Result<Option<Segment>, Outside> {
        let bytes = self.range(at, bytes as usize)?;
        Ok(Some(Segment::Owned(Bytes::copy_from_slice(bytes))))
    }
}

/// The same, trusted: contents are not looked at.
pub struct Trusted<'a>(pub Region<'a>);

impl Source for Trusted<'_> {
    const IS_TRUSTED: bool = true;

    fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), Outside> {
        self.0.copy(at, to)
    }

    fn segment(&self, at: u64, bytes: u32) -> Result<Option<Segment>, Outside> {
        self.0.segment(at, bytes)
    }
}

/// Memory in which somebody writes all the time: every look at it may find other bytes.
pub struct Restless<'a> {
    pub region: Region<'a>,
    pub rng: RefCell<Rng>,
}

impl Source for Restless<'_> {
    fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), Outside> {
        self.region.copy(at, to)?;
        let mut rng = self.rng.borrow_mut();
        if rng.below(4) == 0 && !to.is_empty() {
            let at = rng.below(to.len() as u64) as usize;
            to[at] = [0, 1, 8, 0x10, 0xff][rng.below(5) as usize];
        }
        Ok(())
    }

    fn segment(&self, at: u64, bytes: u32) -> Result<Option<Segment>, Outside> {
        match self.rng.borrow_mut().below(2) {
            0 => Ok(None),
            _ => self.region.segment(at, bytes),
        }
    }
}
