//! A loop that a program drives: it is turned when its descriptor says so, and only then.

#[path = "../../../docs/book/routers.rs"]
mod routers;
#[path = "abi/world.rs"]
mod world;

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::{null, null_mut};
use std::thread::JoinHandle;
use std::time::Duration;

use petasos_capi::*;
use routers::Router;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use world::{HELLO, connect, described, message, receive, text};

const PROTO: &str = "syntax = \"proto3\"; package t;
    message M { string text = 1; }
    service Echo { rpc One(M) returns (M); rpc Two(M) returns (M); }";

/// What the handler is given.
#[derive(Default)]
struct Seen {
    calls: Cell<usize>,
    event_loop: Cell<*mut petasos_loop>,
    /// What the loop says to its own handler.
    code: Cell<petasos_code>,
}

/// Echoes what `One` is asked, and fails `Two` as its message says.
///
/// # Safety
/// The context is a [`Seen`], and the rest is what the library gives a handler.
unsafe extern "C" fn handle(
    context: *mut c_void,
    request: *const petasos_request,
    answer: *mut petasos_answer,
) {
    // SAFETY: the context is a `Seen` that outlives the loop; the library gives the rest.
    let (seen, request) = unsafe { (&*context.cast::<Seen>(), &*request) };
    seen.calls.set(seen.calls.get() + 1);
    assert_eq!(text(request.service), "t.Echo");
    let (data, length) = (request.message.data, request.message.length);
    // SAFETY: the answer and the message are valid until this returns.
    unsafe {
        match (&*text(request.method), length) {
            ("One", _) => assert_eq!(petasos_answer_message(answer, data, length), PETASOS_OK),
            (_, 0) => {}
            (_, 2) => {
                let code = petasos_answer_message(answer, [0xff_u8; 3].as_ptr(), 3);
                assert_eq!(code, PETASOS_INVALID_ARGUMENT);
                let code = petasos_answer_failure(answer, PETASOS_OK, null(), 0);
                assert_eq!(code, PETASOS_INVALID_ARGUMENT);
                seen.code.set(petasos_loop_turn(seen.event_loop.get(), 1));
                petasos_loop_free(seen.event_loop.get());
                petasos_answer_failure(answer, PETASOS_DATA_LOSS, b"lost".as_ptr(), 4);
            }
            _ => drop(petasos_answer_failure(answer, PETASOS_ABORTED, data, length)),
        }
    }
}

fn options() -> petasos_loop_options {
    petasos_loop_options {
        struct_bytes: size_of::<petasos_loop_options>(),
        listen: c"127.0.0.1:0".as_ptr(),
        tls: null(),
        plaintext: false,
        joins: null(),
        join_count: 0,
    }
}

fn new(proto: &str, seen: &Seen, options: &petasos_loop_options) -> Result<*mut petasos_loop, ()> {
    let handler =
        petasos_handler { handle: Some(handle), context: (&raw const *seen).cast_mut().cast() };
    let (service, mut made) = (described(proto), null_mut());
    let services = [service.cast_const()];
    // SAFETY: all that is passed lives long enough; the service is freed once.
    unsafe {
        let code = petasos_loop_new(services.as_ptr(), 1, &handler, options, &mut made);
        petasos_service_free(service);
        seen.event_loop.set(made);
        assert_eq!(code == PETASOS_OK, !made.is_null());
        if code == PETASOS_OK { Ok(made) } else { Err(()) }
    }
}

/// Turns the loop whenever its descriptor is readable, until a thread has ended.
fn drive<T>(event_loop: *mut petasos_loop, thread: JoinHandle<T>) -> T {
    // SAFETY: the loop is valid, and its descriptor is open as long.
    unsafe {
        let descriptor = BorrowedFd::borrow_raw(petasos_loop_descriptor(event_loop));
        while !thread.is_finished() {
            // Nothing else ends a wait but a look whether the thread has ended.
            let soon = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            if poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&soon)) == Ok(1) {
                assert_eq!(petasos_loop_turn(event_loop, 0), PETASOS_OK);
            }
        }
    }
    thread.join().expect("it does not panic")
}

/// Calls a method, and gives its answer.
fn call(
    client: *const petasos_client,
    method: &core::ffi::CStr,
    bytes: &[u8],
) -> Result<Vec<u8>, (petasos_code, String)> {
    let mut call = null_mut();
    let (method, data) = (method.as_ptr(), bytes.as_ptr());
    // SAFETY: all that is passed lives long enough; the call is freed once.
    unsafe {
        let code = petasos_call_start(client, method, data, bytes.len(), 0, null(), &mut call);
        assert_eq!(code, PETASOS_OK, "{}", message());
        let answer = receive(call).map_err(|code| (code, message()));
        petasos_call_free(call);
        answer
    }
}

/// A thread with a client.
fn calling<T: Send + 'static>(
    target: String,
    calls: impl FnOnce(*const petasos_client) -> T + Send + 'static,
) -> JoinHandle<T> {
    std::thread::spawn(move || {
        let service = described(PROTO);
        let client = connect(&target, service);
        let result = calls(client);
        // SAFETY: both are freed once.
        unsafe {
            petasos_client_free(client);
            petasos_service_free(service);
        }
        result
    })
}

#[test]
fn calls_are_answered_within_turns() {
    let seen = Seen::default();
    let made = new(PROTO, &seen, &options()).expect("it is made");
    // SAFETY: the loop is valid.
    let port = unsafe { petasos_loop_port(made) };
    let answers = drive(
        made,
        calling(format!("petasos://127.0.0.1:{port}"), |client| {
            let many: Vec<_> = (0..50).map(|_| call(client, c"One", HELLO)).collect();
            let failed = [&b""[..], b"\x0a\x00", HELLO].map(|it| call(client, c"Two", it));
            (many, failed, call(client, c"One", HELLO))
        }),
    );
    assert!(answers.0.iter().all(|answer| answer.as_deref() == Ok(HELLO)), "{answers:?}");
    let told = |code, text: &str| Err((code, text.to_owned()));
    let text = String::from_utf8_lossy(HELLO);
    assert_eq!(answers.1[0], told(PETASOS_INTERNAL, "the handler gave no answer"));
    assert_eq!(answers.1[1], told(PETASOS_DATA_LOSS, "lost"));
    assert_eq!(answers.1[2], told(PETASOS_ABORTED, &text));
    // A handler that turns or frees its loop does neither.
    assert_eq!(seen.code.get(), PETASOS_FAILED_PRECONDITION);
    assert_eq!((answers.2.as_deref(), seen.calls.get()), (Ok(HELLO), 54));
    // SAFETY: it is freed once.
    unsafe { petasos_loop_free(made) };
}

#[test]
fn a_loop_is_a_worker_as_long_as_its_descriptor_is_heeded() {
    let (router, seen) = (Router::start("t.Echo"), Seen::default());
    let target = CString::new(router.target()).expect("no zeros");
    let join = petasos_join_options {
        struct_bytes: size_of::<petasos_join_options>(),
        target: target.as_ptr(),
        bound: 3,
        weight: 0,
        is_primary: true,
    };
    let joins = [&raw const join];
    let options = petasos_loop_options { joins: joins.as_ptr(), join_count: 1, ..options() };
    let made = new(PROTO, &seen, &options).expect("it is made");
    let answers = drive(
        made,
        calling(router.target(), |client| {
            // Timers keep it a member: a silent worker gets no requests after 50 ms.
            let again = || {
                std::thread::sleep(Duration::from_millis(150));
                call(client, c"One", HELLO)
            };
            [again(), again(), again()]
        }),
    );
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok(HELLO)), "{answers:?}");
    // SAFETY: the loop is valid until it is freed, once.
    unsafe {
        assert_eq!(petasos_loop_joined(made, 0), PETASOS_OK);
        assert_eq!(petasos_loop_joined(made, 1), PETASOS_END);
        petasos_loop_free(made);
    }
}

#[test]
fn what_is_wrong_is_told() {
    let seen = Seen::default();
    let streams = PROTO.replace("Two(M)", "Two(stream M)");
    new(&streams, &seen, &options()).expect_err("it has streams");
    assert!(message().contains("`Two` has streams"), "{}", message());
    let wrong = |options: &petasos_loop_options, expected: &str| {
        new(PROTO, &seen, options).expect_err("they are wrong");
        assert!(message().contains(expected), "{}", message());
    };
    wrong(&petasos_loop_options { listen: null(), ..options() }, "the address must not be null");
    wrong(&petasos_loop_options { listen: c"nowhere".as_ptr(), ..options() }, "`nowhere`");
    wrong(&petasos_loop_options { struct_bytes: 3, ..options() }, "struct_bytes");
    wrong(&petasos_loop_options { join_count: 1, ..options() }, "the groups must not be null");
    let made = new(PROTO, &seen, &options()).expect("it is made");
    wrong(&options(), "loop");
    let other = made as usize;
    // SAFETY: the loop is valid; it refuses other threads before it looks at anything of its own.
    let codes = std::thread::spawn(move || unsafe {
        let made = other as *mut petasos_loop;
        petasos_loop_free(made);
        (petasos_loop_turn(made, 1), petasos_loop_joined(made, 0), petasos_loop_port(made))
    });
    let failed = PETASOS_FAILED_PRECONDITION;
    assert_eq!(codes.join().expect("it does not panic"), (failed, failed, 0));
    // SAFETY: it is freed once, and a null loop is told.
    unsafe {
        petasos_loop_free(made);
        petasos_loop_free(null_mut());
        assert_eq!(petasos_loop_descriptor(null()), -1);
        assert_eq!(petasos_loop_turn(null(), 1), PETASOS_INVALID_ARGUMENT);
    }
}
