//! The steering program: UDP datagrams for an endpoint go to its socket, all else to the kernel.
//!
//! In pseudo-code, with every access behind its bounds check:
//!
//! ```text
//! if IPv4 without options, not a fragment, UDP   → key.address = ::ffff:destination
//! else if IPv6 followed by UDP directly          → key.address = destination
//! else                                           → PASS
//! key.port = destination port; key.queue = receive queue
//! slot = endpoints[key]                            or PASS
//! return redirect(sockets[slot])                   or PASS, if the socket is gone
//! ```
//!
//! The address is part of the key, so that other addresses of the host, and datagrams that the host
//! only forwards, keep their ports. The queue is part of it because a socket can only receive
//! frames of the queue that it is bound to. The kernel verifies the checksums of the datagrams that
//! it gets, and the receiver those of its own.

use std::net::IpAddr;

use super::assembler::{Assembler, Label, Reg, Width};
use Reg::{R0, R1, R2, R3, R6, R7, R8, R10};

/// Key of the map of endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Key {
    /// Destination address, an IPv4 one mapped into IPv6.
    address: [u8; 16],
    /// Destination port, in network order.
    port: [u8; 2],
    /// Receive queue.
    queue: u16,
}

const _: () = assert!(size_of::<Key>() == KEY_BYTES as usize);

impl Key {
    pub(super) fn new(address: IpAddr, port: u16, queue: u16) -> Key {
        let address = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Key { address: address.octets(), port: port.to_be_bytes(), queue }
    }
}

pub(super) const KEY_BYTES: u32 = 20;

/// The program, for a hash map of endpoints and a map of sockets.
pub(super) fn program(endpoints: i32, sockets: i32) -> Vec<u64> {
    let mut asm = Assembler::default();
    let [pass, v6, look_up] = [(); 3].map(|()| asm.label());
    asm.copy(R6, R1);
    asm.load(R7, Width::Word, R1, CONTEXT_DATA);
    asm.load(R8, Width::Word, R1, CONTEXT_DATA_END);
    require(&mut asm, ETHERNET_BYTES + V4_BYTES + UDP_BYTES, pass);
    asm.load(R3, Width::Half, R7, 12);
    asm.if_equal(R3, network_u16(0x86dd), v6);
    asm.if_not_equal(R3, network_u16(0x0800), pass);
    v4_key(&mut asm, pass);
    asm.go_to(look_up);
    asm.bind(v6);
    v6_key(&mut asm, pass);
    asm.bind(look_up);
    redirect(&mut asm, endpoints, sockets, pass);
    asm.bind(pass);
    asm.set(R0, XDP_PASS);
    asm.exit();
    asm.finish()
}

/// Jumps to `pass` if the frame has fewer than `bytes` bytes.
fn require(asm: &mut Assembler, bytes: i16, pass: Label) {
    asm.copy(R2, R7);
    asm.add(R2, i32::from(bytes));
    asm.if_greater(R2, R8, pass);
}

fn v4_key(asm: &mut Assembler, pass: Label) {
    let ip = ETHERNET_BYTES;
    asm.load(R3, Width::Byte, R7, ip);
    asm.if_not_equal(R3, 0x45, pass);
    asm.load(R3, Width::Half, R7, ip + 6);
    asm.and(R3, network_u16(0x3fff));
    asm.if_not_equal(R3, 0, pass);
    asm.load(R3, Width::Byte, R7, ip + 9);
    asm.if_not_equal(R3, PROTOCOL_UDP, pass);
    asm.store_value(R10, KEY, Width::Double, 0);
    asm.store_value(R10, KEY + 8, Width::Word, i32::from_ne_bytes([0, 0, 0xff, 0xff]));
    asm.load(R3, Width::Word, R7, ip + 16);
    asm.store(R10, KEY + 12, Width::Word, R3);
    asm.load(R3, Width::Half, R7, ip + V4_BYTES + 2);
    asm.store(R10, KEY + 16, Width::Half, R3);
}

fn v6_key(asm: &mut Assembler, pass: Label) {
    let ip = ETHERNET_BYTES;
    require(asm, ip + V6_BYTES + UDP_BYTES, pass);
    asm.load(R3, Width::Byte, R7, ip + 6);
    asm.if_not_equal(R3, PROTOCOL_UDP, pass);
    for word in 0..4 {
        asm.load(R3, Width::Word, R7, ip + 24 + 4 * word);
        asm.store(R10, KEY + 4 * word, Width::Word, R3);
    }
    asm.load(R3, Width::Half, R7, ip + V6_BYTES + 2);
    asm.store(R10, KEY + 16, Width::Half, R3);
}

fn redirect(asm: &mut Assembler, endpoints: i32, sockets: i32, pass: Label) {
    asm.load(R3, Width::Word, R6, CONTEXT_RX_QUEUE);
    asm.store(R10, KEY + 18, Width::Half, R3);
    asm.load_map(R1, endpoints);
    asm.copy(R2, R10);
    asm.add(R2, i32::from(KEY));
    asm.call(MAP_LOOKUP);
    asm.if_equal(R0, 0, pass);
    asm.load(R2, Width::Word, R0, 0);
    asm.load_map(R1, sockets);
    asm.set(R3, XDP_PASS);
    asm.call(REDIRECT_MAP);
    asm.exit();
}

/// `value` as a 16-bit load from the frame sees it.
fn network_u16(value: u16) -> i32 {
    i32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// Where the key lies, relative to the frame pointer; aligned to 8.
const KEY: i16 = -24;
const ETHERNET_BYTES: i16 = 14;
const V4_BYTES: i16 = 20;
const V6_BYTES: i16 = 40;
const UDP_BYTES: i16 = 8;
const PROTOCOL_UDP: i32 = 17;
// Fields of `struct xdp_md`.
const CONTEXT_DATA: i16 = 0;
const CONTEXT_DATA_END: i16 = 4;
const CONTEXT_RX_QUEUE: i16 = 16;
const XDP_PASS: i32 = 2;
const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_ipv4_key_is_the_mapped_address() {
        let key = Key::new(Ipv4Addr::new(10, 1, 2, 3).into(), 0x1234, 7);
        assert_eq!(key.address, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3]);
        assert_eq!((key.port, key.queue), ([0x12, 0x34], 7));
    }
}
