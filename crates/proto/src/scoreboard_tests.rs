use super::*;
use proptest::prelude::*;

fn send(board: &mut Scoreboard, transmission: &mut u32) -> Option<u32> {
    let index = board.next_to_send()?;
    board.on_sent(index, *transmission);
    *transmission += 1;
    Some(index)
}

#[test]
fn a_window_bounds_what_is_sent() {
    let mut board = Scoreboard::new(10, 0, 4);
    let mut transmission = 0;
    let sent: Vec<_> = core::iter::from_fn(|| send(&mut board, &mut transmission)).collect();
    assert_eq!(sent, [0, 1, 2, 3]);
    assert_eq!(board.in_flight(), 4);
    board.on_arrived_below(2, 1);
    assert_eq!(send(&mut board, &mut transmission), Some(4));
}

#[test]
fn an_overtaken_packet_is_lost_but_a_slightly_late_one_is_not() {
    let mut board = Scoreboard::new(8, 0, 8);
    let mut transmission = 0;
    while send(&mut board, &mut transmission).is_some() {}
    board.on_arrived(2, 2);
    assert_eq!(board.detect_lost(), 0, "overtaken by two at most");
    board.on_arrived(3, 3);
    assert_eq!(board.detect_lost(), 1);
    assert_eq!(board.next_to_send(), Some(0));
}

#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    let mut board = Scoreboard::new(16, 0, 8);
    let mut transmission = 0;
    while send(&mut board, &mut transmission).is_some() {}
    for index in 1..8 {
        board.on_arrived(index, index);
    }
    assert_eq!(board.detect_lost(), 1);
    assert_eq!(send(&mut board, &mut transmission), Some(0));
    board.on_arrived(0, 999);
    assert_eq!(board.base(), 8);
    while send(&mut board, &mut transmission).is_some() {}
    assert_eq!(board.in_flight(), 8);
}

#[test]
fn an_answer_to_an_older_transmission_is_late() {
    let mut board = Scoreboard::new(8, 0, 8);
    let mut transmission = 0;
    while send(&mut board, &mut transmission).is_some() {}
    assert_eq!(board.lose_all(), 8);
    send(&mut board, &mut transmission);
    assert_eq!(board.on_arrived(0, 0), Arrival::Late);
    assert_eq!(board.on_arrived(1, 1), Arrival::Late, "arrived before it was sent again");
    assert_eq!(board.on_arrived(1, 1), Arrival::Known);
}

#[test]
fn probing_resends_the_packet_sent_last() {
    let mut board = Scoreboard::new(5, 0, 8);
    assert!(!board.probe_last());
    let mut transmission = 0;
    while send(&mut board, &mut transmission).is_some() {}
    assert!(board.probe_last());
    assert_eq!(send(&mut board, &mut transmission), Some(4));
    board.on_arrived(4, 5);
    assert_eq!(board.detect_lost(), 3, "all that were overtaken by three or more");
}

#[test]
fn rolling_back_starts_again_at_the_gap() {
    let mut board = Scoreboard::new(8, 0, 8);
    let mut transmission = 0;
    while send(&mut board, &mut transmission).is_some() {}
    board.on_arrived_below(3, 2);
    assert_eq!(board.roll_back(), 5);
    assert_eq!(send(&mut board, &mut transmission), Some(3));
}

proptest! {
    /// Over any lossy exchange the board's counts match a plain recount, every packet is sent
    /// at least once, and the message completes once losses stop.
    #[test]
    fn the_board_matches_a_recount(
        total in 1u32..200, window in 1u32..64, fates in prop::collection::vec(0u8..4, 1..400),
    ) {
        let mut board = Scoreboard::new(total, 0, window);
        let mut arrived = vec![false; total as usize];
        let mut transmission = 0u32;
        let mut fates = fates.into_iter();
        for _ in 0..10_000 {
            if board.is_complete() {
                break;
            }
            let Some(index) = send(&mut board, &mut transmission) else {
                board.lose_all();
                continue;
            };
            let fate = fates.next().unwrap_or(3);
            if fate >= 2 {
                board.on_arrived(index, transmission - 1);
                arrived[index as usize] = true;
            }
            if fate == 1 {
                board.detect_lost();
            }
            let window = board.base..board.next;
            let count = |state| window.clone().filter(|&at| board.state(at) == state).count();
            prop_assert_eq!(count(State::InFlight), board.in_flight as usize);
            prop_assert_eq!(count(State::Lost), board.lost as usize);
            let gap = arrived.iter().position(|done| !done).unwrap_or(arrived.len());
            prop_assert_eq!(board.base() as usize, gap);
        }
        prop_assert!(board.is_complete());
        prop_assert_eq!(board.in_flight(), 0);
    }
}
