//! Calls, whatever is between their ends.

use std::ptr::{null, null_mut};

use petasos_capi::*;

use crate::new_world;
use crate::world::*;

#[test]
fn waiting_can_time_out_be_polled_and_end() {
    let world = new_world(0);
    let (call, mut bytes, mut queue) = (world.call(0), nothing(), null_mut());
    // SAFETY: handles are valid until they are freed; the queue is freed last.
    unsafe {
        assert_eq!(petasos_queue_new(&mut queue), PETASOS_OK);
        assert_eq!(petasos_call_receive(call, 1000, &mut bytes), PETASOS_TIMED_OUT);
        let wake: petasos_wake = Some(petasos_queue_push);
        let waker = petasos_waker { wake, context: queue.cast(), tag: 7 };
        assert_eq!(petasos_call_poll_receive(call, waker, &mut bytes), PETASOS_PENDING);
        let there = world.accept();
        assert_eq!(
            text(petasos_call_service(there)) + &text(petasos_call_method(there)),
            "t.EchoOne"
        );
        assert_eq!(receive(there).as_deref(), Ok(HELLO));
        assert_eq!(receive(there), Err(PETASOS_END));
        assert_eq!(petasos_call_send(there, HELLO.as_ptr(), HELLO.len(), LONG_US), PETASOS_OK);
        assert_eq!(finish(there, PETASOS_OK), PETASOS_OK);
        let mut tag = 0;
        assert_eq!((petasos_queue_take(queue, &mut tag, 1, LONG_US), tag), (1, 7));
        assert_eq!(receive(call).as_deref(), Ok(HELLO));
        assert_eq!(receive(call), Err(PETASOS_END));
        petasos_call_free(call);
        petasos_queue_free(queue);
    }
}

#[test]
fn ends_other_than_ok_are_told() {
    let world = new_world(0);
    let call = world.call(0);
    assert_eq!(finish(world.accept(), PETASOS_ABORTED), PETASOS_OK);
    assert_eq!((receive(call), &*message()), (Err(PETASOS_ABORTED), "why"));
    // SAFETY: the calls are freed once.
    unsafe { petasos_call_free(call) };
    let call = world.call(0);
    assert_eq!(finish(world.accept(), PETASOS_OK), PETASOS_OK, "the caller hears what is missing");
    assert_eq!(receive(call), Err(PETASOS_INTERNAL));
    // SAFETY: as above.
    unsafe { petasos_call_free(call) };
    let call = world.call(0);
    // SAFETY: as above.
    unsafe { petasos_call_free(world.accept()) };
    assert_eq!((receive(call), &*message()), (Err(13), "the handler gave no answer"));
    // SAFETY: as above.
    unsafe { petasos_call_free(call) };
}

#[test]
fn whoever_gives_up_is_heard_at_the_other_end() {
    let world = new_world(0);
    let call = world.call(0);
    let (there, mut queue, mut tag) = (world.accept(), null_mut(), 0);
    // SAFETY: handles are valid until they are freed; the queue is freed last.
    unsafe {
        assert_eq!(petasos_queue_new(&mut queue), PETASOS_OK);
        let wake: petasos_wake = Some(petasos_queue_push);
        let waker = petasos_waker { wake, context: queue.cast(), tag: 5 };
        assert_eq!(petasos_call_poll_cancelled(there, waker), PETASOS_PENDING);
        assert_eq!(petasos_call_cancel(call), PETASOS_OK);
        assert_eq!(receive(call), Err(PETASOS_CANCELLED));
        assert_eq!((petasos_queue_take(queue, &mut tag, 1, LONG_US), tag), (1, 5));
        assert!(petasos_call_is_cancelled(there));
        assert_eq!(finish(there, PETASOS_NOT_FOUND), PETASOS_CANCELLED);
        petasos_call_free(call);
        petasos_queue_free(queue);
    }
}

#[test]
fn time_that_is_over_ends_both_sides() {
    let world = new_world(0);
    let call = world.call(100_000);
    let there = world.accept();
    // SAFETY: the call is valid.
    let left_us = unsafe { petasos_call_timeout_us(there) };
    assert!((1..=100_000).contains(&left_us), "{left_us}");
    assert_eq!(receive(call), Err(PETASOS_DEADLINE_EXCEEDED));
    // SAFETY: the calls are freed once.
    unsafe {
        petasos_call_free(call);
        petasos_call_free(there);
    }
}

#[test]
fn a_stream_that_is_closed_at_once_is_empty() {
    let (world, method, mut call) = (new_world(0), c"Many".as_ptr(), null_mut());
    // SAFETY: handles are valid until they are freed.
    unsafe {
        let code = petasos_call_start(world.client, method, null(), 0, 0, null(), &mut call);
        assert_eq!(code, PETASOS_OK, "{}", message());
        assert_eq!(petasos_call_close_send(call), PETASOS_OK);
        // Only receiving moves the call on.
        assert_eq!(petasos_call_receive(call, 0, &mut nothing()), PETASOS_TIMED_OUT);
        let client = call as usize;
        let answer = std::thread::spawn(move || receive(client as *mut petasos_call));
        let there = world.accept();
        assert_eq!(receive(there), Err(PETASOS_END));
        assert_eq!(finish(there, PETASOS_OK), PETASOS_OK);
        assert_eq!(answer.join().expect("it waits"), Err(PETASOS_END));
        petasos_call_free(call);
    }
}

#[test]
fn calls_beyond_the_limit_are_refused() {
    let world = new_world(1);
    let calls = [world.call(0), world.call(0)];
    let mut ended = calls.iter().enumerate().cycle().filter_map(|(index, call)| {
        // SAFETY: the call is valid, and gives no message.
        let code = unsafe { petasos_call_receive(*call, 1000, &mut nothing()) };
        (code != PETASOS_TIMED_OUT).then_some((index, code))
    });
    // By way of a router, the second may be the first to come.
    let (refused, code) = ended.next().expect("it goes on until one has ended");
    assert_eq!(code, PETASOS_RESOURCE_EXHAUSTED);
    assert_eq!(finish(world.accept(), PETASOS_ABORTED), PETASOS_OK);
    assert_eq!(receive(calls[1 - refused]), Err(PETASOS_ABORTED));
    // SAFETY: the calls are freed once.
    calls.into_iter().for_each(|call| unsafe { petasos_call_free(call) });
}
