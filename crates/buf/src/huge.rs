//! Huge pages for many small objects that are spread over memory.
//!
//! With thousands of active sessions, each call touches pages whose address translations the
//! processor does not have at hand (TLB misses), and those cost more than fetching the data. With
//! pages of 2 MiB it can hold all the translations.

/// Bytes of a huge page on x86-64, and on 64-bit Arm with small pages of 4 KiB.
const HUGE_BYTES: usize = 2 << 20;

/// Asks the kernel for huge pages under objects that are allocated one after the other.
///
/// It asks once for each region of 2 MiB, when the region is full: the kernel then copies the
/// region, which takes some hundred microseconds. If the kernel cannot do it, or may not, the
/// region stays as it is.
#[derive(Debug, Default)]
pub struct HugePages {
    /// The highest region in which an object was, as an address.
    latest: usize,
}

impl HugePages {
    /// Notes where `value` is.
    pub fn note<T>(&mut self, value: &T) {
        let region = core::ptr::from_ref(value).addr() / HUGE_BYTES * HUGE_BYTES;
        // Heaps grow upwards. Objects that fill an earlier gap are rare enough to ignore.
        if region > self.latest {
            let before = core::mem::replace(&mut self.latest, region);
            if before != 0 {
                collapse(before);
            }
        }
    }
}

/// Makes a region one huge page, if the kernel can.
fn collapse(region: usize) {
    if cfg!(miri) {
        return;
    }
    let start = core::ptr::without_provenance_mut(region);
    // SAFETY: this advice neither maps nor unmaps anything and changes no byte, whatever is at the
    // address. It only changes which physical pages hold the bytes, which the process cannot
    // observe. A refusal is no error.
    let _ = unsafe { libc::madvise(start, HUGE_BYTES, libc::MADV_COLLAPSE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_collapsed_regions_is_unchanged() {
        let mut huge = HugePages::default();
        let boxes: Vec<Box<[usize; 512]>> = (0..2_000)
            .map(|at| {
                let thing = Box::new([at; 512]);
                huge.note(&*thing);
                thing
            })
            .collect();
        assert!(huge.latest != 0);
        assert!(boxes.iter().enumerate().all(|(at, thing)| **thing == [at; 512]));
    }
}
