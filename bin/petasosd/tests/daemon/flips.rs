//! An application that changes its requests while the service checks them.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_shm::HeapKind;

use crate::support::*;

/// Calls at a time.
const WINDOW: u64 = 64;
const PERMISSION_DENIED: u8 = 7;
const NO_EVE: &str = r#"[{"application": "*", "kind": "access", "configuration": {
    "default": "allow",
    "rules": [{"name": "no eve", "action": "deny", "methods": ["greet.Greeter/Greet"],
        "fields": [{"path": "name", "is": {"equals": "eve"}}]}]}}]"#;

/// A server that is called with no forbidden name, until it is called with `stop`. Gives how often,
/// and itself, so that it is still there.
pub fn serve(daemon: &Daemon) -> JoinHandle<(u64, Client)> {
    let mut server = daemon.attach("server");
    server.serve("greeter");
    std::thread::spawn(move || {
        let mut served = 0u64;
        loop {
            let Heard::Request(call, Some(name)) = server.heard() else { panic!("no request") };
            assert_ne!(name, "eve", "after {served} calls");
            server.respond(call, &format!("hello, {name}"));
            if name == "stop" {
                return (served, server);
            }
            served += 1;
            if served.is_multiple_of(1 << 14) {
                server.poll();
            }
        }
    })
}

/// One thread changes the name in the application's memory between an allowed and a forbidden one
/// of as many bytes, another makes calls. None arrives with the forbidden name, whether the policy
/// of the client or that of the server would refuse it, in one runtime or in two.
/// `PETASOS_CALLS` says how many.
#[test]
fn d10_m23_a_name_that_another_process_changes_is_checked_as_it_is_sent() {
    let calls = std::env::var("PETASOS_CALLS").map_or(20_000, |calls| calls.parse().unwrap());
    for options in [&[][..], &["--runtimes", "2"]] {
        let daemon = Daemon::start_more("flips", Some(NO_EVE), options);
        let server = serve(&daemon);
        let mut client = daemon.attach("client");
        let target = client.target("greeter");
        let message = client.kept_request("ann");
        let at = client.sent(message).windows(3).position(|bytes| bytes == b"ann").unwrap();
        let start = client.attachment.heap(HeapKind::Send).start().as_ptr() as u64;
        let name_at = start + message.offset - 8 + at as u64;
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let flips = std::thread::spawn(move || {
            let memory = OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
            let mut flips = 0u64;
            while !until.load(Ordering::Relaxed) {
                let name: &[u8; 3] = if flips.is_multiple_of(2) { b"eve" } else { b"ann" };
                memory.write_all_at(name, name_at).unwrap();
                flips += 1;
            }
            flips
        });
        let (mut begun, mut ended, mut refused) = (0u64, 0u64, 0u64);
        while ended < calls {
            while begun < calls && begun < ended + WINDOW {
                client.begin_kept(target, message);
                begun += 1;
            }
            refused += u64::from(client.next_status() == PERMISSION_DENIED);
            ended += 1;
            if ended.is_multiple_of(1 << 14) {
                client.poll();
            }
        }
        stop.store(true, Ordering::Relaxed);
        let flips = flips.join().unwrap();
        assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
        let (served, _server) = server.join().unwrap();
        println!("{calls} calls, {flips} changes: {served} served, {refused} refused");
        assert!(served + refused == calls && served > 0 && refused > 0);
    }
}
