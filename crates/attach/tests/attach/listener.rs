//! The service's socket at its path, and the processes that the listener accepts.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use petasos_attach::hello::{HelloError, Token, Versions};
use petasos_attach::message::{FromApplication, FromService};
use petasos_attach::reason::RefuseCode;
use petasos_attach::{Attachment, ConnectError, ListenError, Listener, ListenerConfig};
use petasos_base::SystemClock;

use crate::application::{connect, hello};
use crate::raw::Raw;
use crate::service::Service;
use crate::{Folder, PATIENCE, alone};

fn bind(path: &Path) -> Result<Listener, ListenError> {
    Listener::bind(path, ListenerConfig::default())
}

#[test]
fn two_services_do_not_share_a_path() {
    let (_alone, folder) = (alone(), Folder::new());
    let first = bind(&folder.socket()).expect("the path is free");
    let inode = std::fs::metadata(folder.socket()).expect("it is there").ino();
    assert!(matches!(bind(&folder.socket()), Err(ListenError::InUse(_))));
    assert_eq!(std::fs::metadata(folder.socket()).expect("it is there").ino(), inode);
    std::fs::remove_file(folder.socket()).expect("it is there");
    assert!(matches!(bind(&folder.socket()), Err(ListenError::InUse(_))), "it has the lock");
    drop(first);
    let second = bind(&folder.socket()).expect("the path is free again");
    drop(second);
    assert!(!folder.socket().exists(), "a service takes its socket away");
    bind(&folder.socket()).expect("the path is free again");
}

#[test]
fn a_socket_that_somebody_else_listens_at_is_in_use() {
    let (_alone, folder) = (alone(), Folder::new());
    let other = UnixListener::bind(folder.socket()).expect("the path is free");
    assert!(matches!(bind(&folder.socket()), Err(ListenError::InUse(_))));
    drop(other);
    assert!(folder.socket().exists(), "it was left there");
    let _ours = bind(&folder.socket()).expect("nobody listens any more");
}

#[test]
fn what_is_no_socket_is_not_replaced() {
    let (_alone, folder) = (alone(), Folder::new());
    std::fs::write(folder.socket(), "precious").expect("the folder can be written");
    assert!(matches!(bind(&folder.socket()), Err(ListenError::NotASocket(_))));
    assert_eq!(std::fs::read(folder.socket()).expect("it is there"), b"precious");
    let long = folder.0.join("x".repeat(108));
    assert!(matches!(bind(&long), Err(ListenError::Path(_))));
    let nowhere = folder.0.join("no/petasosd.sock");
    assert!(matches!(bind(&nowhere), Err(ListenError::System { .. })));
}

#[test]
fn a_service_does_not_remove_the_socket_of_another() {
    let (_alone, folder) = (alone(), Folder::new());
    let ours = bind(&folder.socket()).expect("the path is free");
    std::fs::remove_file(folder.socket()).expect("it is there");
    let _other = UnixListener::bind(folder.socket()).expect("the path is free");
    drop(ours);
    assert!(folder.socket().exists());
}

#[test]
fn the_sockets_mode_is_as_configured() {
    let (_alone, folder) = (alone(), Folder::new());
    for mode in [0o600, 0o666, 0o660] {
        let config = ListenerConfig { mode, ..ListenerConfig::default() };
        let _listener = Listener::bind(&folder.socket(), config).expect("the path is free");
        let metadata = std::fs::metadata(folder.socket()).expect("it is there");
        assert_eq!(metadata.permissions().mode() & 0o777, mode);
    }
}

#[test]
fn nobody_listens_is_an_error_at_once() {
    let (_alone, folder) = (alone(), Folder::new());
    let error = Attachment::connect(&folder.socket(), &hello("a", 1), PATIENCE);
    assert!(matches!(error, Err(ConnectError::NotThere(_))));
    drop(UnixListener::bind(folder.socket()).expect("the path is free"));
    let error = Attachment::connect(&folder.socket(), &hello("a", 1), PATIENCE);
    assert!(matches!(error, Err(ConnectError::NotThere(_))));
}

#[test]
fn a_service_that_does_not_answer_is_not_waited_for_longer_than_asked() {
    let (_alone, folder) = (alone(), Folder::new());
    let _silent = UnixListener::bind(folder.socket()).expect("the path is free");
    let short = Duration::from_millis(20);
    let error = Attachment::connect(&folder.socket(), &hello("a", 1), short);
    assert!(matches!(error, Err(ConnectError::Timeout)));
}

/// How the service answers this hello.
fn refused(
    config: ListenerConfig,
    change: impl FnOnce(&mut petasos_attach::hello::Hello),
) -> RefuseCode {
    let folder = Folder::new();
    let mut service = Service::bind(&folder.socket(), config);
    let mut said = hello("a", 1);
    change(&mut said);
    let mut raw = Raw::connect(&folder.socket());
    raw.say(&FromApplication::Hello(said));
    let answer = raw.end(&mut service);
    assert!(service.apps.is_empty() && service.listener.pending() == 0);
    match answer {
        Some(FromService::Refuse(code, _)) => code,
        other => panic!("it was not refused: {other:?}"),
    }
}

#[test]
fn d1_versions_that_do_not_meet_are_refused() {
    let _alone = alone();
    let code = refused(ListenerConfig::default(), |hello| {
        let oldest = Versions::SUPPORTED.newest + 1;
        hello.versions = Versions { oldest, newest: oldest };
    });
    assert_eq!(code, RefuseCode::Versions);
    assert!(!code.may_retry());
}

#[test]
fn d1_the_token_is_asked_for_if_configured() {
    let _alone = alone();
    let token = |bytes| Token::new(bytes).expect("it is short");
    let config = ListenerConfig { token: Some(token(b"right")), ..ListenerConfig::default() };
    assert_eq!(refused(config.clone(), |hello| hello.token = token(b"wrong")), RefuseCode::Token);
    assert_eq!(refused(config.clone(), |_| {}), RefuseCode::Token);
    let folder = Folder::new();
    let mut service = Service::bind(&folder.socket(), config);
    let mut said = hello("a", 1);
    said.token = token(b"right");
    let mut raw = Raw::connect(&folder.socket());
    raw.say(&FromApplication::Hello(said));
    service.until("it is taken", |service| service.app("a").is_some());
}

#[test]
fn a_hello_that_cannot_be_said_is_not_sent() {
    use petasos_attach::hello::Hello;
    assert_eq!(Hello::new("", 1).map(drop), Err(HelloError::Name));
    assert_eq!(Hello::new("a", 0).map(drop), Err(HelloError::Lanes(0)));
    assert_eq!(Hello::new("a", 257).map(drop), Err(HelloError::Lanes(257)));
}

#[test]
fn an_application_counts_until_it_has_detached_and_ended() {
    let (_alone, folder) = (alone(), Folder::new());
    let config = ListenerConfig { applications_per_user_max: 2, ..ListenerConfig::default() };
    let mut service = Service::bind(&folder.socket(), config);
    let first = Raw::attached(&mut service, &folder.socket(), "first", 1);
    drop(first);
    service.until("it is gone", |service| service.end_of("first").is_some());
    // This process could still have all that it was given, so it has a place for it.
    assert_eq!(service.listener.applications(), 1);
    let _second = Raw::attached(&mut service, &folder.socket(), "second", 1);
    let mut third = Raw::connect(&folder.socket());
    third.say(&FromApplication::Hello(hello("third", 1)));
    let Some(FromService::Refuse(code, _)) = third.end(&mut service) else { panic!("refused") };
    assert_eq!((code, code.may_retry()), (RefuseCode::TooMany, true));
}

#[test]
fn who_was_given_nothing_does_not_count_and_may_try_again() {
    let (_alone, folder) = (alone(), Folder::new());
    let config = ListenerConfig { applications_per_user_max: 1, ..ListenerConfig::default() };
    let mut service = Service::bind(&folder.socket(), config);
    for _ in 0..3 {
        let mut raw = Raw::connect(&folder.socket());
        raw.say(&FromApplication::Hello(hello("app", 1)));
        let applicant = service.listener.poll(service.now()).expect("it can accept");
        let applicant = applicant.expect("it has said hello");
        applicant.refuse(RefuseCode::Forbidden, "not \u{1b} now");
        raw.hear();
        let Some(FromService::Refuse(RefuseCode::Forbidden, text)) = raw.said.pop() else {
            panic!("it is told so");
        };
        assert_eq!(text.to_string(), "not \\u{1b} now");
    }
    assert_eq!(service.listener.applications(), 0);
    Raw::attached(&mut service, &folder.socket(), "app", 1);
}

#[test]
fn the_library_says_why_it_was_refused() {
    let (_alone, folder) = (alone(), Folder::new());
    let config = ListenerConfig { applications_max: 0, ..ListenerConfig::default() };
    let mut listener = Listener::bind(&folder.socket(), config).expect("the path is free");
    let path = folder.socket();
    let thread =
        std::thread::spawn(move || Attachment::connect(&path, &hello("a", 1), PATIENCE).map(drop));
    let clock = SystemClock::default();
    while !thread.is_finished() {
        assert!(listener.poll(clock.now()).expect("it can accept").is_none());
    }
    let refused = thread.join().expect("it does not panic");
    assert!(matches!(refused, Err(ConnectError::Refused(RefuseCode::TooMany, _))), "{refused:?}");
    assert_eq!(listener.stats().refused, 1);
}

#[test]
fn lanes_are_given_up_to_the_services_limit() {
    let (_alone, folder) = (alone(), Folder::new());
    let mut service = Service::bind(&folder.socket(), ListenerConfig::default());
    service.terms.lanes_max = 20;
    let path = folder.socket();
    let thread = std::thread::spawn(move || {
        let few = connect(&path, "few", 3).take_lanes().len();
        let mut many = connect(&path, "many", 256);
        assert_eq!(many.limits(), petasos_attach::Terms::default().limits);
        assert_eq!(many.service().pid, Some(std::process::id() as i32));
        (few, many.take_lanes().len())
    });
    service.until("both have their lanes", |_| thread.is_finished());
    assert_eq!(thread.join().expect("they are taken"), (3, 20));
}
