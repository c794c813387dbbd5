//! Limits that follow from the widths of the header's fields, and how they depend on each other.

/// Bytes of every packet's header (W1).
pub const HEADER_BYTES: usize = 24;
/// The version of the wire protocol that this code speaks (W2).
pub const VERSION: u8 = 1;
/// Sessions that one endpoint can tell apart, per role (W4).
pub const SESSIONS_MAX: u32 = 1 << 20;
/// Values of a session's random tag (W4).
pub const TAG_MAX: u32 = 1 << 28;
/// Request numbers of a session before they wrap (W5).
pub const REQUEST_NUMBERS: u64 = 1 << 40;
/// Transmission numbers before they wrap (W6).
pub const TRANSMISSION_NUMBERS: u32 = 1 << 24;
/// Packets of one message (W7).
pub const PACKETS_MAX: u32 = 1 << 20;
/// Numbers of methods (W9).
pub const METHODS: usize = 1 << 16;
/// Bytes of one message (W8): 256 MiB − 1.
pub const MESSAGE_BYTES_MAX: u32 = (1 << 28) - 1;
/// Packets in flight that a receiver can grant (W10).
pub const CREDITS_MAX: u32 = (1 << 12) - 1;
/// Concurrent requests of one session (W5).
pub const SLOTS_MAX: u32 = 64;
/// Bytes of the optional trailing CRC32C (W12).
pub const CHECKSUM_BYTES: usize = 4;
/// Bytes of the tag at the end of a sealed packet (W27).
pub const SEAL_BYTES: usize = 16;
/// The smallest payload that a session may negotiate, in bytes (W13).
pub const PAYLOAD_BYTES_MIN: u32 = 1024;

/// Bytes of the routing block behind a first packet's header (RT2).
pub const ROUTING_BLOCK_BYTES: usize = 40;
/// Bytes of a first packet before the message (RT1): all that a router reads.
pub const FIRST_BYTES: usize = HEADER_BYTES + ROUTING_BLOCK_BYTES;
/// Bytes of the message that a claim carries at most (RT4).
pub const CLAIM_BYTES_MAX: usize = 64;
/// Numbers of first packets of one attachment (RT3).
pub const FIRST_NUMBERS: u64 = 1 << 40;
/// Clients that a router can tell apart (RT2).
pub const CLIENTS_MAX: u32 = 1 << 20;
/// Numbers of epochs before they wrap (RT2, RT30).
pub const EPOCHS: u16 = 1 << 12;
/// Priorities of first packets (RT2).
pub const PRIORITIES: u8 = 16;
/// Bytes of the worker block between header and payload of an answer (RT7).
pub const WORKER_BLOCK_BYTES: usize = 8;
/// Numbers that a router gives a worker before they wrap in packets (RT19).
pub const GIVEN_NUMBERS: u32 = 1 << 20;
/// Counts of settled numbers before they wrap in packets (RT20).
pub const SETTLED_NUMBERS: u32 = 1 << 28;

const _: () = assert!(FIRST_BYTES == 64, "a cache line has all that a router reads");
const _: () = assert!(CLAIM_BYTES_MAX <= PAYLOAD_BYTES_MIN as usize, "a claim fits any payload");
const _: () = assert!(
    MESSAGE_BYTES_MAX.div_ceil(PAYLOAD_BYTES_MIN) <= PACKETS_MAX,
    "the longest message in the smallest packets still has an index for each"
);
const _: () = assert!(REQUEST_NUMBERS.is_multiple_of(SLOTS_MAX as u64), "slots survive the wrap");
const _: () =
    assert!(CREDITS_MAX < TRANSMISSION_NUMBERS / 2, "a window never spans half the space");
