//! A call's place in a distributed trace: W3C Trace Context.

use core::fmt;

/// A call's place in a distributed trace. Vendor data (`tracestate`) are sent as metadata of that
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The ID of the whole trace.
    pub trace_id: [u8; 16],
    /// The ID of the call's parent span.
    pub span_id: [u8; 8],
    /// Bit 0: the trace is recorded.
    pub flags: u8,
}

/// The length of version 0 of the header: `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const HEADER_BYTES: usize = 55;

impl TraceContext {
    /// Whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Parses a `traceparent` header. `None` if it is invalid, or names no trace. Of later
    /// versions, only the parts that version 0 has are used.
    pub fn from_traceparent(text: &str) -> Option<TraceContext> {
        let (head, rest) = text.as_bytes().split_at_checked(HEADER_BYTES)?;
        let [version] = hex(&head[..2])?;
        let is_form = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|next| *next == b'-'),
        };
        if !is_form || [head[2], head[35], head[52]] != [b'-'; 3] {
            return None;
        }
        let (trace_id, span_id) = (hex(&head[3..35])?, hex(&head[36..52])?);
        let [flags] = hex(&head[53..])?;
        let is_some = trace_id != [0; 16] && span_id != [0; 8];
        is_some.then_some(TraceContext { trace_id, span_id, flags })
    }
}

/// Formats the value of a `traceparent` header, version 0.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace_id), u64::from_be_bytes(self.span_id));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

/// Decodes twice as many lower-case hex digits.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    (digits.len() == 2 * N).then_some(bytes)
}

fn digit(of: u8) -> Option<u8> {
    match of {
        b'0'..=b'9' => Some(of - b'0'),
        b'a'..=b'f' => Some(of - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_is_read_as_it_is_written() {
        let trace = TraceContext::from_traceparent(HEADER).expect("the standard's example");
        assert_eq!((trace.trace_id[..2].to_vec(), trace.span_id[7]), (vec![0x0a, 0xf7], 0x31));
        assert!(trace.is_sampled());
        assert_eq!(trace.to_string(), HEADER);
        let later = format!("cc{}-what-comes", &HEADER[2..]);
        assert_eq!(TraceContext::from_traceparent(&later), Some(trace));
    }

    #[test]
    fn what_breaks_the_standard_is_no_trace() {
        let zeros = |range: std::ops::Range<usize>| {
            let mut header = HEADER.to_owned();
            header.replace_range(range.clone(), &"0".repeat(range.len()));
            header
        };
        let wrong = [
            String::new(),
            HEADER[..54].to_owned(),
            format!("{HEADER}-more"),
            format!("ff{}", &HEADER[2..]),
            format!("cc{}x", &HEADER[2..]),
            HEADER.to_uppercase(),
            HEADER.replace('-', "_"),
            HEADER.replace('b', "é"),
            zeros(3..35),
            zeros(36..52),
        ];
        for header in wrong {
            assert_eq!(TraceContext::from_traceparent(&header), None, "{header}");
        }
    }
}
