//! Buffers without tails.

use super::*;

#[test]
fn packet_zero_is_one_contiguous_piece() {
    let mut buf = MsgBuf::from_slice(b"hello");
    buf.write_header(0, 1448, &[7; HEADER_BYTES]);
    let (head, body) = buf.packet(0, 1448);
    assert_eq!(head[..HEADER_BYTES], [7; HEADER_BYTES]);
    assert_eq!(&head[HEADER_BYTES..], b"hello");
    assert!(body.is_empty());
}

#[test]
fn later_headers_never_touch_the_data() {
    let data: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
    let mut buf = MsgBuf::from_slice(&data);
    let packets = data.len().div_ceil(PAYLOAD_BYTES_MIN) as u32;
    for index in 0..packets {
        buf.write_header(index, PAYLOAD_BYTES_MIN, &[index as u8; HEADER_BYTES]);
    }
    assert_eq!(buf.as_slice(), data);
    let mut read = Vec::new();
    for index in 0..packets {
        let (head, body) = buf.packet(index, PAYLOAD_BYTES_MIN);
        assert_eq!(head[..HEADER_BYTES], [index as u8; HEADER_BYTES]);
        read.extend_from_slice(&head[HEADER_BYTES..]);
        read.extend_from_slice(body);
    }
    assert_eq!(read, data);
}

#[test]
fn data_are_aligned_and_stay_where_they_are() {
    let mut bufs: Vec<MsgBuf> =
        [0, 1, 7, 8, 100, 512, 1024, 5000, 70_000].map(MsgBuf::with_capacity).into();
    let before: Vec<_> = bufs.iter_mut().map(MsgBuf::data_ptr).collect();
    for (buf, data) in bufs.iter_mut().zip(&before) {
        assert!(data.as_ptr().addr().is_multiple_of(MsgBuf::DATA_ALIGN));
        buf.set_len(buf.capacity());
        assert_eq!(buf.as_slice().as_ptr(), data.as_ptr().cast_const());
    }
    let mut moved: Vec<MsgBuf> = bufs.into_iter().rev().collect();
    let after: Vec<_> = moved.iter_mut().rev().map(MsgBuf::data_ptr).collect();
    assert_eq!(before, after);
}

#[test]
fn what_is_skipped_is_room_for_header_0_until_it_is_taken_back() {
    let data: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
    let mut buf = MsgBuf::from_slice(&data);
    let packets = (data.len() - 16).div_ceil(PAYLOAD_BYTES_MIN) as u32;
    buf.skip(8);
    buf.skip(8);
    assert_eq!((buf.len(), buf.capacity()), (4984, 4984));
    for index in 0..packets {
        buf.write_header(index, PAYLOAD_BYTES_MIN, &[0xee; HEADER_BYTES]);
    }
    assert_eq!(buf.as_slice(), &data[16..]);
    assert_eq!(buf.packet(0, 2000).0[HEADER_BYTES..], data[16..2016]);
    assert_eq!(buf.packet(1, 2000), (&[0xee; HEADER_BYTES][..], &data[2016..4016]));
    let footprint_bytes = buf.footprint_bytes();
    buf.rewind();
    assert_eq!((buf.len(), buf.capacity()), (5000, 5000));
    assert_eq!((&buf[16..], buf.footprint_bytes()), (&data[16..], footprint_bytes));
}

#[test]
#[should_panic(expected = "data to skip")]
fn no_more_is_skipped_than_there_is() {
    let mut buf = MsgBuf::with_capacity(100);
    buf.set_len(7);
    buf.skip(8);
}

#[test]
#[should_panic(expected = "such a packet")]
fn a_header_that_no_packet_has_is_a_bug() {
    let mut buf = MsgBuf::new(2 * PAYLOAD_BYTES_MIN);
    buf.write_header(2, PAYLOAD_BYTES_MIN, &[0; HEADER_BYTES]);
}

#[test]
fn an_empty_message_is_one_bare_header() {
    let buf = MsgBuf::new(0);
    assert_eq!(buf.packet(0, 1448).0.len(), HEADER_BYTES);
}

#[test]
#[should_panic(expected = "length within capacity")]
fn a_length_beyond_the_capacity_is_a_bug() {
    MsgBuf::new(4).set_len(5);
}
