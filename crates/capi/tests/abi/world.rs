//! A server of an echo service, and a client of it, as C has them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::any::Any;
use std::ffi::CString;
use std::ptr::{null, null_mut};

use petasos_capi::*;

const PROTO: &str = "syntax = \"proto3\"; package t;
    message M { string text = 1; }
    service Echo { rpc One(M) returns (M); rpc Many(stream M) returns (stream M); }";

pub const HELLO: &[u8] = b"\x0a\x05hello";

/// A long wait, which no test waits out, in microseconds.
pub const LONG_US: i64 = 60_000_000;

pub fn nothing() -> petasos_bytes {
    petasos_bytes { data: null_mut(), length: 0 }
}

pub fn text(slice: petasos_slice) -> String {
    // SAFETY: the library has just given it.
    let bytes = unsafe { std::slice::from_raw_parts(slice.data, slice.length) };
    String::from_utf8(bytes.to_vec()).expect("texts are UTF-8")
}

pub fn message() -> String {
    // SAFETY: the status is this thread's last.
    text(unsafe { petasos_status_message(petasos_last_error()) })
}

/// A server of the echo service, and a client of it.
pub struct World {
    pub server: *mut petasos_server,
    pub client: *mut petasos_client,
    /// What is between the two, and ends after them.
    pub between: Option<Box<dyn Any>>,
}

pub fn service() -> *mut petasos_service {
    described(PROTO)
}

/// The service `t.Echo` of a file.
pub fn described(proto: &str) -> *mut petasos_service {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let name = format!("echo-{process}-{thread:?}.proto");
    std::fs::write(folder.join(&name), proto).expect("the file can be written");
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

/// A server on loopback, which refuses calls beyond `calls_max` that wait.
pub fn server_options(calls_max: usize) -> petasos_server_options {
    petasos_server_options {
        struct_bytes: size_of::<petasos_server_options>(),
        listen: c"127.0.0.1:0".as_ptr(),
        grpc_listen: null(),
        loops: 1,
        calls_max,
        tls: null(),
        plaintext: false,
        joins: null(),
        join_count: 0,
    }
}

pub fn start(
    service: *const petasos_service,
    with: &petasos_server_options,
) -> *mut petasos_server {
    let mut server = null_mut();
    // SAFETY: all that is passed lives until the call returns.
    let code = unsafe { petasos_server_start(&service, 1, with, &mut server) };
    assert_eq!(code, PETASOS_OK, "{}", message());
    server
}

pub fn connect(target: &str, service: *const petasos_service) -> *mut petasos_client {
    let target = CString::new(target).expect("no zeros");
    let (mut channel, mut client) = (null_mut(), null_mut());
    // SAFETY: as above.
    unsafe {
        let code = petasos_channel_connect(target.as_ptr(), null(), &mut channel);
        assert_eq!(code, PETASOS_OK, "{}", message());
        assert_eq!(petasos_client_new(channel, service, &mut client), PETASOS_OK);
        petasos_channel_free(channel);
    }
    client
}

impl World {
    pub fn call(&self, timeout_us: u64) -> *mut petasos_call {
        let (method, mut call) = (c"One".as_ptr(), null_mut());
        let (data, length) = (HELLO.as_ptr(), HELLO.len());
        // SAFETY: as above.
        let code = unsafe {
            petasos_call_start(self.client, method, data, length, timeout_us, null(), &mut call)
        };
        assert_eq!(code, PETASOS_OK, "{}", message());
        call
    }

    pub fn accept(&self) -> *mut petasos_call {
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
pub fn receive(call: *mut petasos_call) -> Result<Vec<u8>, petasos_code> {
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

pub fn finish(call: *mut petasos_call, code: petasos_code) -> petasos_code {
    // SAFETY: the call is valid, and is freed once.
    unsafe {
        let code = petasos_call_finish(call, code, b"why".as_ptr(), 3, null(), 0, null());
        petasos_call_free(call);
        code
    }
}
