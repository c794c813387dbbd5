//! The process's account of long buffers. One test, as the account is the process's.

use petasos_buf::memory::{Counted, LONG_BYTES_MIN, admits, set_limit, usage};
use petasos_buf::{MsgBuf, Pool, PoolConfig, give_spare, take_spare};

fn used() -> usize {
    usage().used_bytes
}

#[test]
fn long_buffers_are_counted_while_somebody_has_them() {
    const LONG: usize = 1 << 20;
    let mut buf = MsgBuf::new(LONG);
    assert_eq!(used(), LONG);
    buf.skip(64);
    drop(buf);
    assert_eq!(used(), 0);
    let short = MsgBuf::with_capacity(LONG_BYTES_MIN - 1);
    assert_eq!(used(), 0, "short buffers are not counted");
    drop(short);

    give_spare(MsgBuf::with_capacity(LONG));
    assert_eq!(used(), 0, "nor are spare ones");
    let buf = take_spare(LONG);
    assert_eq!(used(), LONG);
    let mut pool = Pool::new(PoolConfig::default());
    pool.take_over(&buf);
    pool.give(buf);
    assert_eq!(used(), 0);
    let lent = pool.take(LONG).expect("it may lend as much");
    assert_eq!(used(), LONG);
    drop(lent);
    // More than the spares may be: the surplus is freed, and counted once.
    let many: Vec<_> = (0..300).map(|_| MsgBuf::with_capacity(LONG)).collect();
    many.into_iter().for_each(give_spare);
    assert_eq!(used(), 0);

    let mut counted = Counted::default();
    counted.set(2 * LONG);
    assert_eq!(used(), 2 * LONG);
    counted.set(LONG);
    assert_eq!(used(), LONG);
    assert!(admits(usize::MAX - LONG), "there is no limit at first");
    set_limit(3 * LONG);
    assert!(admits(2 * LONG) && !admits(2 * LONG + 1));
    assert_eq!(usage().refusals, 1);
    drop(counted);
    assert!(admits(3 * LONG));
    let text = usage().to_prometheus();
    assert!(text.contains("\npetasos_memory_limit_bytes 3145728\n"), "{text}");
    assert!(text.ends_with("petasos_memory_refusals_total 1\n"), "{text}");
}
