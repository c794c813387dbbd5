use petasos_abi::{CallNumber, Contents, Released};
use rustix::net::SendFlags;

use super::*;

const SLOTS: u32 = 8;

/// The service's end and the application's.
fn pair() -> (Lane, Lane) {
    let (service, [region, socket]) = Lane::create(SLOTS).expect("there is memory");
    (service, Lane::adopt(SLOTS, region, socket).expect("it was just made"))
}

fn grant(count: u64) -> Descriptor {
    Descriptor::Grant { call: CallNumber::new(Side::Application, count), bytes: count }
}

/// Sends bytes as a hostile side does.
fn send_bytes(from: &Lane, count: usize) -> usize {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::send(&from.socket, &vec![1; count], flags).unwrap_or(0)
}

#[test]
fn d4_descriptors_cross_in_order_and_both_ways() {
    let (mut service, mut application) = pair();
    for round in 0..3 * u64::from(SLOTS) {
        application.push(&grant(round)).expect("there is room");
        application.flush();
        service.push(&grant(round + 1)).expect("there is room");
        service.flush();
        assert_eq!(service.pop(), Ok(Some(grant(round))));
        assert_eq!(application.pop(), Ok(Some(grant(round + 1))));
        assert_eq!((service.pop(), application.pop()), (Ok(None), Ok(None)));
        service.release();
        application.release();
    }
}

#[test]
fn a_full_ring_gives_the_descriptor_back() {
    let (mut service, mut application) = pair();
    for count in 0..u64::from(SLOTS) {
        application.push(&grant(count)).expect("there is room");
    }
    assert_eq!(application.push(&grant(99)), Err(PushError::Full(grant(99))));
    application.flush();
    assert_eq!(application.push(&grant(99)), Err(PushError::Full(grant(99))));
    assert_eq!(service.pop(), Ok(Some(grant(0))));
    service.release();
    assert_eq!(application.push(&grant(99)), Ok(()));
}

#[test]
fn d12_a_byte_is_sent_once_and_only_to_who_sleeps() {
    let (mut service, mut application) = pair();
    application.push(&grant(1)).expect("there is room");
    assert!(!application.flush(), "nobody sleeps");
    assert!(!service.doze(), "there is something to pop");
    assert_eq!(service.pop(), Ok(Some(grant(1))));
    assert!(service.doze());
    application.push(&grant(2)).expect("there is room");
    assert!(application.flush());
    application.push(&grant(3)).expect("there is room");
    assert!(!application.flush(), "it has been woken");
    assert_eq!(service.wait(Duration::from_secs(60)), Ok(Woken::Byte));
    assert_eq!(service.pop(), Ok(Some(grant(2))));
    assert_eq!(service.pop(), Ok(Some(grant(3))));
    service.rise().expect("the other side is there");
    assert_eq!(service.unasked_bytes(), 0);
}

#[test]
fn d12_a_wake_up_that_comes_late_is_no_flood() {
    let (mut service, mut application) = pair();
    for round in 0..1000 {
        assert!(service.doze());
        application.push(&grant(round)).expect("there is room");
        assert!(application.flush());
        // As after a timeout: the byte is still in the socket.
        service.consumer.rise();
        assert_eq!(service.pop(), Ok(Some(grant(round))));
        service.release();
    }
    while poll_socket(service.as_fd(), PollFlags::IN, Duration::ZERO) == PollFlags::IN {
        assert_eq!(service.rise(), Ok(()));
    }
    assert_eq!(service.unasked_bytes(), 0);
}

#[test]
fn d12_a_turn_reads_at_most_64_bytes_and_a_flood_ends_the_lane() {
    let (mut service, application) = pair();
    assert_eq!(send_bytes(&application, 100), 100);
    assert_eq!(service.wait(Duration::from_secs(60)), Ok(Woken::Byte));
    assert_eq!(service.unasked_bytes(), 63, "one byte was asked for");
    assert_eq!(service.rise(), Ok(()));
    assert_eq!(service.unasked_bytes(), 99);
    let mut turns = 0;
    let end = loop {
        send_bytes(&application, WAKE_BYTES_PER_TURN);
        turns += 1;
        match service.rise() {
            Ok(()) => assert!(turns <= UNASKED_BYTES_MAX, "a flood has an end"),
            Err(end) => break end,
        }
    };
    assert_eq!(
        (end, service.rise(), service.pop()),
        (LaneError::Flood, Err(LaneError::Flood), Err(LaneError::Flood),)
    );
}

#[test]
fn d12_who_is_gone_is_seen_behind_any_bytes_and_what_it_pushed_is_popped() {
    let (mut service, mut application) = pair();
    application.push(&grant(1)).expect("there is room");
    application.flush();
    assert_eq!(send_bytes(&application, 1000), 1000);
    assert!(!service.is_gone());
    drop(application);
    assert!(service.is_gone());
    assert_eq!(service.pop(), Ok(Some(grant(1))));
    assert_eq!(service.pop(), Ok(None));
    assert_eq!(service.wait(Duration::from_secs(60)), Err(LaneError::Gone));
    assert!(service.push(&grant(2)).is_ok(), "the memory is still this side's");
    service.flush();
}

#[test]
fn d10_what_is_no_descriptor_ends_the_lane() {
    let begun_by = |side| Descriptor::Close { call: CallNumber::new(side, 1) };
    let mut unknown = grant(1).to_bytes();
    unknown[0] = 77;
    for record in [&unknown[..], &[7; 64], &[7; 1], &begun_by(Side::Service).to_bytes()] {
        let (mut service, mut application) = pair();
        application.producer.push(record, &[], record.len()).expect("there is room");
        application.push(&grant(2)).expect("there is room");
        application.flush();
        let Err(LaneError::Refused(refusal)) = service.pop() else { panic!("it is refused") };
        assert_eq!(service.pop(), Err(LaneError::Refused(refusal)), "nothing more is popped");
    }
}

#[test]
fn d9_all_kinds_fit_a_ring_of_slots_only() {
    let (mut service, mut application) = pair();
    let mut released = Released::new();
    (0..6).for_each(|token| released.push(token).expect("six fit"));
    let call = CallNumber::new(Side::Application, 1);
    let message = Contents { offset: 64, bytes: 3 };
    for descriptor in [Descriptor::Release(released), Descriptor::Message { call, message }] {
        application.push(&descriptor).expect("there is room");
        application.flush();
        assert_eq!(service.pop(), Ok(Some(descriptor)));
    }
}

#[test]
fn d12_a_socket_that_takes_no_more_bytes_makes_nobody_wait() {
    let (mut service, application) = pair();
    let full: usize =
        std::iter::from_fn(|| Some(send_bytes(&service, 4096))).take_while(|sent| *sent > 0).sum();
    assert!(full > 0);
    let mut application = application;
    assert!(application.doze());
    service.push(&grant(1)).expect("there is room");
    assert!(service.flush(), "it wants to wake the other side, whose socket is readable");
    assert_eq!(application.wait(Duration::from_secs(60)), Ok(Woken::Byte));
}

#[test]
fn d12_a_socket_that_is_half_closed_is_the_end() {
    let (mut service, application) = pair();
    let how = rustix::net::Shutdown::Write;
    rustix::net::shutdown(&application.socket, how).expect("it is connected");
    assert!(service.is_gone());
    assert_eq!(service.rise(), Err(LaneError::Gone));
}
