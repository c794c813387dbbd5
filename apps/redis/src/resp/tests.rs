use proptest::prelude::*;

use super::*;

/// All commands of these bytes in pieces, and how they end.
fn read(bytes: &[u8], step: usize) -> (Vec<Command>, Result<usize, ProtocolError>) {
    let (mut reader, mut commands) = (Reader::default(), Vec::new());
    for piece in bytes.chunks(step.max(1)) {
        reader.extend(piece);
        loop {
            match reader.read() {
                Ok(Some(command)) => commands.push(command),
                Ok(None) => break,
                Err(error) => return (commands, Err(error)),
            }
        }
        assert!(reader.kept_bytes() <= COMMAND_BYTES_MAX + LINE_BYTES_MAX + piece.len());
    }
    (commands, Ok(reader.kept_bytes()))
}

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn arrays_and_lines_are_commands() {
    let said = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*0\r\n\r\n*-1\r\nset  k v \r\n\
        *1\r\n$0\r\n\r\nping\n*1\r\n$4";
    for step in 1..=said.len() {
        let (commands, rest) = read(said, step);
        let heard: Vec<_> = commands.iter().map(|command| command.words.clone()).collect();
        let expected =
            [words(&["GET", "a"]), words(&["set", "k", "v"]), words(&[""]), words(&["ping"])];
        assert_eq!((heard, rest), (expected.to_vec(), Ok(6)), "in pieces of {step}");
        assert_eq!(commands[0].bytes, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
        assert_eq!(commands[1].bytes, array(&words(&["set", "k", "v"])));
    }
}

#[test]
fn what_is_no_command_is_told_before_it_costs_anything() {
    let cases: [(&[u8], ProtocolError); 12] = [
        (b"*x\r\n", ProtocolError::Count),
        (b"*+1\r\n", ProtocolError::Count),
        (b"*01\r\n", ProtocolError::Count),
        (b"*2147483647\r\n", ProtocolError::Count),
        (b"*99999999999999999999999999", ProtocolError::Count),
        (b"*1\n$1\r\na\r\n", ProtocolError::Count),
        (b"*1\r\n:1\r\n", ProtocolError::NoBulk(b':')),
        (b"*1\r\n$-1\r\n", ProtocolError::Length),
        (b"*1\r\n$1x\r\n", ProtocolError::Length),
        (b"*1\r\n$1048577\r\n", ProtocolError::TooLong),
        (b"*1\r\n$1\r\nabc", ProtocolError::NoEnd),
        (b"set k \"a b\"\r\n", ProtocolError::Quotes),
    ];
    for (bytes, expected) in cases {
        for step in 1..=bytes.len() {
            let (commands, end) = read(bytes, step);
            assert_eq!((commands.len(), end), (0, Err(expected)), "{}", bytes.escape_ascii());
        }
    }
    let long = vec![b'a'; LINE_BYTES_MAX];
    assert_eq!(read(&long, 1000).1, Err(ProtocolError::LongLine));
    // Many strings that are each short enough.
    let many = [
        b"*9\r\n".to_vec(),
        [b"$200000\r\n".to_vec(), vec![0; 200_000], b"\r\n".to_vec()].concat().repeat(6),
    ]
    .concat();
    assert_eq!(read(&many, 65_536).1, Err(ProtocolError::TooLong));
}

proptest! {
    #[test]
    fn commands_come_back_however_they_are_cut(
        sent in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6),
            1..8,
        ),
        step in 1_usize..200,
    ) {
        let bytes: Vec<u8> = sent.iter().flat_map(|words| array(words)).collect();
        let (commands, rest) = read(&bytes, step);
        let heard: Vec<_> = commands.iter().map(|command| command.words.clone()).collect();
        prop_assert_eq!(heard, sent);
        prop_assert_eq!(rest, Ok(0));
        let again: Vec<u8> = commands.into_iter().flat_map(|command| command.bytes).collect();
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn any_bytes_mean_the_same_however_they_are_cut(
        bytes in prop::collection::vec(
            prop_oneof![
                Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'2'),
                any::<u8>(),
            ],
            0..200,
        ),
        step in 1_usize..50,
    ) {
        let whole = read(&bytes, bytes.len());
        prop_assert_eq!(&read(&bytes, step), &whole);
        for command in whole.0 {
            prop_assert_eq!(array(&command.words).len() >= command.words.len(), true);
            prop_assert_eq!(read(&command.bytes, 7).0, vec![command]);
        }
    }
}
