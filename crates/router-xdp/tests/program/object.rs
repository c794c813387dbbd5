//! The object that is committed.

use petasos_netio_xdp::BpfObject;
use petasos_router_xdp::{OBJECT, SECTION};

#[test]
fn an_object_that_is_cut_or_altered_is_refused_or_read_and_nothing_else() {
    assert!(BpfObject::parse(OBJECT, "text").is_err(), "there is no such section");
    for len in 0..OBJECT.len() {
        // The table of sections is the last thing in the file.
        assert!(BpfObject::parse(&OBJECT[..len], SECTION).is_err(), "{len} bytes");
    }
    let ends = [0..64, OBJECT.len() - 8 * 64..OBJECT.len()];
    let interesting = ends.into_iter().flatten();
    for byte in interesting {
        for value in [0, 1, 0x7f, 0xff] {
            let mut altered = OBJECT.to_vec();
            altered[byte] = value;
            let _ = BpfObject::parse(&altered, SECTION);
        }
    }
}
