//! What C programs rely on, without a compiler for C: every result is a code, nothing panics, and
//! waiting works in both ways.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};

use petasos_capi::*;

const PROTO: &str = "syntax = \"proto3\"; package t;
    message M { string text = 1; }
    service Echo { rpc One(M) returns (M); rpc Many(stream M) returns (stream M); }";

const HELLO: &[u8] = b"\x0a\x05hello";

/// A long wait, which no test waits out, in microseconds.
const LONG_US: i64 = 60_000_000;

fn nothing() -> petasos_bytes {
    petasos_bytes { data: null_mut(), length: 0 }
}

fn text(slice: petasos_slice) -> String {
    // SAFETY: the library has just given it.
    let bytes = unsafe { std::slice::from_raw_parts(slice.data, slice.length) };
    String::from_utf8(bytes.to_vec()).expect("texts are UTF-8")
}

fn message() -> String {
    // SAFETY: the status is this thread's last.
    text(unsafe { petasos_status_message(petasos_last_error()) })
}

/// A server of the echo service, and a client of it.
struct World {
    server: *mut petasos_server,
    client: *mut petasos_client,
}

fn service() -> *mut petasos_service {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = format!("echo-{:?}.proto", std::thread::current().id());
    std::fs::write(folder.join(&name), PROTO).expect("the file can be written");
    let (file, include) = (CString::new(name), CString::new(folder.to_str().expect("a text")));
    let (file, include) = (file.expect("no zeros"), include.expect("no zeros"));
    let (mut set, mut service) = (nothing(), null_mut());
    // SAFETY: all that is passed lives until the calls return.
    unsafe {
        let code = petasos_compile(&file.as_ptr(), 1, &include.as_ptr(), 1, &mut set);
        assert_eq!(code, PETASOS_OK, "{}", message());
        let name = c"t.Echo".as_ptr();
        let code = petasos_service_described(set.data, set.length, name, &mut service);
        assert_eq!(code, PETASOS_OK, "{}", message());
        petasos_bytes_free(&mut set);
    }
    assert_eq!((set.data, set.length), (null_mut(), 0));
    service
}

impl World {
    fn new(calls_max: usize) -> World {
        let (service, listen) = (service(), c"127.0.0.1:0".as_ptr());
        let options = petasos_server_options {
            struct_bytes: size_of::<petasos_server_options>(),
            listen,
            grpc_listen: null(),
            loops: 1,
            calls_max,
            tls: null(),
            plaintext: false,
        };
        let (mut server, mut channel, mut client) = (null_mut(), null_mut(), null_mut());
        // SAFETY: as above.
        unsafe {
            let services = [service.cast_const()];
            let code = petasos_server_start(services.as_ptr(), 1, &options, &mut server);
            assert_eq!(code, PETASOS_OK, "{}", message());
            let target = format!("petasos://127.0.0.1:{}", petasos_server_port(server));
            let target = CString::new(target).expect("no zeros");
            let code = petasos_channel_connect(target.as_ptr(), null(), &mut channel);
            assert_eq!(code, PETASOS_OK, "{}", message());
            assert_eq!(petasos_client_new(channel, service, &mut client), PETASOS_OK);
            petasos_channel_free(channel);
            petasos_service_free(service);
        }
        World { server, client }
    }

    fn call(&self, timeout_us: u64) -> *mut petasos_call {
        let (method, mut call) = (c"One".as_ptr(), null_mut());
        let (data, length) = (HELLO.as_ptr(), HELLO.len());
        // SAFETY: as above.
        let code = unsafe {
            petasos_call_start(self.client, method, data, length, timeout_us, null(), &mut call)
        };
        assert_eq!(code, PETASOS_OK, "{}", message());
        call
    }

    fn accept(&self) -> *mut petasos_call {
        let mut call = null_mut();
        // SAFETY: as above.
        assert_eq!(unsafe { petasos_server_accept(self.server, LONG_US, &mut call) }, PETASOS_OK);
        call
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: both are freed once.
        unsafe {
            petasos_client_free(self.client);
            petasos_server_free(self.server);
        }
    }
}

/// Receives what is a message, and gives it.
fn receive(call: *mut petasos_call) -> Result<Vec<u8>, petasos_code> {
    let mut bytes = nothing();
    // SAFETY: the call is valid; the bytes are freed once copied.
    unsafe {
        match petasos_call_receive(call, LONG_US, &mut bytes) {
            PETASOS_OK => {
                let copy = std::slice::from_raw_parts(bytes.data, bytes.length).to_vec();
                petasos_bytes_free(&mut bytes);
                Ok(copy)
            }
            code => Err(code),
        }
    }
}

fn finish(call: *mut petasos_call, code: petasos_code) -> petasos_code {
    // SAFETY: the call is valid, and is freed once.
    unsafe {
        let code = petasos_call_finish(call, code, b"why".as_ptr(), 3, null(), 0, null());
        petasos_call_free(call);
        code
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
fn waiting_can_time_out_be_polled_and_end() {
    let world = World::new(0);
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
    let world = World::new(0);
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
    let world = World::new(0);
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
    let world = World::new(0);
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
    let (world, method, mut call) = (World::new(0), c"Many".as_ptr(), null_mut());
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
    let world = World::new(1);
    let (first, second) = (world.call(0), world.call(0));
    assert_eq!(receive(second), Err(PETASOS_RESOURCE_EXHAUSTED));
    assert_eq!(finish(world.accept(), PETASOS_ABORTED), PETASOS_OK);
    assert_eq!(receive(first), Err(PETASOS_ABORTED));
    // SAFETY: the calls are freed once.
    unsafe {
        petasos_call_free(first);
        petasos_call_free(second);
    }
}

#[test]
fn a_server_that_has_ended_gives_no_calls() {
    let world = World::new(0);
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
    // And those that were built for a later one, whose further fields are not known here.
    let (service, mut server) = (service(), null_mut());
    let first = std::mem::offset_of!(petasos_server_options, tls);
    let options = petasos_server_options {
        struct_bytes: first,
        listen: c"127.0.0.1:0".as_ptr(),
        grpc_listen: null(),
        loops: 1,
        calls_max: 0,
        tls: std::ptr::dangling(),
        plaintext: true,
    };
    // SAFETY: the handles are valid, and freed once.
    unsafe {
        let services = [service.cast_const()];
        let code = petasos_server_start(services.as_ptr(), 1, &options, &mut server);
        assert_eq!(code, PETASOS_OK, "{}", message());
        petasos_server_free(server);
        petasos_service_free(service);
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
