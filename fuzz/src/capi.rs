//! The C library, called with anything that C may pass: any bytes and lengths that are there, any
//! enumerators, calls in any order, null where it is allowed to be told (never pointers to what
//! is not there, nor handles that were freed: those are undefined in C as well).
//!
//! A server and a client of one process, whose messages cross real sockets or rings.

use std::cell::OnceCell;
use std::ffi::CString;
use std::ptr::{null, null_mut};

use petasos_capi::*;

use crate::{Input, Seed};

const METHODS: [&core::ffi::CStr; 3] = [c"One", c"Many", c"Nothing"];

thread_local! {
    static WORLD: OnceCell<World> = const { OnceCell::new() };
}

struct World {
    server: *mut petasos_server,
    client: *mut petasos_client,
}

/// Operations.
pub fn run(bytes: &[u8]) {
    WORLD.with(|world| {
        let world = world.get_or_init(begin);
        let mut scene = Scene { world, calls: Vec::new(), metadata: petasos_metadata_new() };
        let mut input = Input::new(bytes);
        // Enough for every sequence, and an end to what waits for time.
        for _ in 0..64 {
            if input.is_empty() {
                break;
            }
            scene.step(&mut input);
        }
    });
}

fn begin() -> World {
    let methods = METHODS[..2].iter().zip([0, 3]);
    let methods: Vec<_> =
        methods.map(|(name, kind)| petasos_method { name: name.as_ptr(), kind }).collect();
    let options = petasos_server_options {
        struct_bytes: size_of::<petasos_server_options>(),
        listen: c"127.0.0.1:0".as_ptr(),
        grpc_listen: null(),
        loops: 1,
        calls_max: 64,
        tls: null(),
        plaintext: false,
        joins: null(),
        join_count: 0,
    };
    let (mut service, mut server) = (null_mut(), null_mut());
    let (mut channel, mut client) = (null_mut(), null_mut());
    // SAFETY: all that is passed lives until the calls return.
    unsafe {
        let name = c"t.Echo".as_ptr();
        let code = petasos_service_named(name, methods.as_ptr(), methods.len(), &mut service);
        assert_eq!(code, PETASOS_OK);
        let services = [service.cast_const()];
        let code = petasos_server_start(services.as_ptr(), 1, &options, &mut server);
        assert_eq!(code, PETASOS_OK);
        let target = format!("petasos://127.0.0.1:{}", petasos_server_port(server));
        let target = CString::new(target).expect("no zeros");
        let code = petasos_channel_connect(target.as_ptr(), null(), &mut channel);
        assert_eq!(code, PETASOS_OK);
        assert_eq!(petasos_client_new(channel, service, &mut client), PETASOS_OK);
        petasos_channel_free(channel);
        petasos_service_free(service);
    }
    World { server, client }
}

struct Scene<'w> {
    world: &'w World,
    calls: Vec<*mut petasos_call>,
    metadata: *mut petasos_metadata,
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        // SAFETY: each handle is freed once; calls that still wait at the server are taken.
        unsafe {
            self.calls.drain(..).for_each(|call| petasos_call_free(call));
            petasos_metadata_free(self.metadata);
            let mut call = null_mut();
            while petasos_server_accept(self.world.server, 0, &mut call) == PETASOS_OK {
                petasos_call_free(call);
            }
        }
    }
}

/// A text for C: what is behind a zero is lost.
fn text(bytes: &[u8]) -> CString {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).expect("there is no zero")
}

/// Bytes and their length; null and none at times.
fn data(bytes: &[u8]) -> (*const u8, usize) {
    if bytes.is_empty() { (null(), 0) } else { (bytes.as_ptr(), bytes.len()) }
}

impl Scene<'_> {
    fn call(&self, input: &mut Input<'_>) -> *mut petasos_call {
        let index = usize::from(input.u8());
        // Null is for callers who forget.
        if self.calls.is_empty() { null_mut() } else { self.calls[index % self.calls.len()] }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 16 {
            0 | 1 => self.start(input),
            2 => self.accept(input),
            3 | 4 => self.send(input),
            5 | 6 => self.receive(input),
            7 => self.finish(input),
            8 => self.head(input),
            9 => self.append(input),
            10 => self.free(input),
            11 => self.look(input),
            12 => describe(input),
            13 => named(input),
            14 => open(input),
            _ => queue(input),
        }
    }

    fn start(&mut self, input: &mut Input<'_>) {
        if self.calls.len() == 16 {
            return;
        }
        let (which, given, timeout_us) = (input.u8(), input.bool(), input.u16());
        let own = text(input.short());
        let method = METHODS.get(usize::from(which % 4)).map_or(own.as_ptr(), |name| name.as_ptr());
        let (request, length) = data(input.short());
        let metadata = if given { self.metadata.cast_const() } else { null() };
        let (client, timeout_us, mut call) =
            (self.world.client, u64::from(timeout_us) * 100, null_mut());
        // SAFETY: handles are valid, and the bytes live until the call returns.
        let code = unsafe {
            if given {
                let (key, key_length) = data(input.short());
                let (policy, priority) = (u32::from(input.u8() % 4), input.u8() % 20);
                let (struct_bytes, is_idempotent) = (size_of::<petasos_routing>(), input.bool());
                let routing = petasos_routing {
                    struct_bytes, policy, priority, is_idempotent, key, key_length,
                };
                petasos_call_start_routed(
                    client, method, request, length, timeout_us, metadata, &routing, &mut call,
                )
            } else {
                petasos_call_start(client, method, request, length, timeout_us, metadata, &mut call)
            }
        };
        if code == PETASOS_OK {
            self.calls.push(call);
        }
    }

    fn accept(&mut self, input: &mut Input<'_>) {
        let (timeout_us, mut call) = (i64::from(input.u8()) * 10, null_mut());
        // SAFETY: the server is valid.
        let code = unsafe { petasos_server_accept(self.world.server, timeout_us, &mut call) };
        if code == PETASOS_OK {
            self.calls.push(call);
        }
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let call = self.call(input);
        let (how, (message, length)) = (input.u8(), data(input.short()));
        // SAFETY: the call is valid or null, and one thread uses it.
        unsafe {
            match how % 4 {
                0 => drop(petasos_call_begin_send(call, message, length)),
                1 => drop(petasos_call_wait_sent(call, 0)),
                2 => drop(petasos_call_close_send(call)),
                _ => drop(petasos_call_send(call, message, length, 100)),
            }
        }
    }

    fn receive(&mut self, input: &mut Input<'_>) {
        let call = self.call(input);
        let timeout_us = i64::from(input.u8()) * 10;
        let mut bytes = petasos_bytes { data: null_mut(), length: 0 };
        // SAFETY: as above; the bytes are freed whether or not there are any.
        unsafe {
            let code = petasos_call_receive(call, timeout_us, &mut bytes);
            assert!(code == PETASOS_OK || bytes.data.is_null());
            petasos_bytes_free(&mut bytes);
            petasos_bytes_free(&mut bytes);
        }
    }

    fn finish(&mut self, input: &mut Input<'_>) {
        let call = self.call(input);
        let (code, given) = (petasos_code::from(input.u8()), input.bool());
        let (message, message_length) = data(input.short());
        let (details, details_length) = data(input.short());
        let trailers = if given { self.metadata.cast_const() } else { null() };
        // SAFETY: as above.
        unsafe {
            petasos_call_finish(
                call,
                code,
                message,
                message_length,
                details,
                details_length,
                trailers,
            );
        }
    }

    fn head(&mut self, input: &mut Input<'_>) {
        let call = self.call(input);
        let mut metadata = null_mut();
        // SAFETY: as above; what is given is freed.
        unsafe {
            match input.u8() % 3 {
                0 => drop(petasos_call_send_metadata(call, self.metadata)),
                1 => drop(petasos_call_metadata(call, 0, &mut metadata)),
                _ => drop(petasos_call_trailers(call, &mut metadata)),
            }
            read(metadata);
            petasos_metadata_free(metadata);
        }
    }

    fn append(&mut self, input: &mut Input<'_>) {
        let (key, (value, length)) = (text(input.short()), data(input.short()));
        // SAFETY: as above.
        unsafe {
            petasos_metadata_append(self.metadata, key.as_ptr(), value, length);
            read(self.metadata);
        }
    }

    fn free(&mut self, input: &mut Input<'_>) {
        let index = usize::from(input.u8());
        if !self.calls.is_empty() {
            let call = self.calls.swap_remove(index % self.calls.len());
            // SAFETY: it is freed once, and not used again.
            unsafe { petasos_call_free(call) };
        }
    }

    fn look(&mut self, input: &mut Input<'_>) {
        let call = self.call(input);
        // SAFETY: as above.
        unsafe {
            match input.u8() % 5 {
                0 => drop(petasos_call_cancel(call)),
                1 => see(petasos_call_service(call)),
                2 => see(petasos_call_method(call)),
                3 => drop(petasos_call_is_cancelled(call)),
                _ => drop(petasos_call_timeout_us(call)),
            }
        }
        let error = petasos_last_error();
        // SAFETY: it is this thread's last, until the next call.
        unsafe {
            see(petasos_status_message(error));
            see(petasos_status_details(error));
        }
    }
}

/// Reads every byte of a slice that the library gave.
fn see(slice: petasos_slice) {
    let bytes = if slice.length == 0 {
        &[][..]
    } else {
        // SAFETY: the library has just given it.
        unsafe { std::slice::from_raw_parts(slice.data, slice.length) }
    };
    std::hint::black_box(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
}

/// Reads all entries, and one that is not there.
///
/// # Safety
/// They are null or valid.
unsafe fn read(metadata: *const petasos_metadata) {
    // SAFETY: the caller's promise.
    unsafe {
        for index in 0..=petasos_metadata_count(metadata) {
            let none = || petasos_slice { data: null(), length: 0 };
            let (mut key, mut value) = (none(), none());
            if petasos_metadata_get(metadata, index, &mut key, &mut value) {
                see(key);
                see(value);
            }
        }
    }
}

/// A service of any bytes as descriptors. Those that are valid stay for good, so few are kept.
fn describe(input: &mut Input<'_>) {
    let name = text(input.short());
    let (set, length) = data(input.short());
    let mut service = null_mut();
    // SAFETY: as above.
    unsafe {
        petasos_service_described(set, length, name.as_ptr(), &mut service);
        petasos_service_free(service);
    }
}

/// A service of any names, which are few: what is known of it is kept for good.
fn named(input: &mut Input<'_>) {
    let name = text(input.bytes(1));
    let (method, kind) = (text(input.bytes(1)), u32::from(input.u8()));
    let methods = [petasos_method { name: method.as_ptr(), kind }; 2];
    let (count, mut service) = (usize::from(input.u8() % 3), null_mut());
    // SAFETY: as above.
    unsafe {
        petasos_service_named(name.as_ptr(), methods.as_ptr(), count, &mut service);
        petasos_service_free(service);
    }
}

/// A channel to anything that is not an address on the network.
fn open(input: &mut Input<'_>) {
    let target = [b"petasos:", input.short()].concat();
    let digits = target.iter().any(u8::is_ascii_alphanumeric) && target.len() > 40;
    let (target, mut channel) = (text(&target), null_mut());
    if digits || target.as_bytes().contains(&b'/') {
        return;
    }
    // SAFETY: as above.
    unsafe {
        petasos_channel_open(target.as_ptr(), null(), &mut channel);
        petasos_channel_free(channel);
    }
}

fn queue(input: &mut Input<'_>) {
    let (mut queue, mut tags) = (null_mut(), [0; 8]);
    let max = usize::from(input.u8()) % 9;
    // SAFETY: as above; the queue is freed once.
    unsafe {
        if petasos_queue_new(&mut queue) != PETASOS_OK {
            return;
        }
        for tag in input.short() {
            petasos_queue_push(queue.cast(), u64::from(*tag));
        }
        petasos_queue_take(queue, tags.as_mut_ptr(), max, 0);
        petasos_queue_free(queue);
    }
}

/// Whole calls of both kinds, and what goes wrong.
pub fn seeds() -> Vec<Seed> {
    vec![
        (
            "unary",
            vec![
                0, 0, 0, 200, 200, 0, 5, 10, 3, b'a', b'b', b'c', 2, 255, 5, 1, 99, 3, 1, 0, 2, 10,
                1, 7, 1, 0, 0, 0, 0, 5, 0, 99, 10, 0,
            ],
        ),
        (
            "stream",
            vec![
                0, 1, 0, 200, 200, 0, 0, 3, 0, 0, 2, 10, 0, 2, 255, 5, 1, 99, 3, 1, 3, 2, 10, 0, 5,
                0, 99, 3, 0, 2, 0, 5, 1, 99, 7, 1, 0, 0, 0, 0, 5, 0, 99,
            ],
        ),
        (
            "metadata",
            vec![
                9, 3, b'k', b'e', b'y', 2, b'v', b'w', 9, 5, b'k', b'-', b'b', b'i', b'n', 2, 0,
                255, 0, 0, 1, 200, 0, 0, 0, 2, 99, 8, 0, 1, 8, 1, 0,
            ],
        ),
        ("cancelled", vec![0, 1, 0, 200, 200, 0, 0, 2, 255, 11, 0, 0, 11, 1, 3, 5, 1, 9, 10, 0]),
        ("unknown", vec![0, 2, 0, 200, 0, 0, 0, 5, 0, 99, 11, 0, 1]),
        (
            "error",
            vec![0, 0, 0, 200, 200, 0, 0, 2, 99, 7, 1, 5, 1, 2, b'n', b'o', 2, 8, 1, 5, 0, 99],
        ),
        (
            "others",
            vec![
                12, 1, b'a', 3, 10, 1, 0, 13, b'a', b'b', 3, 2, 15, 3, 4, 1, 2, 3, 4, 14, 3, b'a',
                b':', b'1',
            ],
        ),
    ]
}
