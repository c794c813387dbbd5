//! The numbers of delivered requests. A bit in the number tells exchanges from unary calls.

use petasos_abi::{CallNumber, Side};

/// Set in the numbers of exchanges, and not in those of unary calls.
const EXCHANGE: u64 = 1 << 63;
/// Set in the numbers of requests that came through the second of two attachments.
const SECOND: u64 = 1 << 62;
const SEGMENT_BITS: u32 = 16;
/// What is left for the number of a call; fewer are made in a thousand years.
const CALL: u64 = SECOND - 1;

/// Whether a delivered request's number is that of an exchange.
pub(super) fn is_exchange(number: u64) -> bool {
    number & EXCHANGE != 0
}

/// Whether a request came through the second of two attachments.
pub(super) fn is_of_second(number: u64) -> bool {
    number & SECOND != 0
}

/// The number of a unary request: its call's, without the side that has begun it.
pub(super) fn unary_number(call: CallNumber, is_second: bool) -> u64 {
    call.get() & CALL | second(is_second)
}

/// The call of a unary request.
pub(super) fn unary_call(number: u64) -> CallNumber {
    CallNumber::new(Side::Service, number & CALL)
}

/// The number of an exchange: its call's, and that of the segment.
pub(super) fn exchange_number(call: CallNumber, segment: u16, is_second: bool) -> u64 {
    let call = (call.get() << SEGMENT_BITS) & CALL;
    EXCHANGE | second(is_second) | call | u64::from(segment)
}

/// The call of an exchange.
pub(super) fn exchange_call(number: u64) -> CallNumber {
    CallNumber::new(Side::Service, (number & CALL) >> SEGMENT_BITS)
}

/// The segment of an exchange.
pub(super) fn segment_of(number: u64) -> u16 {
    number as u16
}

fn second(is_second: bool) -> u64 {
    if is_second { SECOND } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_whose_request_it_is() {
        let call = CallNumber::new(Side::Service, 70_000);
        for is_second in [false, true] {
            let number = unary_number(call, is_second);
            assert!(!is_exchange(number));
            assert_eq!((unary_call(number), is_of_second(number)), (call, is_second));
            let number = exchange_number(call, 65_535, is_second);
            assert!(is_exchange(number));
            assert_eq!((exchange_call(number), segment_of(number)), (call, 65_535));
            assert_eq!(is_of_second(number), is_second);
        }
    }
}
