//! The two programs of an impaired port.
//!
//! In pseudo-code, for IPv4 packets that are not TCP; all others pass:
//!
//! ```text
//! entrance:  offered += 1
//!            random 31 bits < loss                      → lost += 1, DROP
//!            queue = entered_bytes − left_bytes + length
//!            queue > queue_bytes_max                    → overflowed += 1, DROP
//!            entered_bytes += length, entered += 1
//!            queue > mark_above_bytes                   → marked += whether CE could be set
//! exit:      left_bytes += length, left += 1
//! ```
//!
//! The bytes that left are read before those that entered, so the difference is never negative. Two
//! processors that are at the entrance at the same time may both take the last place; one packet
//! too many does not matter.

use super::ImpairConfig;
use crate::program::assembler::{Assembler, Label, Reg, Width};
use Reg::{R0, R1, R2, R3, R6, R7, R8, R10};

/// The counters, in the order in which they lie in the map's only entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub(super) enum Counter {
    Offered,
    Lost,
    Overflowed,
    Entered,
    EnteredBytes,
    Marked,
    Left,
    LeftBytes,
}

impl Counter {
    /// How many there are.
    pub(super) const COUNT: usize = 8;

    fn offset(self) -> i16 {
        self as i16 * 8
    }
}

/// The program before the queue.
pub(super) fn entrance(map: i32, config: &ImpairConfig) -> Vec<u64> {
    let mut asm = Assembler::default();
    let [pass, lost, overflowed] = [(); 3].map(|()| asm.label());
    classify(&mut asm, map, pass);
    count(&mut asm, Counter::Offered);
    asm.call(RANDOM);
    asm.and(R0, i32::MAX);
    asm.set(R3, loss_threshold(config.loss));
    asm.if_greater(R3, R0, lost);
    asm.load(R3, Width::Double, R7, Counter::LeftBytes.offset());
    asm.load(R2, Width::Double, R7, Counter::EnteredBytes.offset());
    asm.subtract_register(R2, R3);
    asm.add_register(R2, R8);
    asm.set(R3, immediate(config.queue_bytes_max));
    asm.if_greater(R2, R3, overflowed);
    asm.atomic_add(R7, Counter::EnteredBytes.offset(), R8);
    count(&mut asm, Counter::Entered);
    if let Some(bytes) = config.mark_above_bytes {
        let mark = asm.label();
        asm.set(R3, immediate(bytes));
        asm.if_greater(R2, R3, mark);
        asm.go_to(pass);
        asm.bind(mark);
        asm.copy(R1, R6);
        asm.call(SET_CE);
        asm.atomic_add(R7, Counter::Marked.offset(), R0);
    }
    asm.go_to(pass);
    asm.bind(lost);
    drop_packet(&mut asm, Counter::Lost);
    asm.bind(overflowed);
    drop_packet(&mut asm, Counter::Overflowed);
    asm.bind(pass);
    asm.set(R0, NEXT);
    asm.exit();
    asm.finish()
}

/// The program that sees packets that have left the queue.
pub(super) fn exit(map: i32) -> Vec<u64> {
    let mut asm = Assembler::default();
    let pass = asm.label();
    classify(&mut asm, map, pass);
    asm.atomic_add(R7, Counter::LeftBytes.offset(), R8);
    count(&mut asm, Counter::Left);
    asm.bind(pass);
    asm.set(R0, NEXT);
    asm.exit();
    asm.finish()
}

/// Jumps to `pass` for packets that do not count. For all others, R6 is then the context, R7 the
/// counters, and R8 the packet's length including its link-layer header.
fn classify(asm: &mut Assembler, map: i32, pass: Label) {
    asm.copy(R6, R1);
    asm.load(R7, Width::Word, R6, CONTEXT_DATA);
    asm.load(R8, Width::Word, R6, CONTEXT_DATA_END);
    asm.copy(R2, R7);
    asm.add(R2, HEADERS_BYTES);
    asm.if_greater(R2, R8, pass);
    asm.load(R3, Width::Half, R7, ETHERNET_TYPE);
    asm.if_not_equal(R3, i32::from(u16::from_ne_bytes(0x0800_u16.to_be_bytes())), pass);
    asm.load(R3, Width::Byte, R7, V4_PROTOCOL);
    asm.if_equal(R3, TCP, pass);
    asm.load(R8, Width::Word, R6, CONTEXT_LENGTH);
    asm.store_value(R10, KEY, Width::Word, 0);
    asm.load_map(R1, map);
    asm.copy(R2, R10);
    asm.add(R2, i32::from(KEY));
    asm.call(MAP_LOOKUP);
    asm.if_equal(R0, 0, pass);
    asm.copy(R7, R0);
}

/// Adds one to a counter; destroys R1.
fn count(asm: &mut Assembler, counter: Counter) {
    asm.set(R1, 1);
    asm.atomic_add(R7, counter.offset(), R1);
}

fn drop_packet(asm: &mut Assembler, counter: Counter) {
    count(asm, counter);
    asm.set(R0, DROP);
    asm.exit();
}

/// The number of losses among 2^31 random numbers.
fn loss_threshold(loss: f64) -> i32 {
    (loss * 2f64.powi(31)) as i32
}

/// Immediates are signed; queues of more than 2 GB do not occur.
fn immediate(bytes: u32) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// Where the map's key lies, relative to the frame pointer.
const KEY: i16 = -4;
/// Ethernet and IPv4.
const HEADERS_BYTES: i32 = 14 + 20;
const ETHERNET_TYPE: i16 = 12;
const V4_PROTOCOL: i16 = 14 + 9;
const TCP: i32 = 6;
// Fields of `struct __sk_buff`.
const CONTEXT_LENGTH: i16 = 0;
const CONTEXT_DATA: i16 = 76;
const CONTEXT_DATA_END: i16 = 80;
// Verdicts (linux/bpf.h, `enum tcx_action_base`).
const NEXT: i32 = -1;
const DROP: i32 = 2;
// Helper functions.
const MAP_LOOKUP: i32 = 1;
const RANDOM: i32 = 7;
const SET_CE: i32 = 97;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_a_share_of_all_random_numbers() {
        assert_eq!(loss_threshold(0.0), 0);
        assert_eq!(loss_threshold(0.5), 1 << 30);
        assert_eq!(loss_threshold(1.0), i32::MAX);
        assert_eq!(loss_threshold(1e-9), 2);
    }

    #[test]
    fn counters_fill_the_entry() {
        assert_eq!(Counter::LeftBytes as usize + 1, Counter::COUNT);
    }
}
