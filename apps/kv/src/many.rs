//! Many requests, or responses, in one message (K21): each preceded by its length, in 4 bytes.

/// Requests of a message at most.
pub const MANY_MAX: usize = 256;
const LENGTH_BYTES: usize = 4;

/// Adds one to a message.
pub(crate) fn push(message: &mut Vec<u8>, bytes: usize, write: impl FnOnce(&mut [u8])) {
    message.extend((bytes as u32).to_le_bytes());
    let at = message.len();
    message.resize(at + bytes, 0);
    write(&mut message[at..]);
}

/// Those of a message, each `None` once it is not as announced: nothing follows then.
pub(crate) struct Many<'a> {
    rest: &'a [u8],
}

impl<'a> Many<'a> {
    pub fn new(message: &'a [u8]) -> Many<'a> {
        Many { rest: message }
    }
}

impl<'a> Iterator for Many<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        if self.rest.is_empty() {
            return None;
        }
        let next = self
            .rest
            .split_first_chunk::<LENGTH_BYTES>()
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        self.rest = next.map_or(&[], |(_, rest)| rest);
        Some(next.map(|(one, _)| one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k21_messages_are_read_as_they_were_written() {
        let all: [&[u8]; 4] = [b"one", b"", b"three", &[7; 1000]];
        let mut message = Vec::new();
        for one in all {
            push(&mut message, one.len(), |to| to.copy_from_slice(one));
        }
        let read: Vec<_> = Many::new(&message).collect();
        assert_eq!(read, all.map(Some));
        // What is cut has no end.
        for len in (1..message.len()).filter(|len| ![7, 11, 20].contains(len)) {
            assert_eq!(Many::new(&message[..len]).last(), Some(None), "{len}");
        }
        assert_eq!(Many::new(&[255; 100]).collect::<Vec<_>>(), [None]);
    }
}
