//! Messages come back as they were written, and any bytes are records or an error.

use proptest::prelude::*;

use super::*;

const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The datagrams of a message, or its flaw. Checks what is promised of records on the way.
fn read(message: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut datagrams = Vec::new();
    let mut end = 0;
    for record in records(message) {
        let Record { offset, len, segment_bytes } = record?;
        assert!(offset == end + HEAD_BYTES && (1..=len).contains(&segment_bytes));
        end = offset + len;
        datagrams.extend(message[offset..end].chunks(segment_bytes).map(<[u8]>::to_vec));
        assert!(datagrams.len() <= DATAGRAMS_MAX);
    }
    assert_eq!(end, message.len(), "nothing is passed over");
    Ok(datagrams)
}

/// Writes as many of the datagrams as fit.
fn write(datagrams: &[Vec<u8>], cut: usize) -> (Vec<u8>, usize) {
    let (mut writer, mut memory) = (Writer::default(), vec![0; MESSAGE_BYTES_MAX]);
    for datagram in datagrams {
        if !writer.fits(datagram.len(), MESSAGE_BYTES_MAX) {
            break;
        }
        let (first, second) = datagram.split_at(cut.min(datagram.len()));
        writer.push(&mut memory, [first, second]);
    }
    memory.truncate(writer.len());
    (memory, writer.datagrams())
}

/// A program of lengths: many equal ones next to each other, and others.
fn datagrams() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let run = (prop_oneof![1usize..80, 1usize..6000], 1usize..12, any::<u8>());
    let run = run.prop_map(|(len, count, fill)| vec![vec![fill; len]; count]);
    prop::collection::vec(run, 1..12).prop_map(|runs| runs.concat())
}

proptest! {
    #[test]
    fn w34_datagrams_come_back_as_they_were(all in datagrams(), cut in 0usize..100) {
        let (message, taken) = write(&all, cut);
        prop_assert!(message.len() <= MESSAGE_BYTES_MAX);
        prop_assert_eq!(read(&message), Ok(all[..taken].to_vec()));
        let is_all = taken == all.len() || taken == DATAGRAMS_MAX;
        let next = all.get(taken).map_or(0, Vec::len);
        prop_assert!(is_all || message.len() + HEAD_BYTES + next > MESSAGE_BYTES_MAX);
    }

    #[test]
    fn any_bytes_are_records_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }

    #[test]
    fn a_damaged_message_is_read_within_its_bytes(
        all in datagrams(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        len in any::<prop::sample::Index>(),
    ) {
        let (mut message, _) = write(&all, 0);
        let at = at.index(message.len());
        message[at] = byte;
        let len = len.index(message.len() + 1);
        let _ = read(&message[..len]);
    }
}

#[test]
fn w34_equal_datagrams_share_a_head() {
    let all = vec![vec![7; 50], vec![8; 50], vec![9; 20], vec![10; 20], vec![11; 30]];
    let (message, taken) = write(&all, 24);
    assert_eq!((message.len(), taken), (170 + 3 * HEAD_BYTES, 5));
    let lens: Vec<_> = records(&message).map(|record| record.map(|record| record.len)).collect();
    assert_eq!(lens, [Ok(120), Ok(20), Ok(30)]);
    assert_eq!(read(&message), Ok(all));
}

#[test]
fn w34_impossible_messages_are_refused() {
    let head = |len: u16, segment: u16| [len.to_le_bytes(), segment.to_le_bytes()].concat();
    let with = |len, segment, bytes: usize| [head(len, segment), vec![1; bytes]].concat();
    for (message, flaw) in [
        (vec![], Malformed::Head),
        (vec![1, 0, 1], Malformed::Head),
        ([with(1, 1, 1), vec![1, 0, 1]].concat(), Malformed::Head),
        (with(0, 0, 0), Malformed::Length),
        (with(0, 1, 4), Malformed::Length),
        (with(5, 0, 5), Malformed::Length),
        (with(5, 6, 5), Malformed::Length),
        (with(6, 6, 5), Malformed::Length),
        (with(u16::MAX, 1, 500), Malformed::Length),
        (with(65, 1, 65), Malformed::Count),
        ([with(64, 1, 64), with(1, 1, 1)].concat(), Malformed::Count),
    ] {
        assert_eq!(read(&message), Err(flaw), "{message:?}");
    }
    assert_eq!(read(&with(64, 1, 64)).map(|all| all.len()), Ok(64));
}

#[test]
fn w34_a_message_has_its_most_datagrams_and_bytes() {
    let (message, taken) = write(&vec![vec![1]; 100], 1);
    assert_eq!((message.len(), taken), (HEAD_BYTES + DATAGRAMS_MAX, DATAGRAMS_MAX));
    let longest = vec![3; MESSAGE_BYTES_MAX - HEAD_BYTES];
    assert_eq!(write(&[longest, vec![1]], 0).1, 1);
    let full = vec![vec![2; 4024]; 9];
    assert_eq!(write(&full, 24).1, 4, "four full packets are in a message");
}
