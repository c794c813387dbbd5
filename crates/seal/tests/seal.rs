//! Two ends with one secret, and somebody between them.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use petasos_seal::{
    Cipher, End, KeyLife, NotNewer, OpenError, SEAL_BYTES, SECRET_BYTES, Seal, SessionSecret,
};
use petasos_wire::{HEADER_BYTES, Header, Kind, Packet, TRANSMISSION_NUMBERS};
use proptest::prelude::*;

const TAG: u32 = 77;

fn pair(cipher: Cipher, life: KeyLife) -> (Seal, Seal) {
    let secret = SessionSecret::new(cipher, [3; SECRET_BYTES]);
    (Seal::new(&secret, End::Client, TAG, life), Seal::new(&secret, End::Server, TAG, life))
}

/// The packet with this transmission number and payload, sealed.
fn sealed(from: &mut Seal, transmission: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header::for_session(4, 5).with_checksum();
    let header = header.with_request(Kind::Request, 8, transmission);
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes.extend([0; SEAL_BYTES]);
    from.sealer.seal(&mut bytes).expect("numbers rise");
    bytes
}

fn open(at: &mut Seal, bytes: &[u8]) -> Result<Vec<u8>, OpenError> {
    let mut out = vec![0; bytes.len()];
    let packet = Packet::parse(bytes).expect("the header is one");
    at.opener.open(bytes, &packet, &mut out).map(<[u8]>::to_vec)
}

#[test]
fn w27_what_one_end_seals_the_other_opens() {
    for cipher in [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305] {
        let (mut client, mut server) = pair(cipher, KeyLife::default());
        let request = sealed(&mut client, 1, b"request");
        assert!(!request.windows(7).any(|bytes| bytes == b"request"));
        assert_eq!(open(&mut server, &request).unwrap(), b"request");
        let response = sealed(&mut server, 1, b"");
        assert_eq!(response.len(), HEADER_BYTES + SEAL_BYTES);
        assert_eq!(open(&mut client, &response).unwrap(), b"");
    }
}

#[test]
fn w28_each_direction_tag_and_cipher_has_keys_of_its_own() {
    let (mut client, mut server) = pair(Cipher::Aes128Gcm, KeyLife::default());
    let request = sealed(&mut client, 1, b"x");
    // What it sent itself, as a mirror would send it back.
    assert_eq!(open(&mut client, &request), Err(OpenError::Forged));
    let secret = SessionSecret::new(Cipher::Aes128Gcm, [3; SECRET_BYTES]);
    let mut other = Seal::new(&secret, End::Server, TAG + 1, KeyLife::default());
    assert_eq!(open(&mut other, &request), Err(OpenError::Forged));
    let (_, mut other) = pair(Cipher::ChaCha20Poly1305, KeyLife::default());
    assert_eq!(open(&mut other, &request), Err(OpenError::Forged));
    assert_eq!(open(&mut server, &request).unwrap(), b"x");
}

#[test]
fn w29_no_number_is_used_twice() {
    let (mut client, _) = pair(Cipher::Aes128Gcm, KeyLife::default());
    let first = sealed(&mut client, 9, b"x");
    for transmission in [9, 8, 9 + TRANSMISSION_NUMBERS / 2 + 1] {
        let header = Header::for_session(4, 5).with_request(Kind::Request, 8, transmission);
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend([1; SEAL_BYTES]);
        let before = bytes.clone();
        assert_eq!(client.sealer.seal(&mut bytes), Err(NotNewer));
        assert_eq!(bytes, before);
    }
    assert_ne!(sealed(&mut client, 10, b"x")[HEADER_BYTES..], first[HEADER_BYTES..]);
}

#[test]
fn w29_numbers_go_on_where_transmission_wraps() {
    let (mut client, mut server) = pair(Cipher::Aes128Gcm, KeyLife::default());
    let step = TRANSMISSION_NUMBERS / 16;
    let mut transmission = 0;
    for _ in 0..40 {
        transmission = (transmission + step) % TRANSMISSION_NUMBERS;
        let bytes = sealed(&mut client, transmission, b"x");
        assert_eq!(open(&mut server, &bytes).unwrap(), b"x");
    }
    // A sixteenth of 2^24 are half of a key's packets.
    assert_eq!((client.sealer.rotations(), server.opener.rotations()), (20, 20));
}

#[test]
fn w30_keys_change_and_stragglers_still_open() {
    let life = KeyLife::of_log2(3);
    let (mut client, mut server) = pair(Cipher::ChaCha20Poly1305, life);
    let all: Vec<_> = (1..64).map(|number| sealed(&mut client, number, &[number as u8])).collect();
    for bytes in &all {
        let phase = Packet::parse(bytes).unwrap().key_phase();
        let number = Packet::parse(bytes).unwrap().transmission();
        assert_eq!(phase, number / 8 % 2 == 1);
    }
    // The eighth packet of a key, then one from before that: of the key before, at times.
    for number in (7usize..63).step_by(8) {
        for late in [number, number - 1, number - 4] {
            assert_eq!(open(&mut server, &all[late - 1]).unwrap(), [late as u8]);
        }
    }
    assert_eq!(server.opener.rotations(), 6);
    // Two keys back is too late.
    assert_eq!(open(&mut server, &all[0]), Err(OpenError::Forged));
}

#[test]
fn w30_a_key_phase_that_is_not_the_numbers_is_refused() {
    let (mut client, mut server) = pair(Cipher::Aes128Gcm, KeyLife::default());
    let mut bytes = sealed(&mut client, 1, b"x");
    bytes[1] ^= 1;
    assert_eq!(open(&mut server, &bytes), Err(OpenError::Forged));
    bytes[1] ^= 1;
    assert_eq!(open(&mut server, &bytes).unwrap(), b"x");
}

#[test]
fn w31_a_packet_opens_once_and_forgeries_leave_no_trace() {
    let (mut client, mut server) = pair(Cipher::Aes128Gcm, KeyLife::default());
    let first = sealed(&mut client, 1, b"x");
    for at in 0..first.len() {
        let mut changed = first.clone();
        changed[at] ^= 0x10;
        if Packet::parse(&changed).is_ok() {
            assert_eq!(open(&mut server, &changed), Err(OpenError::Forged), "byte {at}");
        }
    }
    assert_eq!(open(&mut server, &first).unwrap(), b"x");
    assert_eq!(open(&mut server, &first), Err(OpenError::Replayed));
    let later = sealed(&mut client, 5000, b"y");
    let between = sealed(&mut client, 5001, b"z");
    assert_eq!(open(&mut server, &between).unwrap(), b"z");
    assert_eq!(open(&mut server, &later).unwrap(), b"y");
    // Below the window it is not even looked at.
    assert_eq!(open(&mut server, &first), Err(OpenError::Replayed));
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    /// Nobody without the key gets a packet through, and what the peer sealed opens in spite of it.
    #[test]
    fn w27_any_bytes_are_opened_or_refused(
        junk in prop::collection::vec(
            (any::<[u8; HEADER_BYTES]>(), prop::collection::vec(any::<u8>(), 0..80)), 0..20),
        payload in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let (mut client, mut server) = pair(Cipher::Aes128Gcm, KeyLife::of_log2(4));
        for (number, (mut header, rest)) in (1..).zip(junk) {
            // A version and a kind, so that all of it parses.
            header[0] = 0x11;
            header[1] &= 0x3f;
            let bytes = [&header[..], &rest].concat();
            let error = open(&mut server, &bytes).expect_err("it was not sealed");
            prop_assert!(matches!(
                error, OpenError::Short | OpenError::Forged | OpenError::Replayed));
            let bytes = sealed(&mut client, number, &payload);
            prop_assert_eq!(open(&mut server, &bytes).unwrap(), payload.clone());
        }
    }

    /// Reordered within the window, each once.
    #[test]
    fn w31_any_order_within_the_window(
        order in Just((1..400u32).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let (mut client, mut server) = pair(Cipher::Aes128Gcm, KeyLife::default());
        let all: Vec<_> = (1..400).map(|number| sealed(&mut client, number, b"x")).collect();
        for number in &order {
            prop_assert!(open(&mut server, &all[*number as usize - 1]).is_ok());
        }
        for bytes in &all {
            prop_assert_eq!(open(&mut server, bytes), Err(OpenError::Replayed));
        }
    }
}
