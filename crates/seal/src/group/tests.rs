//! What is derived, and that nothing else follows from it.

use super::*;

fn group() -> GroupSecret {
    GroupSecret::new(Cipher::Aes128Gcm, core::array::from_fn(|at| at as u8))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As Python's `cryptography` derives them, with labels written out by hand.
#[test]
fn rt27_rt28_secrets_are_derived_as_the_specification_says() {
    let client = group().client(0x5_1234);
    assert_eq!(
        hex(client.bytes()),
        "61a16e5052c2f14d7a361b8de1562ce40416693215b49dd33c580352b84caa26"
    );
    assert_eq!(
        hex(client.first(3).bytes()),
        "4b885d2af4625b9de86b0ef99059be11932253e6fa1efa6250938d103019bd44"
    );
    let (to_worker, to_client) = client.link(0xbeef).directions(0xbeef);
    assert_eq!(
        hex(to_worker.bytes()),
        "92bc106de9545fcd57c6710e14462ff1718d1f991a46bebb95c4f7f4b1021c90"
    );
    assert_eq!(
        hex(to_client.bytes()),
        "9e539571267b02c5eddda18e298ec28575f974eaacd5e977d1466939be08ae27"
    );
}

#[test]
fn every_secret_is_another() {
    let (one, two) = (group().client(1), group().client(2));
    let links = [&one, &two].map(|client| [0, 1, 2].map(|worker| client.link(worker)));
    let directions = links.iter().flatten().flat_map(|link| {
        let (to_worker, to_client) = link.directions(7);
        [*to_worker.bytes(), *to_client.bytes()]
    });
    let firsts = [&one, &two].map(|client| [0, 1].map(|number| *client.first(number).bytes()));
    let all = [*group().bytes(), *one.bytes(), *two.bytes()];
    let all: Vec<_> = directions.chain(firsts.into_iter().flatten()).chain(all).collect();
    for (at, secret) in all.iter().enumerate() {
        assert!(!all[at + 1..].contains(secret), "{at}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?} {:?}", group(), group().client(1));
    assert_eq!(
        shown,
        "GroupSecret { cipher: Aes128Gcm, .. } ClientSecret { cipher: Aes128Gcm, .. }"
    );
}

#[test]
fn rt30_two_epochs_are_taken() {
    let mut epochs = Epochs::default();
    assert_eq!((epochs.begin(4094, 'a'), epochs.begin(4095, 'b')), (Ok(None), Ok(None)));
    assert_eq!((epochs.get(4094).copied(), epochs.get(4095).copied()), (Some('a'), Some('b')));
    assert_eq!(epochs.begin(0, 'c'), Ok(Some('a')), "numbers wrap");
    for old in [0, 4095, 4094, 2048] {
        assert_eq!(epochs.begin(old, 'x'), Err(NotNext(old)));
    }
    assert_eq!(epochs.get(4094), None);
    assert_eq!(epochs.newest(), Some((0, &mut 'c')));
    assert_eq!((epochs.end_before(), epochs.end_before()), (Some('b'), None));
    assert_eq!(epochs.get(4095), None);
    assert_eq!(epochs.get(0), Some(&mut 'c'));
    assert_eq!(epochs.begin(2047, 'd'), Ok(None));
}
