//! Huge pages for many small things that lie all over memory.
//!
//! Where thousands of sessions take turns, each call touches pages whose addresses the processor
//! has to translate anew, and that takes longer than to fetch what lies there. With pages of 2 MiB
//! it knows them all.

/// Bytes of a huge page on x86-64, and on 64-bit Arm with small pages of 4 KiB.
const HUGE_BYTES: usize = 2 << 20;

/// Asks the kernel for huge pages under things that are allocated one after the other.
///
/// It is asked once for each 2 MiB, when what lies there is complete: then it copies that much,
/// which takes some hundred microseconds. A kernel that cannot, or may not, leaves it as it is.
#[derive(Debug, Default)]
pub struct HugePages {
    /// The highest region in which something was, as an address.
    latest: usize,
}

impl HugePages {
    /// Notes where `value` is.
    pub fn note<T>(&mut self, value: &T) {
        let region = core::ptr::from_ref(value).addr() / HUGE_BYTES * HUGE_BYTES;
        // Heaps grow upwards. What fills an earlier gap is not worth a second look.
        if region > self.latest {
            let before = core::mem::replace(&mut self.latest, region);
            if before != 0 {
                collapse(before);
            }
        }
    }
}

/// Makes a region one huge page, if it can be.
fn collapse(region: usize) {
    if cfg!(miri) {
        return;
    }
    let start = core::ptr::without_provenance_mut(region);
    // SAFETY: this advice neither maps nor unmaps anything and changes no byte, whatever there is
    // at the address: it only changes which physical pages hold it. So nothing in the process can
    // tell, and a refusal is no error.
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
