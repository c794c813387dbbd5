//! A key that is followed.

use petasos::{Code, ConnectError, TargetError};
use petasos_etcd::EtcdOptions;

use crate::cluster::Etcd;
use crate::servers::PATIENCE;

/// Runs a future with the context of a runtime.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the system has descriptors");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.expect("it is in time") })
}

#[test]
fn a_key_is_read_and_its_changes_are_followed() {
    let Some(mut etcd) = Etcd::start("key") else { return };
    etcd.put("service/config", "one");
    // Keys that only begin alike are others.
    etcd.put("service/config/more", "other");
    let key = EtcdOptions::new().key(&etcd.target("service/config")).expect("it is a target");
    assert_eq!(run(key.get()).expect("etcd answers"), Some(b"one".to_vec()));
    let none = EtcdOptions::new().key(&etcd.target("service/none")).expect("it is a target");
    assert!(run(none.get()).expect("etcd answers").is_none());

    let mut follower = key.clone().follow(Some(b"one".to_vec()));
    let followed = std::thread::scope(|scope| {
        let followed = scope.spawn(|| run(follower.changed()));
        etcd.put("service/config", "one");
        etcd.put("service/other", "two");
        etcd.put("service/config", "two");
        followed.join().expect("it does not panic")
    });
    assert_eq!(followed.expect("etcd answers"), Some(b"two".to_vec()));
    // What has changed while nobody waited is found.
    etcd.put("service/config", "\0three");
    assert_eq!(run(follower.changed()).expect("etcd answers"), Some(b"\0three".to_vec()));

    etcd.stop();
    assert_eq!(run(follower.changed()).expect_err("it is gone").code(), Code::Unavailable);
    assert_eq!(run(key.get()).expect_err("it is gone").code(), Code::Unavailable);
}

#[test]
fn targets_name_a_key() {
    let options = EtcdOptions::new();
    assert!(options.key("etcd://127.0.0.1:1/a/b").is_ok());
    for wrong in ["etcd://127.0.0.1:1", "etcd://127.0.0.1:1/", "file:///a"] {
        let error = options.key(wrong).expect_err("it is none");
        assert!(matches!(error, ConnectError::Target(_)), "{wrong}: {error}");
    }
    let form = options.key("etcd:///a").expect_err("it is none");
    assert!(matches!(form, ConnectError::Target(TargetError::Form(_))));
    assert!(matches!(options.key("etcds://127.0.0.1:1/a"), Err(ConnectError::NoTls)));
}
