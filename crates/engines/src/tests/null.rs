use petasos_engine::*;

use super::support::*;
use crate::Null;

#[test]
fn everything_passes_in_order_both_ways_and_through_an_upgrade() {
    let mut rig = Rig::new(&Null, "{}");
    let first = rig.begin(stream());
    rig.submit(first, ItemKind::Message, 1);
    let second = rig.begin(call());
    rig.upgrade("{}");
    rig.submit(second, ItemKind::Cancel, 0);
    rig.run();
    let out: Vec<_> = rig.out().into_iter().map(|item| (item.call, item.kind)).collect();
    let kinds = [ItemKind::Request, ItemKind::Message].map(|kind| (first, kind));
    assert_eq!(out[..2], kinds);
    assert_eq!(out.len(), 2, "the second call was never heard of: {out:?}");
    rig.end(first, None);
    let (state, left) = rig.detach();
    assert!(state.is_none() && left.is_empty());
}

#[test]
fn only_an_empty_configuration_and_an_empty_state_are_taken() {
    are_wrong(&Null, &[("{\"a\":1}", "unknown field `a`"), ("[", "EOF")]);
    goes_on_from(&Null, "{}", "{}");
}
