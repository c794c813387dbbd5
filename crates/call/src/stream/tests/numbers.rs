use super::super::*;
use crate::tail::TailError;
use crate::{Code, Malformed};

type Segment = CallerSegment<Vec<u8>>;

fn segment(stream: u32, number: u16) -> Segment {
    let mut segment = Segment::bare(stream, number, true);
    segment.open = (number == 0).then(Open::default);
    segment
}

fn over(number: u16) -> Arrival<u32, Vec<u8>> {
    Arrival::Answer(ServerSegment::over(number))
}

#[test]
fn r14_a_session_has_half_as_many_streams_as_slots() {
    let mut numbers = StreamNumbers::new(5);
    assert_eq!([numbers.open(), numbers.open(), numbers.open()], [Some(1), Some(2), None]);
    numbers.close();
    assert_eq!((numbers.open(), numbers.open_streams()), (Some(3), 2));
}

#[test]
fn r19_streams_that_are_over_are_told_from_those_that_have_not_begun() {
    let mut streams = SessionStreams::new(8);
    assert_eq!(streams.classify(&segment(2, 0)), Arrival::New);
    streams.insert(2, 22);
    assert_eq!(streams.classify(&segment(2, 1)), Arrival::Stream(22));
    assert_eq!(streams.classify(&segment(1, 1)), Arrival::New, "overtook its segment 0");
    streams.insert(1, 11);
    assert_eq!(streams.classify(&segment(1, 0)), Arrival::Stream(11));
    streams.remove(1);
    for number in [0, 1, 2, 9] {
        assert_eq!(streams.classify(&segment(1, number)), over(number));
    }
    assert_eq!(streams.keys().collect::<Vec<_>>(), [22]);
}

#[test]
fn r19_a_reset_that_overtakes_its_stream_keeps_it_from_beginning() {
    let mut streams = SessionStreams::new(8);
    let mut reset = Segment::bare(1, 1, false);
    reset.reset = true;
    assert_eq!(streams.classify(&reset), over(1));
    assert_eq!(streams.classify(&segment(1, 0)), over(0));
}

#[test]
fn r19_what_cannot_begin_a_stream_does_not() {
    let mut streams = SessionStreams::new(8);
    let mut not_open = segment(1, 0);
    not_open.open = None;
    for wrong in [not_open, segment(1, 2), segment(0, 0), segment(6, 0), segment(u32::MAX, 0)] {
        assert_eq!(streams.classify(&wrong), over(wrong.number), "{wrong:?}");
    }
    assert_eq!(streams.classify(&segment(5, 0)), Arrival::New, "four may be on the way");
    assert_eq!(streams.classify(&segment(7, 0)), over(0), "but not five");
}

#[test]
fn r21_a_stream_beyond_the_bound_is_refused_and_forgotten() {
    let mut streams = SessionStreams::new(4);
    for number in 1..=2 {
        assert_eq!(streams.classify(&segment(number, 0)), Arrival::New);
        streams.insert(number, number);
    }
    let Arrival::Answer(refusal) = streams.classify(&segment(3, 0)) else { panic!("taken") };
    assert!(refusal.ended);
    assert_eq!(refusal.end.unwrap().code(), Code::ResourceExhausted);
    streams.remove(1);
    assert_eq!(streams.classify(&segment(3, 1)), over(1));
    assert_eq!(streams.classify(&segment(4, 0)), Arrival::New);
}

#[test]
fn r13_a_segment_that_cannot_be_parsed_ends_its_stream() {
    let mut streams = SessionStreams::new(4);
    let error = |stream| SegmentError { stream, number: 0, why: Malformed::Record.into() };
    let Arrival::<u32, Vec<u8>>::Answer(answer) = streams.classify_malformed(&error(1)) else {
        panic!("there is no stream")
    };
    assert_eq!(answer.end.unwrap().code(), Code::Internal);
    assert_eq!(streams.classify(&segment(1, 1)), over(1));
    assert_eq!(streams.classify(&segment(2, 0)), Arrival::New);
    streams.insert(2, 22);
    let found: Arrival<u32, Vec<u8>> = streams.classify_malformed(&error(2));
    assert_eq!(found, Arrival::Stream(22));
    let nameless = SegmentError { stream: 0, number: 7, why: TailError::TooLong };
    let Arrival::<u32, Vec<u8>>::Answer(answer) = streams.classify_malformed(&nameless) else {
        panic!("there is no stream")
    };
    assert_eq!((answer.number, answer.ended), (7, true));
}
