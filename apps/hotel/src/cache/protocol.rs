//! memcached's text protocol, as far as it is needed: without I/O.

/// The longest line of an answer.
const LINE_BYTES_MAX: usize = 1024;
/// The longest value: memcached's own limit.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// The longest key: memcached's own limit.
const KEY_BYTES_MAX: usize = 250;

/// A part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Value {
        key: String,
        value: Vec<u8>,
    },
    /// No more values come.
    End,
    /// What was asked for is done, or there was nothing to delete.
    Done,
    /// The server could not do it.
    Failed(String),
}

/// The server does not speak the protocol.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

/// Whether memcached takes this as a key.
pub fn is_key(key: &str) -> bool {
    !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Asks for values. All are keys ([`is_key`]).
pub fn get<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut command = b"get".to_vec();
    for key in keys {
        command.push(b' ');
        command.extend(key.as_bytes());
    }
    command.extend(b"\r\n");
    command
}

/// Sets a value, which expires after so many seconds unless they are 0.
pub fn set(key: &str, value: &[u8], expiry_s: u32) -> Vec<u8> {
    let mut command = format!("set {key} 0 {expiry_s} {}\r\n", value.len()).into_bytes();
    command.extend(value);
    command.extend(b"\r\n");
    command
}

/// Deletes a value.
pub fn delete(key: &str) -> Vec<u8> {
    format!("delete {key}\r\n").into_bytes()
}

/// Takes a part of an answer from the beginning of `bytes`: it, and its length. `None` if more
/// bytes are needed.
pub fn reply(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Broken> {
    let head = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = head.windows(2).position(|two| two == b"\r\n") else {
        return if bytes.len() < LINE_BYTES_MAX { Ok(None) } else { Err(Broken) };
    };
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| Broken)?;
    let after = end + 2;
    let alone = |reply| Ok(Some((reply, after)));
    match line {
        "END" => alone(Reply::End),
        "STORED" | "DELETED" | "NOT_FOUND" => alone(Reply::Done),
        _ if line.starts_with("SERVER_ERROR") => alone(Reply::Failed(line.to_owned())),
        _ => value(line, &bytes[after..]).map(|found| found.map(|(r, bytes)| (r, after + bytes))),
    }
}

/// The value that a line announces, and the bytes that it takes behind the line.
fn value(line: &str, rest: &[u8]) -> Result<Option<(Reply, usize)>, Broken> {
    let mut words = line.strip_prefix("VALUE ").ok_or(Broken)?.split(' ');
    let (key, _flags, bytes) = (words.next(), words.next(), words.next());
    let key = key.filter(|key| is_key(key)).ok_or(Broken)?;
    let bytes: usize = bytes.and_then(|bytes| bytes.parse().ok()).ok_or(Broken)?;
    if bytes > VALUE_BYTES_MAX {
        return Err(Broken);
    }
    match rest.get(bytes..bytes + 2) {
        None => Ok(None),
        Some(b"\r\n") => {
            let value = rest[..bytes].to_vec();
            Ok(Some((Reply::Value { key: key.to_owned(), value }, bytes + 2)))
        }
        Some(_) => Err(Broken),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(mut bytes: &[u8]) -> Result<Vec<Reply>, Broken> {
        let mut replies = Vec::new();
        while let Some((part, used)) = reply(bytes)? {
            replies.push(part);
            bytes = &bytes[used..];
        }
        Ok(replies)
    }

    #[test]
    fn commands_are_as_specified() {
        assert_eq!(get(["a", "b"]), b"get a b\r\n");
        assert_eq!(set("k", b"v\r\n", 60), b"set k 0 60 3\r\nv\r\n\r\n");
        assert_eq!(delete("k"), b"delete k\r\n");
    }

    #[test]
    fn answers_are_taken_apart() {
        let replies = all(b"VALUE a 0 4\r\n\r\nEN\r\nVALUE b 7 0\r\n\r\nEND\r\n");
        let value =
            |key: &str, value: &[u8]| Reply::Value { key: key.to_owned(), value: value.to_vec() };
        assert_eq!(replies, Ok(vec![value("a", b"\r\nEN"), value("b", b""), Reply::End]));
        let done = all(b"STORED\r\nDELETED\r\nNOT_FOUND\r\n");
        assert_eq!(done, Ok(vec![Reply::Done, Reply::Done, Reply::Done]));
        let failed = all(b"SERVER_ERROR out of memory\r\n");
        assert_eq!(failed, Ok(vec![Reply::Failed("SERVER_ERROR out of memory".into())]));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let long = [b'x'; LINE_BYTES_MAX];
        let lines: [&[u8]; 7] = [
            b"ERROR\r\n",
            b"VALUE a 0 1048577\r\n",
            b"VALUE a 0 -1\r\n",
            b"VALUE a\r\n",
            b"VALUE a 0 1\r\nabc",
            b"\xff\r\n",
            &long,
        ];
        for line in lines {
            assert_eq!(all(line), Err(Broken), "{line:?}");
        }
        assert_eq!(reply(&long[1..]), Ok(None));
    }

    #[test]
    fn keys_have_no_spaces_and_an_end() {
        assert!(is_key("profile:1") && is_key(&"k".repeat(KEY_BYTES_MAX)));
        for key in ["", "a b", "a\r\nflush_all", "é", &"k".repeat(KEY_BYTES_MAX + 1)] {
            assert!(!is_key(key), "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, tail in "(VALUE |END|\r\n|[0-9 a])*") {
            let _ = all(&bytes);
            let _ = all(tail.as_bytes());
        }

        #[test]
        fn an_answer_is_whole_only_at_its_end(value: Vec<u8>) {
            let mut answer = format!("VALUE key 0 {}\r\n", value.len()).into_bytes();
            answer.extend(&value);
            answer.extend(b"\r\n");
            for len in 0..answer.len() {
                prop_assert_eq!(reply(&answer[..len]), Ok(None));
            }
            let whole = Reply::Value { key: "key".to_owned(), value };
            prop_assert_eq!(reply(&answer), Ok(Some((whole, answer.len()))));
        }
    }
}
