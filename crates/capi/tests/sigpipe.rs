//! No thread of the library takes SIGPIPE, which would end a program in C that does not ignore it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::ptr::{null, null_mut};

use petasos_capi::*;

/// SIGPIPE, 13, in the mask that the kernel tells.
const PIPE: u64 = 1 << 12;

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

/// One test only: it looks at all threads of the process.
#[test]
fn the_librarys_threads_block_sigpipe_and_the_callers_do_not() {
    let before = threads();
    let any = c"127.0.0.1:0".as_ptr();
    let options = petasos_server_options {
        struct_bytes: size_of::<petasos_server_options>(),
        listen: any,
        grpc_listen: any,
        loops: 2,
        calls_max: 0,
        tls: null(),
        plaintext: false,
    };
    let (mut server, mut near, mut far) = (null_mut(), null_mut(), null_mut());
    // SAFETY: all that is passed lives until the calls return, and handles are freed once.
    unsafe {
        let code = petasos_server_start(null(), 0, &options, &mut server);
        assert_eq!(code, PETASOS_OK, "{}", message());
        let target = CString::new(format!("petasos://127.0.0.1:{}", petasos_server_port(server)));
        let target = target.expect("no zeros");
        let code = petasos_channel_open(target.as_ptr(), null(), &mut near);
        assert_eq!(code, PETASOS_OK, "{}", message());
        // There is no such server: connecting fails, but by all the threads it takes.
        let target = c"grpc://127.0.0.1:1".as_ptr();
        assert_eq!(petasos_channel_connect(target, null(), &mut far), 14);
    }
    let after = threads();
    let new: Vec<_> = after.iter().filter(|(name, _)| !before.contains_key(*name)).collect();
    assert!(new.len() >= 5, "loops, control, gRPC, calls: {new:?}");
    assert!(new.iter().all(|(_, blocked)| **blocked), "{new:?}");
    for (name, blocked) in before {
        // While a thread makes another, as the harness may have just then, it has all blocked.
        assert!(blocked || after.get(&name) == Some(&false), "{name} is not the library's");
    }
    // SAFETY: as above.
    unsafe {
        petasos_channel_free(near);
        petasos_channel_free(far);
        petasos_server_free(server);
    }
}
