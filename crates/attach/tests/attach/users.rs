//! Applications of other users.

use std::os::unix::process::CommandExt;
use std::process::Stdio;

use petasos_attach::{Credentials, ListenerConfig};

use crate::processes::child;
use crate::raw::Raw;
use crate::service::Service;
use crate::{Folder, alone};

/// A user without rights.
const NOBODY: u32 = 65534;

#[test]
fn the_system_tells_who_connects() {
    let (_alone, folder) = (alone(), Folder::new());
    let mut service = Service::bind(&folder.socket(), ListenerConfig::default());
    let _raw = Raw::attached(&mut service, &folder.socket(), "app", 1);
    let found = service.apps[0].attached.credentials();
    let [uid, gid] = [rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()];
    assert_eq!(found, Credentials { uid, gid, pid: Some(std::process::id() as i32) });
}

#[test]
fn another_users_application_attaches_beside_a_flood_and_is_known() {
    let (_alone, folder) = (alone(), Folder::new());
    let config = ListenerConfig { mode: 0o666, ..ListenerConfig::default() };
    let mut service = Service::bind(&folder.socket(), config);
    let raws: Vec<Raw> = (0..40).map(|_| Raw::connect(&folder.socket())).collect();
    let mut command = child("greet", &folder.socket());
    let mut child = match command.uid(NOBODY).gid(NOBODY).current_dir("/").spawn() {
        Ok(child) => child,
        Err(error) => return petasos_skips::skip("root", format!("no other user: {error}")),
    };
    let mut found = None;
    service.until("it was there", |service| {
        found = found.or(service.app("greeter").map(|app| app.attached.credentials()));
        service.end_of("greeter").is_some()
    });
    assert!(child.wait().expect("it was started here").success());
    let pid = Some(child.id() as i32);
    assert_eq!(found, Some(Credentials { uid: NOBODY, gid: NOBODY, pid }));
    assert_eq!(service.listener.pending(), 16, "the flood has its share, and no more");
    drop(raws);
}

#[test]
fn the_sockets_mode_keeps_other_users_out() {
    let (_alone, folder) = (alone(), Folder::new());
    let config = ListenerConfig { mode: 0o600, ..ListenerConfig::default() };
    let mut service = Service::bind(&folder.socket(), config);
    let mut command = child("greet", &folder.socket());
    // It panics, and that is right.
    command.stderr(Stdio::null());
    let mut child = match command.uid(NOBODY).gid(NOBODY).current_dir("/").spawn() {
        Ok(child) => child,
        Err(error) => return petasos_skips::skip("root", format!("no other user: {error}")),
    };
    service.until("it has ended", |_| child.try_wait().expect("it was started here").is_some());
    assert!(!child.wait().expect("it was started here").success());
    assert_eq!(service.listener.stats().accepted, 0);
}
