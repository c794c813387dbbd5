//! Reading little-endian numbers and lengths from bytes that nobody vouches for.

/// What is left of some bytes. Nothing panics, whatever they are: what is not there is [`None`].
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// All of `bytes` are left.
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader(bytes)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `count` bytes, if there are as many.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next number of 2 bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next number of 4 bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next number of 8 bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next number of 16 bytes.
    pub fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// Bytes that a length of 4 bytes precedes.
    pub fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// Bytes that a length of 2 bytes precedes.
    pub fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    /// `value`, if nothing is left.
    pub fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_read() {
        let bytes = [1, 2, 0, 3, 0, 0, 0, 9, 9, 9, 7];
        let mut reader = ByteReader::new(&bytes);
        assert_eq!((reader.u8(), reader.u16()), (Some(1), Some(2)));
        assert_eq!(reader.long(), Some(&[9, 9, 9][..]));
        assert_eq!((reader.u16(), reader.end(())), (None, None), "nothing was taken");
        assert_eq!((reader.u8(), reader.end(5)), (Some(7), Some(5)));
        assert_eq!((reader.u8(), reader.take(1), reader.take(0)), (None, None, Some(&[][..])));
        let announced = [255, 255, 255, 255, 1];
        assert_eq!(ByteReader::new(&announced).long(), None);
        assert_eq!(ByteReader::new(&announced).short(), None);
        assert_eq!(ByteReader::new(&announced).u64(), None);
        assert_eq!(ByteReader::new(&announced).rest(), announced);
    }
}
