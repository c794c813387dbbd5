//! Copying a few dozen bytes without a call to `memcpy`.

/// Copies `from` to `to`. For 8 to 128 bytes, the sizes of headers and small messages, it makes two
/// or four moves of fixed size that may overlap. That costs a quarter of a call whose length is
/// only known at run time.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub fn copy_short(to: &mut [u8], from: &[u8]) {
    assert!(to.len() == from.len(), "a copy has the length of its original");
    match from.len() {
        16..=32 => copy_ends::<16>(to, from),
        8..16 => copy_ends::<8>(to, from),
        33..=64 => copy_ends::<32>(to, from),
        65..=128 => copy_ends::<64>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Like [`copy_short`], to two places. For 16 to 32 bytes the length is tested only once.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub fn copy_short_twice(first: &mut [u8], second: &mut [u8], from: &[u8]) {
    assert!(first.len() == from.len() && second.len() == from.len(), "copies are as long");
    match from.len() {
        16..=32 => {
            copy_ends::<16>(first, from);
            copy_ends::<16>(second, from);
        }
        _ => {
            copy_short(first, from);
            copy_short(second, from);
        }
    }
}

/// Copies `N` to `2 * N` bytes as two pieces, the first `N` and the last.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole() {
        let from: Vec<u8> = (0..200).collect();
        for len in 0..from.len() {
            let mut to = vec![0xee; len + 1];
            copy_short(&mut to[..len], &from[..len]);
            assert_eq!(to[..len], from[..len]);
            let mut twice = vec![0xee; 2 * len];
            let (first, second) = twice.split_at_mut(len);
            copy_short_twice(first, second, &from[..len]);
            assert_eq!(twice, [&from[..len], &from[..len]].concat());
            assert_eq!(to[len], 0xee, "nothing beyond");
        }
    }
}
