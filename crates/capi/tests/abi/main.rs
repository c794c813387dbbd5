//! What C programs rely on, without a compiler for C: every result is a code, nothing panics, and
//! waiting works in both ways.

mod calls;
mod world;

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use petasos_capi::*;

use world::*;

/// Nothing is between client and server.
fn new_world(calls_max: usize) -> World {
    let service = service();
    let server = start(service, &server_options(calls_max));
    // SAFETY: the server is valid; the service is freed once.
    unsafe {
        let target = format!("petasos://127.0.0.1:{}", petasos_server_port(server));
        let client = connect(&target, service);
        petasos_service_free(service);
        World { server, client, between: None }
    }
}

#[test]
fn wrong_arguments_are_told_and_harm_nothing() {
    let mut service = null_mut();
    // SAFETY: null is allowed, and told.
    unsafe {
        let code = petasos_service_named(null(), null(), 0, &mut service);
        assert_eq!((code, &*message()), (3, "the name must not be null"));
        let code = petasos_service_named(c"no name".as_ptr(), null(), 0, &mut service);
        assert_eq!((code, &*message()), (3, "`no name` is no name of a service or method"));
        assert_eq!(petasos_service_named(c"a.B".as_ptr(), null(), 0, null_mut()), 3);
        let code = petasos_service_described(b"\xff".as_ptr(), 1, c"a.B".as_ptr(), &mut service);
        assert_eq!(code, PETASOS_INVALID_ARGUMENT);
        assert_eq!(petasos_call_cancel(null()), PETASOS_INVALID_ARGUMENT);
        assert_eq!(petasos_call_receive(null(), 0, &mut nothing()), PETASOS_INVALID_ARGUMENT);
        petasos_call_free(null_mut());
        petasos_bytes_free(null_mut());
        petasos_queue_push(null_mut(), 1);
        assert_eq!(petasos_metadata_count(null()), 0);
    }
    assert_eq!(service, null_mut());
}

#[test]
fn metadata_keep_what_they_are_given() {
    let metadata = petasos_metadata_new();
    let empty = || petasos_slice { data: null(), length: 0 };
    let (mut key, mut value) = (empty(), empty());
    // SAFETY: all that is passed lives until the calls return.
    unsafe {
        assert_eq!(petasos_metadata_append(metadata, c"key".as_ptr(), b"one".as_ptr(), 3), 0);
        assert_eq!(petasos_metadata_append(metadata, c"Key".as_ptr(), b"one".as_ptr(), 3), 3);
        assert_eq!(petasos_metadata_count(metadata), 1);
        assert!(petasos_metadata_get(metadata, 0, &mut key, &mut value));
        assert_eq!((&*text(key), &*text(value)), ("key", "one"));
        assert!(!petasos_metadata_get(metadata, 1, &mut key, &mut value));
        petasos_metadata_free(metadata);
    }
}

#[test]
fn queues_give_tags_in_order() {
    let (mut queue, mut tags) = (null_mut(), [0; 2]);
    // SAFETY: the queue is freed when all is over.
    unsafe {
        assert_eq!(petasos_queue_new(&mut queue), PETASOS_OK);
        assert!(petasos_queue_descriptor(queue) >= 0);
        assert_eq!(petasos_queue_take(queue, tags.as_mut_ptr(), 2, 1), 0);
        for tag in 1..=3 {
            petasos_queue_push(queue.cast::<c_void>(), tag);
        }
        assert_eq!((petasos_queue_take(queue, tags.as_mut_ptr(), 2, 0), tags), (2, [1, 2]));
        assert_eq!((petasos_queue_take(queue, tags.as_mut_ptr(), 2, LONG_US), tags[0]), (1, 3));
        let pushing = queue as usize;
        let thread = std::thread::spawn(move || petasos_queue_push(pushing as *mut c_void, 9));
        assert_eq!((petasos_queue_take(queue, tags.as_mut_ptr(), 2, LONG_US), tags[0]), (1, 9));
        thread.join().expect("it pushes");
        petasos_queue_free(queue);
    }
}

#[test]
fn a_server_that_has_ended_gives_no_calls() {
    let world = new_world(0);
    let mut call = null_mut();
    // SAFETY: the server is valid.
    unsafe {
        assert_eq!(petasos_server_accept(world.server, 1000, &mut call), PETASOS_TIMED_OUT);
        assert_eq!(petasos_server_drain(world.server, 0), PETASOS_OK);
        assert_eq!(petasos_server_accept(world.server, LONG_US, &mut call), PETASOS_END);
    }
    assert_eq!(call, null_mut());
}

fn channel_options() -> petasos_channel_options {
    petasos_channel_options {
        struct_bytes: size_of::<petasos_channel_options>(),
        timeout_us: 0,
        connect_timeout_us: 0,
        wait_for_ready: false,
        service_config: null(),
        tls: null(),
        plaintext: false,
    }
}

fn tls_options(
    authorities: *const c_char,
    certificate: *const c_char,
    key: *const c_char,
) -> petasos_tls_options {
    petasos_tls_options {
        struct_bytes: size_of::<petasos_tls_options>(),
        authorities_file: authorities,
        certificate_file: certificate,
        key_file: key,
        peer_name: null(),
    }
}

/// Opens a channel, which connects when it is called.
fn open(target: &CStr, options: &petasos_channel_options) -> petasos_code {
    let mut channel = null_mut();
    // SAFETY: all that is passed lives until the calls return; the channel is freed once.
    unsafe {
        let code = petasos_channel_open(target.as_ptr(), options, &mut channel);
        assert_eq!(code == PETASOS_OK, !channel.is_null());
        petasos_channel_free(channel);
        code
    }
}

#[test]
fn programs_that_were_built_for_version_1_go_on() {
    // Where the new fields are they have anything.
    let tls = std::ptr::dangling();
    let first = std::mem::offset_of!(petasos_channel_options, tls);
    let options = petasos_channel_options { struct_bytes: first, tls, ..channel_options() };
    assert_eq!(open(c"petasos://127.0.0.1:9", &options), PETASOS_OK, "{}", message());
    for struct_bytes in [0, first - 1] {
        let options = petasos_channel_options { struct_bytes, ..options };
        assert_eq!(open(c"petasos://127.0.0.1:9", &options), PETASOS_INVALID_ARGUMENT);
    }
}

#[test]
fn servers_that_were_built_for_earlier_versions_go_on() {
    // What is behind the fields that they know is anything.
    let (tls, joins) = (std::ptr::dangling(), std::ptr::dangling());
    let (first, second) = (
        std::mem::offset_of!(petasos_server_options, tls),
        std::mem::offset_of!(petasos_server_options, joins),
    );
    let options = petasos_server_options { joins, join_count: 7, ..server_options(0) };
    for (struct_bytes, tls) in [(first, tls), (second, null())] {
        let options = petasos_server_options { struct_bytes, tls, ..options };
        let service = service();
        let server = start(service, &options);
        // SAFETY: the handles are valid, and freed once.
        unsafe {
            petasos_server_free(server);
            petasos_service_free(service);
        }
    }
}

#[test]
fn what_tls_lacks_is_told() {
    let (file, none) = (c"/nowhere.pem".as_ptr(), null());
    let cases = [
        (c"petasos://127.0.0.1:9", tls_options(file, none, none), false, "a certificate and its"),
        (c"petasos://127.0.0.1:9", tls_options(file, file, none), false, "needs its key"),
        (c"petasos://127.0.0.1:9", tls_options(file, file, file), true, "contradict"),
        (c"petasos://127.0.0.1:9", tls_options(file, file, file), false, "/nowhere.pem"),
        (c"grpc://127.0.0.1:9", tls_options(file, file, file), false, "grpcs://"),
        (c"grpcs://127.0.0.1:9", tls_options(file, none, none), false, "/nowhere.pem"),
        (c"grpcs://127.0.0.1:9", tls_options(none, none, none), false, "authorities"),
    ];
    for (target, tls, plaintext, text) in cases {
        let options = petasos_channel_options { tls: &tls, plaintext, ..channel_options() };
        assert_eq!(open(target, &options), PETASOS_INVALID_ARGUMENT, "{target:?}");
        assert!(message().contains(text), "{target:?}: {}", message());
    }
    assert_eq!(open(c"grpcs://127.0.0.1:9", &channel_options()), PETASOS_INVALID_ARGUMENT);
    let plaintext = petasos_channel_options { plaintext: true, ..channel_options() };
    assert_eq!(open(c"petasos://127.0.0.1:9", &plaintext), PETASOS_OK, "{}", message());
}
