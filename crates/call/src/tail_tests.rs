use proptest::prelude::*;

use super::*;
use crate::{Code, HEAD_BYTES, split};

const TRACE_CONTEXT: TraceContext = TraceContext { trace_id: [7; 16], span_id: [8; 8], flags: 1 };

fn entry(kind: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let key_bytes = u8::try_from(key.len()).unwrap();
    let [low, high] = u16::try_from(value.len()).unwrap().to_le_bytes();
    [&[kind, key_bytes, low, high], key, value].concat()
}

fn read(tail: &[u8]) -> Result<TailParts, TailError> {
    read_tail(tail, TAIL_BYTES_MAX)
}

#[test]
fn r9_entries_lie_where_the_rule_says() {
    let mut metadata = Metadata::new();
    metadata.append("k", "vw").unwrap();
    metadata.append_bin("k-bin", &[0]).unwrap();
    let status = Status::not_found("no").with_details(vec![9, 9]).with_metadata(metadata.clone());
    let mut out = vec![0xee];
    let mut writer = TailWriter::new(&mut out);
    assert!(writer.is_empty());
    writer.metadata(MetadataKind::Initial, &metadata);
    writer.trace(&TRACE_CONTEXT);
    writer.status(&status);
    let bytes = writer.len();
    writer.finish();
    let trace = [&[7; 16][..], &[8; 8], &[1]].concat();
    let expected = [
        entry(1, b"k", b"vw"),
        entry(1, b"k-bin", &[0]),
        entry(5, b"", &trace),
        entry(3, b"", b"no"),
        entry(4, b"", &[9, 9]),
        entry(2, b"k", b"vw"),
        entry(2, b"k-bin", &[0]),
    ];
    let expected = expected.concat();
    assert_eq!((bytes, &out[1..out.len() - 4]), (expected.len(), &expected[..]));
    let parts = read(&expected).unwrap();
    assert_eq!(parts.trace, Some(TRACE_CONTEXT));
    assert_eq!(parts.into_status(Code::NotFound), (status, metadata));
}

#[test]
fn r5_r9_a_written_tail_is_found_behind_the_body() {
    let mut message = vec![0; HEAD_BYTES];
    message.extend_from_slice(b"body");
    let mut writer = TailWriter::new(&mut message);
    writer.status(&Status::internal("why"));
    writer.finish();
    let (body, tail) = split(&message, true).unwrap();
    assert_eq!(&message[body], b"body");
    assert_eq!(read(tail).unwrap().message, "why");
}

#[test]
fn r9_nothing_to_say_is_no_tail() {
    let mut out = Vec::new();
    let mut writer = TailWriter::new(&mut out);
    writer.metadata(MetadataKind::Trailing, &Metadata::new());
    writer.status(&Status::aborted(""));
    assert!(writer.is_empty());
}

#[test]
fn r9_a_long_message_is_cut_at_a_characters_end_and_long_details_left_out() {
    let mut out = Vec::new();
    let status = Status::internal(format!("x{}", "ü".repeat(40_000)));
    TailWriter::new(&mut out).status(&status.with_details(vec![1; 65_536]));
    let parts = read(&out).unwrap();
    assert_eq!(parts.message, format!("x{}", "ü".repeat(4095)));
    assert!(parts.details.is_empty());
}

#[test]
fn r9_unknown_kinds_are_passed_over() {
    let tail = [entry(0, b"\xff", b"\xff"), entry(9, b"", b"x"), entry(3, b"", b"text")].concat();
    assert_eq!(read(&tail).unwrap(), TailParts { message: "text".into(), ..Default::default() });
}

#[test]
fn r9_r13_what_breaks_the_rule_is_malformed() {
    let cases = [
        (vec![1, 0, 0], Malformed::Entry),
        (vec![1, 1, 0, 0], Malformed::Entry),
        (vec![9, 0, 1, 0], Malformed::Entry),
        (entry(1, b"", b"v"), Malformed::Metadata),
        (entry(1, b"K", b"v"), Malformed::Metadata),
        (entry(2, b"grpc-status", b"0"), Malformed::Metadata),
        (entry(2, b"k", b"\n"), Malformed::Metadata),
        (entry(3, b"", b"\xff"), Malformed::Text),
        (entry(3, b"k", b"text"), Malformed::Entry),
        (entry(4, b"k", b""), Malformed::Entry),
        (entry(5, b"", &[0; 24]), Malformed::Entry),
    ];
    for (tail, malformed) in cases {
        assert_eq!(read(&tail), Err(TailError::Malformed(malformed)), "{tail:?}");
        assert_eq!(Status::from(read(&tail).unwrap_err()).code(), Code::Internal);
    }
}

#[test]
fn r9_more_than_the_limit_is_resource_exhausted() {
    let tail = entry(3, b"", &[b'x'; 96]);
    assert!(read_tail(&tail, 100).is_ok());
    let refused = read_tail(&tail, 99).unwrap_err();
    assert_eq!(Status::from(refused).code(), Code::ResourceExhausted);
}

fn metadata() -> impl Strategy<Value = Metadata> {
    let text = ("[0-9a-z_.]{1,9}", "[ -~]{0,9}").prop_map(|(key, value)| (key, value.into()));
    let bytes = ("[a-z]{1,9}-bin", proptest::collection::vec(any::<u8>(), 0..9));
    proptest::collection::vec(prop_oneof![text, bytes], 0..5).prop_map(|entries| {
        let mut metadata = Metadata::new();
        for (key, value) in entries {
            metadata.append_bytes(key.as_bytes(), &value).unwrap();
        }
        metadata
    })
}

proptest! {
    #[test]
    fn r9_what_is_written_is_read(
        initial in metadata(), trailing in metadata(), message: String, details: Vec<u8>
    ) {
        let status = Status::unknown(message).with_details(details).with_metadata(trailing);
        let mut out = Vec::new();
        let mut writer = TailWriter::new(&mut out);
        writer.status(&status);
        writer.metadata(MetadataKind::Initial, &initial);
        let parts = read_tail(&out, usize::MAX).unwrap();
        prop_assert_eq!(parts.into_status(Code::Unknown), (status, initial));
    }

    #[test]
    fn r9_every_tail_is_read_or_fails(mut bytes: Vec<u8>, kind in 0u8..7, short in 0u8..4) {
        if let [first, key_bytes, low, high, ..] = &mut bytes[..] {
            (*first, *key_bytes, *low, *high) = (kind, *key_bytes % 4, short, 0);
        }
        if let Ok(parts) = read(&bytes) {
            let kept = parts.message.len() + parts.details.len() + parts.initial.tail_bytes();
            prop_assert!(kept + parts.trailing.tail_bytes() <= bytes.len());
        }
    }
}
