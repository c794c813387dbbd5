//! Replies of all types, in any pieces.

use petasos_base::Rng;

use super::*;

/// Reads all of `input` in two pieces, as a connection does.
fn read(input: &[u8], cut: usize) -> Result<Vec<Reply>, String> {
    let mut reader = Value::default();
    let (mut replies, mut kept) = (Vec::new(), Vec::new());
    for piece in [&input[..cut], &input[cut..]] {
        kept.extend_from_slice(piece);
        let mut done = 0;
        while done < kept.len() {
            let (read, reply) = reader.read(&kept[done..])?;
            done += read;
            replies.extend(reply.clone());
            if read == 0 && reply.is_none() {
                break;
            }
        }
        kept.drain(..done);
        assert!(kept.len() < LINE_BYTES_MAX, "what is kept is bounded");
    }
    Ok(replies)
}

fn replied(result: Result<(), &str>) -> Reply {
    Reply { result: result.map_err(str::to_owned), stays_open: true }
}

const VALUES: [&str; 9] = [
    "+PONG\r\n",
    ":-12\r\n",
    "$5\r\nhello\r\n",
    "$4\r\n\r\n\r\n\r\n",
    "$0\r\n\r\n",
    "$-1\r\n",
    "*0\r\n",
    "*-1\r\n",
    "*3\r\n*2\r\n:1\r\n$1\r\nx\r\n+a\r\n*1\r\n*0\r\n",
];

#[test]
fn replies_are_read_to_their_ends_wherever_they_are_cut() {
    for value in VALUES {
        for cut in 0..=value.len() {
            let read = read(value.as_bytes(), cut);
            assert_eq!(read, Ok(vec![replied(Ok(()))]), "{value:?} at {cut}");
            if cut < value.len() {
                assert_eq!(self::read(&value.as_bytes()[..cut], 0), Ok(vec![]), "{value:?}");
            }
        }
    }
    let all = VALUES.concat();
    for cut in 0..=all.len() {
        assert_eq!(read(all.as_bytes(), cut), Ok(vec![replied(Ok(())); VALUES.len()]));
    }
}

#[test]
fn errors_are_failures_and_the_next_reply_is_none() {
    let both = b"-ERR no such thing\r\n+OK\r\n*2\r\n-ERR inside\r\n:1\r\n";
    let [first, last] = [replied(Err("ERR no such thing")), replied(Err("ERR inside"))];
    for cut in 0..=both.len() {
        assert_eq!(read(both, cut), Ok(vec![first.clone(), replied(Ok(())), last.clone()]));
    }
}

#[test]
fn what_is_wrong_is_said() {
    let long = format!("+{}", "x".repeat(LINE_BYTES_MAX));
    for (reply, what) in [
        ("HTTP/1.1 400 Bad\r\n", "no RESP: it begins with \"HTTP/1.1 400 Bad"),
        ("H", "no RESP"),
        (&long, "no RESP"),
        ("+OK\n", "no RESP"),
        ("\r\n", "no RESP"),
        (":x\r\n", "no RESP"),
        ("$\r\n", "no RESP"),
        ("$1073741825\r\n", "a string of 1073741825 bytes"),
        ("$-2\r\n", "a string of -2 bytes"),
        ("*16777217\r\n", "an array of 16777217 elements"),
        ("*2\r\n*16777214\r\n", "an array of 16777214 elements"),
        ("*-2\r\n", "an array of -2 elements"),
        ("%1\r\n+a\r\n+b\r\n", "no RESP"),
    ] {
        let error = read(reply.as_bytes(), 0).expect_err(reply);
        assert!(error.contains(what), "{reply:?}: {error}");
    }
}

#[test]
fn no_bytes_are_too_much() {
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        let mut bytes = VALUES.concat().into_bytes();
        for _ in 0..rng.below(4) {
            let place = rng.below(bytes.len() as u64) as usize;
            bytes[place] = rng.next_u64() as u8;
        }
        let cut = rng.below(bytes.len() as u64) as usize;
        assert_eq!(read(&bytes, cut).is_ok(), read(&bytes, 0).is_ok(), "{bytes:?}");
    }
}

#[test]
fn commands_are_arrays_of_strings() {
    let words = ["SET", "key", "a value\r\n"].map(str::to_owned);
    let mut command = Resp::command(&words).expect("it is fine");
    assert_eq!(command.request(), b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$9\r\na value\r\n\r\n");
    assert_eq!(Resp::command(&[]), Err(RespError::Empty));
    assert_eq!(Resp::command(&[String::new()]), Err(RespError::Empty));
    let long = "x".repeat(COMMAND_BYTES_MAX + 1);
    assert_eq!(Resp::command(&[long]), Err(RespError::TooLong(COMMAND_BYTES_MAX + 1)));
}
