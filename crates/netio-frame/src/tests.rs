//! Frames that were built are accepted; damaged frames are not.

use std::net::SocketAddr;

use petasos_netio::Ecn;
use proptest::prelude::*;

use super::checksum::{add_bytes, finish, fold};
use super::*;

const FROM_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const TO_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn addresses(v6: bool) -> (SocketAddr, SocketAddr) {
    let parse = |text: &str| text.parse().expect("an address");
    match v6 {
        false => (parse("10.1.2.3:4000"), parse("10.9.8.7:5000")),
        true => (parse("[fd00::1:2]:4000"), parse("[fd00:ab::7]:5000")),
    }
}

fn frame_of(v6: bool, ecn: Ecn, head: &[u8], body: &[u8]) -> Vec<u8> {
    let (from, to) = addresses(v6);
    let mut frame = vec![0xee; 4096];
    let len = Template::new((FROM_MAC, from), (TO_MAC, to), ecn).write(&mut frame, head, body);
    frame.truncate(len);
    frame
}

fn judge_strictly(v6: bool, frame: &[u8]) -> Result<Datagram, Flaw> {
    validate(frame, &addresses(v6).1, false)
}

/// Makes the IPv4 header's checksum correct again after a change.
fn repair_v4(frame: &mut [u8]) {
    frame[24..26].copy_from_slice(&[0, 0]);
    let field = finish(add_bytes(0, &frame[14..34]));
    frame[24..26].copy_from_slice(&field);
}

fn ecn() -> impl Strategy<Value = Ecn> {
    (0u8..4).prop_map(Ecn::from_traffic_class)
}

proptest! {
    #[test]
    fn what_is_built_is_accepted_as_it_was(
        v6: bool,
        ecn in ecn(),
        head in proptest::collection::vec(any::<u8>(), 0..100),
        body in proptest::collection::vec(any::<u8>(), 0..1400),
        padding in 0usize..60,
    ) {
        let mut frame = frame_of(v6, ecn, &head, &body);
        frame.resize(frame.len() + padding, 0);
        let datagram = judge_strictly(v6, &frame).expect("it is sound");
        let payload = &frame[datagram.offset..datagram.offset + datagram.len];
        prop_assert_eq!(payload, [head, body].concat());
        prop_assert_eq!(datagram.ecn, ecn);
        prop_assert_eq!(datagram.source, addresses(v6).0);
    }

    /// After the Ethernet header, only changes of the source's time to live may go undetected (and
    /// for IPv6, which has no checksum over them, of the flow label and the traffic class).
    #[test]
    fn a_flipped_bit_is_noticed(v6: bool, at in 12usize..100, bit in 0u8..8) {
        let mut frame = frame_of(v6, Ecn::Capable0, &[5; 60], &[]);
        prop_assume!(at < frame.len());
        let unprotected = v6 && ((14..18).contains(&at) || at == 21);
        prop_assume!(!unprotected);
        frame[at] ^= 1 << bit;
        prop_assert!(judge_strictly(v6, &frame).is_err());
    }

    #[test]
    fn a_cut_frame_is_refused(v6: bool, keep in 0.0f64..1.0) {
        let frame = frame_of(v6, Ecn::NotCapable, &[5; 60], &[]);
        let len = (frame.len() as f64 * keep) as usize;
        let flaw = judge_strictly(v6, &frame[..len]);
        prop_assert!(matches!(flaw, Err(Flaw::Short | Flaw::Length)), "{len}: {flaw:?}");
    }

    #[test]
    fn hostile_bytes_are_survived(
        v6: bool,
        partial: bool,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Ok(datagram) = validate(&bytes, &addresses(v6).1, partial) {
            prop_assert!(datagram.offset + datagram.len <= bytes.len());
        }
    }

    /// Frames with valid headers except for a few bytes, so that the later checks are reached, too.
    #[test]
    fn hostile_fields_are_survived(
        v6: bool,
        changes in proptest::collection::vec((14usize..62, any::<u8>()), 1..6),
    ) {
        let mut frame = frame_of(v6, Ecn::NotCapable, &[5; 60], &[]);
        changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
        if !v6 {
            repair_v4(&mut frame);
        }
        if let Ok(datagram) = validate(&frame, &addresses(v6).1, true) {
            prop_assert!(datagram.offset + datagram.len <= frame.len());
        }
    }
}

#[test]
fn each_flaw_has_its_name() {
    let flaw = |v6: bool, change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = frame_of(v6, Ecn::NotCapable, &[5; 30], &[]);
        change(&mut frame);
        if !v6 && frame.len() > 34 && frame[24..26] != [0xbd, 0xbd] {
            repair_v4(&mut frame);
        }
        judge_strictly(v6, &frame).expect_err("it is damaged")
    };
    assert_eq!(flaw(false, &|frame| frame[14] = 0x46), Flaw::Protocol, "options");
    assert_eq!(flaw(false, &|frame| frame[20] = 0x20), Flaw::Fragment, "more fragments");
    assert_eq!(flaw(false, &|frame| frame[21] = 1), Flaw::Fragment, "an offset");
    assert_eq!(flaw(false, &|frame| frame[23] = 6), Flaw::Protocol, "TCP");
    assert_eq!(flaw(false, &|frame| frame[33] ^= 1), Flaw::Foreign, "another address");
    assert_eq!(flaw(false, &|frame| frame[37] ^= 1), Flaw::Foreign, "another port");
    assert_eq!(flaw(false, &|frame| frame[17] += 1), Flaw::Length, "longer than the frame");
    assert_eq!(flaw(false, &|frame| frame[17] = 19), Flaw::Length, "shorter than its header");
    assert_eq!(flaw(false, &|frame| frame[39] += 1), Flaw::Length, "longer than its packet");
    assert_eq!(flaw(false, &|frame| frame[39] = 7), Flaw::Length, "shorter than UDP's header");
    assert_eq!(flaw(false, &|frame| frame[40..42].fill(0)), Flaw::Checksum, "no checksum");
    assert_eq!(flaw(false, &|frame| frame[24..26].fill(0xbd)), Flaw::Checksum, "IPv4's checksum");
    assert_eq!(flaw(true, &|frame| frame[20] = 44), Flaw::Protocol, "a fragment header");
    assert_eq!(flaw(true, &|frame| frame[14] = 0x40), Flaw::Protocol, "version 4");
    assert_eq!(flaw(true, &|frame| frame[19] += 1), Flaw::Length, "longer than the frame");
    assert_eq!(flaw(true, &|frame| frame[53] ^= 1), Flaw::Foreign, "another address");
    let tag = |frame: &mut Vec<u8>| _ = frame.splice(12..12, [0x81, 0, 0, 7]);
    assert_eq!(flaw(true, &tag), Flaw::Protocol, "a VLAN tag");
    assert_eq!(judge_strictly(false, &frame_of(true, Ecn::NotCapable, &[1], &[])), {
        Err(Flaw::Protocol)
    });
}

#[test]
fn a_partial_checksum_is_accepted_on_request_only() {
    for v6 in [false, true] {
        let mut frame = frame_of(v6, Ecn::NotCapable, &[5; 30], &[]);
        let (addresses_at, udp) = if v6 { (22..54, 54) } else { (26..34, 34) };
        let sum = add_bytes(add_bytes(0, &frame[addresses_at]), &[0, PROTOCOL_UDP]);
        let sum = fold(add_bytes(sum, &frame[udp + 4..udp + 6]));
        frame[udp + 6..udp + 8].copy_from_slice(&sum.to_ne_bytes());
        assert_eq!(judge_strictly(v6, &frame), Err(Flaw::Checksum));
        assert_eq!(validate(&frame, &addresses(v6).1, true).map(|datagram| datagram.len), Ok(30));
    }
}

#[test]
fn a_checksum_of_zero_is_sent_as_all_ones() {
    // For any other content, some 16 bits complete it to a checksum of zero.
    for v6 in [false, true] {
        let frame = frame_of(v6, Ecn::NotCapable, &[0, 0], &[]);
        let field = frame[frame.len() - 4..frame.len() - 2].to_vec();
        let frame = frame_of(v6, Ecn::NotCapable, &field, &[]);
        assert_eq!(frame[frame.len() - 4..frame.len() - 2], [0xff, 0xff]);
        assert_eq!(judge_strictly(v6, &frame).map(|datagram| datagram.len), Ok(2));
    }
}
