//! No thread of the library takes SIGPIPE, which would end a program in C that does not ignore it.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use petasos_capi::*;

/// SIGPIPE, 13, in the mask that the kernel tells.
const PIPE: u64 = 1 << 12;

const PROTO: &str = "syntax = \"proto3\"; package t;
    message M { string text = 1; } service Echo { rpc One(M) returns (M); }";

/// Long waits, which the test does not wait out, in microseconds.
const LONG_US: i64 = 60_000_000;
const TIMEOUT_US: u64 = 60_000_000;

/// Whether a thread has SIGPIPE blocked, by its name and number.
fn threads() -> BTreeMap<String, bool> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux tells the threads");
    let masks = tasks.filter_map(|task| {
        // A thread may end meanwhile.
        let task = task.ok()?;
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
        let mask = u64::from_str_radix(mask.trim(), 16).expect("a mask in hexadecimal");
        Some((format!("{} {}", name.trim(), task.file_name().display()), mask & PIPE != 0))
    });
    masks.collect()
}

/// What went wrong last.
fn message() -> String {
    // SAFETY: the status is this thread's last, and its text lives until the next.
    let bytes = unsafe {
        let text = petasos_status_message(petasos_last_error());
        std::slice::from_raw_parts(text.data, text.length)
    };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Threads that have looked a name up, and whether they had SIGPIPE blocked. They may live too
/// briefly to be found in `/proc`.
static LOOKED_UP: Mutex<Vec<(String, bool)>> = Mutex::new(Vec::new());

type LookUp = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const libc::addrinfo,
    *mut *mut libc::addrinfo,
) -> c_int;

/// Takes the place of the C library's function in this program: notes who asks, and asks that.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    found: *mut *mut libc::addrinfo,
) -> c_int {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    LOOKED_UP.lock().expect("nobody panics").push((name, is_pipe_blocked()));
    // SAFETY: the hints are valid or null; the C library has the function, of this type.
    unsafe {
        let mut hints = match hints.as_ref() {
            Some(hints) => *hints,
            None => MaybeUninit::zeroed().assume_init(),
        };
        // The server listens on IPv4 only.
        hints.ai_family = libc::AF_INET;
        let next = libc::dlsym(libc::RTLD_NEXT, c"getaddrinfo".as_ptr());
        std::mem::transmute::<*mut libc::c_void, LookUp>(next)(node, service, &hints, found)
    }
}

/// Whether the calling thread has SIGPIPE blocked.
fn is_pipe_blocked() -> bool {
    let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: without a new set, the call only writes the present one.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, null(), mask.as_mut_ptr());
        libc::sigismember(mask.as_ptr(), libc::SIGPIPE) == 1
    }
}

fn service() -> *mut petasos_service {
    let folder = env!("CARGO_TARGET_TMPDIR");
    std::fs::write(format!("{folder}/sigpipe.proto"), PROTO).expect("the file can be written");
    let folder = CString::new(folder).expect("no zeros");
    let mut set = petasos_bytes { data: null_mut(), length: 0 };
    let mut service = null_mut();
    // SAFETY: all that is passed lives until the calls return.
    unsafe {
        let file = c"sigpipe.proto".as_ptr();
        let code = petasos_compile(&file, 1, &folder.as_ptr(), 1, &mut set);
        assert_eq!(code, PETASOS_OK, "{}", message());
        let name = c"t.Echo".as_ptr();
        let code = petasos_service_described(set.data, set.length, name, &mut service);
        assert_eq!(code, PETASOS_OK, "{}", message());
        petasos_bytes_free(&mut set);
    }
    service
}

fn start(service: *const petasos_service) -> *mut petasos_server {
    let any = c"127.0.0.1:0".as_ptr();
    let options = petasos_server_options {
        struct_bytes: size_of::<petasos_server_options>(),
        listen: any,
        grpc_listen: any,
        loops: 2,
        calls_max: 0,
        tls: null(),
        plaintext: false,
        joins: null(),
        join_count: 0,
    };
    let mut server = null_mut();
    // SAFETY: all that is passed lives until the call returns.
    let code = unsafe { petasos_server_start(&service, 1, &options, &mut server) };
    assert_eq!(code, PETASOS_OK, "{}", message());
    server
}

/// A client of the service at this target, whose name is looked up for the first call.
fn client(service: *const petasos_service, target: String) -> *mut petasos_client {
    let target = CString::new(target).expect("no zeros");
    let (mut channel, mut client) = (null_mut(), null_mut());
    // SAFETY: all that is passed lives until the calls return.
    unsafe {
        let code = petasos_channel_open(target.as_ptr(), null(), &mut channel);
        assert_eq!(code, PETASOS_OK, "{}", message());
        assert_eq!(petasos_client_new(channel, service, &mut client), PETASOS_OK);
        petasos_channel_free(channel);
    }
    client
}

/// Makes a call, and looks at the threads while it is under way.
fn call(client: *mut petasos_client, server: *mut petasos_server) -> BTreeMap<String, bool> {
    let mut bytes = petasos_bytes { data: null_mut(), length: 0 };
    let (mut here, mut there) = (null_mut(), null_mut());
    let (one, hello) = (c"One".as_ptr(), b"\x0a\x05hello");
    // SAFETY: handles are valid until they are freed, once.
    unsafe {
        let code =
            petasos_call_start(client, one, hello.as_ptr(), 7, TIMEOUT_US, null(), &mut here);
        assert_eq!(code, PETASOS_OK, "{}", message());
        // If the call fails, receiving tells why, and no call arrives.
        while petasos_server_accept(server, 0, &mut there) != PETASOS_OK {
            let code = petasos_call_receive(here, 10_000, &mut bytes);
            assert_eq!(code, PETASOS_TIMED_OUT, "{}", message());
        }
        let threads = threads();
        assert_eq!(petasos_call_send(there, hello.as_ptr(), 7, LONG_US), PETASOS_OK);
        assert_eq!(petasos_call_finish(there, 0, null(), 0, null(), 0, null()), PETASOS_OK);
        let code = petasos_call_receive(here, LONG_US, &mut bytes);
        assert_eq!((code, bytes.length), (PETASOS_OK, 7), "{}", message());
        petasos_bytes_free(&mut bytes);
        petasos_call_free(there);
        petasos_call_free(here);
        threads
    }
}

/// One test only: it looks at all threads of the process.
#[test]
fn the_librarys_threads_block_sigpipe_and_the_callers_do_not() {
    let before = threads();
    let (service, mut far) = (service(), null_mut());
    let server = start(service);
    // There is no such server: connecting fails, but by all the threads it takes.
    let target = c"grpc://127.0.0.1:1".as_ptr();
    // SAFETY: all that is passed lives until the call returns.
    assert_eq!(unsafe { petasos_channel_connect(target, null(), &mut far) }, 14);
    // SAFETY: the server is valid.
    let ports = unsafe { (petasos_server_port(server), petasos_server_grpc_port(server)) };
    let clients =
        [format!("petasos://localhost:{}", ports.0), format!("grpc://localhost:{}", ports.1)]
            .map(|target| client(service, target));
    let mut after = BTreeMap::new();
    clients.iter().for_each(|client| after.extend(call(*client, server)));
    after.extend(threads());
    check(&before, &after);
    // SAFETY: all is freed once.
    unsafe {
        clients.into_iter().for_each(|client| petasos_client_free(client));
        petasos_channel_free(far);
        petasos_server_free(server);
        petasos_service_free(service);
    }
}

fn check(before: &BTreeMap<String, bool>, after: &BTreeMap<String, bool>) {
    let new: Vec<_> = after.iter().filter(|(name, _)| !before.contains_key(*name)).collect();
    assert!(new.len() >= 6, "loops, control, gRPC, calls, lookup: {new:?}");
    assert!(new.iter().all(|(_, blocked)| **blocked), "{new:?}");
    for (name, blocked) in before {
        // While a thread makes another, as the harness may have just then, it has all blocked.
        assert!(*blocked || after.get(name) == Some(&false), "{name} is not the library's");
    }
    let looked_up = LOOKED_UP.lock().expect("nobody panics");
    assert!(looked_up.len() >= 2, "over datagrams and gRPC: {looked_up:?}");
    assert!(looked_up.iter().all(|(_, blocked)| *blocked), "{looked_up:?}");
    assert!(looked_up.iter().any(|(name, _)| name == "petasos-resolver"), "{looked_up:?}");
}
