//! Strangers at the socket for successors, and applications that know nothing of them.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use petasos::{Channel, Code, Request, block_on};
use petasos_admin::{AdminClient, ChangeRequest, UndoRequest};
use petasos_attach::hello::{Hello, Versions};
use petasos_attach::reason::DetachCode;
use petasos_attach::{Attachment, Ended};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect as join,
    recv, send, socket_with,
};

use super::chain::Chain;
use crate::support::*;

/// The first packet of a taker that goes on with no states of policies.
pub const HELLO: [u8; 7] = *b"\x01PTTO\x01\x00";
const REFUSE: u8 = 2;
pub const SERVING: u8 = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to the socket for successors.
pub fn connect(chain: &Chain) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let path = chain.folder().join("takeover.sock");
    join(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

pub fn say(socket: &OwnedFd, packet: &[u8]) {
    send(socket, packet, SendFlags::NOSIGNAL).unwrap();
}

/// The length of the next packet; 0 at the end.
pub fn hear(socket: &OwnedFd) -> usize {
    hear_packet(socket).len()
}

/// The next packet; empty at the end.
pub fn hear_packet(socket: &OwnedFd) -> Vec<u8> {
    let timeout = Timespec::try_from(PATIENCE).unwrap();
    let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&timeout)).unwrap(), 1, "nothing comes");
    let mut bytes = vec![0; 64 << 10];
    let got = match recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
        Ok((got, _)) => got,
        // What was said before comes next.
        Err(Errno::CONNRESET) => return hear_packet(socket),
        Err(_) => 0,
    };
    bytes.truncate(got);
    bytes
}

/// Why somebody is refused, behind all that was offered.
fn refusal(socket: &OwnedFd) -> String {
    loop {
        let packet = hear_packet(socket);
        match packet.split_first() {
            Some((&REFUSE, text)) => return String::from_utf8_lossy(text).into_owned(),
            Some(_) => {}
            None => return "the end".to_owned(),
        }
    }
}

/// A client for who changes what is in force.
pub fn operator(chain: &Chain) -> AdminClient {
    let socket = chain.folder().join("admin.sock");
    let channel = Channel::builder(&format!("grpc+unix://{}", socket.display()));
    AdminClient::new(block_on(channel.connect()).unwrap())
}

/// Undoes what nobody has done.
fn undo(chain: &Chain) -> Code {
    let undone = block_on(operator(chain).undo(Request::new(UndoRequest::new())));
    undone.unwrap_err().code()
}

/// Adds a policy.
fn change(chain: &Chain) -> Result<(), Code> {
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    edit.steps_mut().add().add_policy_mut().set_application("*").set_kind("null");
    let changed = block_on(operator(chain).change(Request::new(request)));
    changed.map(drop).map_err(|status| status.code())
}

#[test]
fn garbage_stalls_and_a_second_successor_change_nothing() {
    // The client does not move while its loop does not turn.
    let mut chain = Chain::start("garbage", &["--drain-timeout", "3"]);
    let server = chain.daemon.server("server");
    let event_loop = chain.daemon.event_loop("client");
    let client = client(&event_loop, &server);
    let works = || {
        event_loop.block_on(async {
            assert_eq!(client.echo(item("x", 1)).await.unwrap().number(), 1);
        });
    };
    for garbage in [&b"\x01PTTO\x03\x00"[..], b"x", &[SERVING], &[9; 16384], &[1; 40_000]] {
        let socket = connect(&chain);
        say(&socket, garbage);
        assert!(refusal(&socket).contains("may not say"), "{} bytes", garbage.len());
        works();
    }
    // Serving is said once the offer was, and once.
    let twice = connect(&chain);
    say(&twice, &HELLO);
    say(&twice, &HELLO);
    assert!(refusal(&twice).contains("may not say"));
    // One that says nothing keeps others away for a while, and no longer.
    let silent = connect(&chain);
    let why = chain.fail_to_replace(&[]);
    assert!(why.contains("another process is taking over"), "{why}");
    works();
    assert!(refusal(&silent).contains("too long"));
    // What an operator changes would not reach one that has got what is in force.
    assert_eq!(change(&chain), Ok(()));
    let offered = connect(&chain);
    say(&offered, &HELLO);
    assert!(hear(&offered) > 0);
    assert_eq!(change(&chain), Err(Code::Unavailable));
    assert_eq!(undo(&chain), Code::Unavailable);
    say(&offered, b"garbage");
    assert!(refusal(&offered).contains("may not say"));
    assert_eq!(change(&chain), Ok(()));
    chain.replace(&[]);
    works();
    chain.await_former();
    works();
}

#[test]
fn other_users_do_not_take_over() {
    let chain = Chain::start("users", &[]);
    let path = chain.folder().join("takeover.sock");
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    if !rustix::process::geteuid().is_root() {
        petasos_skips::skip("root", "only root has processes of other users");
        return;
    }
    // Even if the file lets everybody in.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let program = chain.folder().join("petasosd");
    std::fs::copy(env!("CARGO_BIN_EXE_petasosd"), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.arg("--takeover").arg("--socket").arg(chain.folder().join("socket"));
    let output = command.uid(65534).gid(65534).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("only the service's user"), "{said}");
    let server = chain.daemon.server("server");
    let event_loop = chain.daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        assert_eq!(client.echo(item("x", 1)).await.unwrap().number(), 1);
    });
}

#[test]
fn an_application_of_the_first_version_attaches_again() {
    let mut chain = Chain::start("old", &[]);
    let attach = |chain: &Chain| {
        let mut hello = Hello::new("old", 1).unwrap();
        hello.versions = Versions { oldest: 1, newest: 1 };
        Attachment::connect(&chain.folder().join("socket"), &hello, PATIENCE).unwrap()
    };
    let mut old = attach(&chain);
    chain.replace(&[]);
    let ended = loop {
        match old.poll() {
            Ok(_) => std::thread::sleep(Duration::from_millis(1)),
            Err(ended) => break ended,
        }
    };
    assert!(matches!(ended, Ended::Detached(DetachCode::Stopping, _)), "{ended}");
    drop(old);
    chain.await_former();
    attach(&chain).poll().unwrap();
}
