use petasos_engine::*;

use super::support::*;
use crate::Mirror;

const ALL: &str = r#"{"to": "shadow", "share": 1, "methods": ["pkg.Service/*"]}"#;

fn mirrors(rig: &mut Rig, call: Call) -> Option<Peer> {
    rig.begin(call);
    rig.run();
    rig.out().pop().expect("it passes").mirror
}

#[test]
fn unary_requests_of_the_methods_are_copied() {
    let mut rig = Rig::new(&Mirror, ALL);
    assert_eq!(mirrors(&mut rig, call()), Some(Peer(9)));
    assert_eq!(mirrors(&mut rig, of_method(5)), None);
    assert_eq!(mirrors(&mut rig, stream()), None);
    assert_eq!(mirrors(&mut rig, to_peer(9)), None, "it would run twice there");
    rig.upgrade(ALL);
    assert_eq!(mirrors(&mut rig, call()), Some(Peer(9)));
    assert_eq!(rig.report()["mirrored"], 2);
}

#[test]
fn a_share_is_copied_and_incoming_requests_are_not() {
    let mut rig = Rig::new(&Mirror, r#"{"to": "shadow", "share": 0.25}"#);
    let copied = (0..4000).filter(|_| mirrors(&mut rig, call()).is_some()).count();
    assert!((900..1100).contains(&copied), "{copied}");
    let mut rig = Rig::new(&Mirror, ALL);
    rig.begin(Call { requests: Direction::Inbound, ..call() });
    rig.run();
    assert_eq!(rig.back().pop().expect("it passes").mirror, None);
}

#[test]
fn states_and_configurations() {
    let policy = goes_on_from(&Mirror, ALL, r#"{"mirrored": 7}"#);
    assert_eq!(policy.report()["mirrored"], 7);
    are_wrong(
        &Mirror,
        &[
            (r#"{"share": 1}"#, "missing field `to`"),
            (r#"{"to": "", "share": 1}"#, "`to` must have from 1 to 255 bytes"),
            (r#"{"to": "shadow", "share": -0.5}"#, "`share` must be from 0 to 1, and is -0.5"),
            (r#"{"to": "shadow", "share": 1, "methods": []}"#, "`methods` must not be empty"),
            (r#"{"to": "shadow", "share": 1, "x": 1}"#, "unknown field `x`"),
        ],
    );
}
