//! RT3, RT13: when first packets are sent, and what they cost.

use super::super::{AskError, Why};
use super::*;

/// The times of a pair's sendings, in milliseconds after the first, until it ends.
fn schedule(client: &mut Client) -> (Vec<u64>, u64) {
    let (start, mut sent) = (client.now, Vec::new());
    for _ in 0..10_000 {
        client.waits(1);
        let millis = client.now.nanos_since(start) / 1_000_000;
        sent.extend(client.sent().iter().map(|_| millis));
        if !client.over().is_empty() {
            return (sent, millis);
        }
    }
    panic!("it ends");
}

/// Whether times are those, or at most two slots of a wheel later.
fn are_about(times: &[u64], expected: &[u64]) -> bool {
    times.len() == expected.len()
        && times.iter().zip(expected).all(|(time, expected)| (0..=4).contains(&(time - expected)))
}

#[test]
fn rt13_first_packets_are_repeated_three_times_and_given_up() {
    let mut client = Client::new();
    client.ask(false);
    let (sent, end) = schedule(&mut client);
    assert!(are_about(&sent, &[20, 60, 140]), "{sent:?}");
    assert!(are_about(&[end], &[sent[2] + 2000]), "{end}");
    // Answers make the wait four times as long as they took.
    for _ in 0..100 {
        let first = client.ask(false);
        client.now = client.now + Duration::from_millis(10);
        client.hears_only(&first, ONE.member, response(first.number, 6));
    }
    client.ask(false);
    let (sent, _) = schedule(&mut client);
    assert!(are_about(&sent, &[40, 120, 280]), "{sent:?}");
}

#[test]
fn rt13_the_wait_has_bounds() {
    for (took_us, ask) in [(10, 4), (200_000, 400)] {
        let mut client = Client::new();
        for _ in 0..100 {
            let first = client.ask(false);
            client.now = client.now + Duration::from_micros(took_us);
            client.hears_only(&first, ONE.member, response(first.number, 6));
        }
        client.ask(false);
        let (sent, _) = schedule(&mut client);
        assert!(are_about(&sent, &[ask, 3 * ask, 7 * ask]), "{took_us}: {sent:?}");
    }
}

#[test]
fn rt13_a_claim_that_nobody_answers_has_not_run_and_a_whole_one_may_have() {
    for is_claim in [true, false] {
        let mut client = Client::new();
        let first = client.ask(is_claim);
        client.waits(1999);
        assert!(client.over().is_empty());
        client.waits(4);
        // Its last repetition was due, and so it is not silent for long enough.
        assert_eq!(client.sent().len(), 1);
        client.waits(2005);
        let context = first.pair.request;
        let over = Over {
            attachment: HERE,
            pair: first.pair,
            context,
            why: Why::Silence,
            has_not_run: is_claim,
        };
        assert_eq!(client.over(), [over]);
        assert_eq!(client.pairs.asked(HERE), 0);
    }
}

#[test]
fn rt13_a_calls_timeout_ends_it_also_before_it_was_sent() {
    let mut client = Client::new();
    let timeout_at = client.now + Duration::from_millis(5);
    let asking = Asking { timeout_at, ..client.asking(false) };
    let pair = client.pairs.ask(HERE, asking, 3).unwrap();
    client.sent();
    client.waits(4);
    assert!(client.over().is_empty());
    client.waits(4);
    let over = Over { attachment: HERE, pair, context: 3, why: Why::Timeout, has_not_run: false };
    assert_eq!(client.over(), [over]);
    // One entry's old time does not hold another pair's up.
    let first = client.ask(false);
    client.pairs.end(first.pair);
    for _ in 0..70 {
        let asking = Asking { timeout_at: client.now + Duration::from_millis(3), ..asking };
        client.pairs.ask(HERE, asking, 4).unwrap();
        client.sent();
        client.waits(5);
        assert_eq!(client.over().len(), 1);
    }
}

#[test]
fn rt13_repetitions_have_a_budget() {
    let mut client = Client::new();
    let firsts: Vec<_> = (0..500).map(|_| client.ask(false)).collect();
    let repeated = |client: &mut Client, millis: u64| -> usize {
        let mut each = (0..millis).map(|_| {
            client.waits(1);
            client.sent().len()
        });
        each.by_ref().sum()
    };
    assert_eq!(repeated(&mut client, 22), 10, "as many at once");
    let later = repeated(&mut client, 400);
    assert!((80..=105).contains(&later), "one each 4 ms: {later}");
    assert!(client.pairs.stats().repetitions_held > 400);
    for first in firsts {
        client.pairs.end(first.pair);
    }
    // Ten first packets are worth one.
    for _ in 0..30 {
        let first = client.ask(false);
        client.pairs.end(first.pair);
    }
    for _ in 0..40 {
        client.ask(false);
    }
    let later = repeated(&mut client, 22);
    assert!((7..=12).contains(&later), "{later}");
}

#[test]
fn rt13_where_nothing_is_answered_each_has_another_chance() {
    let mut client = Client::new();
    let mut lost: Vec<_> = (0..64).map(|_| client.ask(false).pair).collect();
    while !lost.is_empty() {
        client.waits(1);
        let repeated: Vec<_> = client.sent().iter().map(|first| first.pair).collect();
        lost.retain(|pair| !repeated.contains(pair));
        assert_eq!(client.over(), [], "no call fails whose first packet is lost once");
    }
}

#[test]
fn rt3_numbers_count_up_and_sendings_of_a_pair_differ_in_transmission() {
    let mut client = Client::new();
    let first = client.ask(false);
    assert_eq!((first.number, client.ask(false).number), (1, 2));
    // Another router's numbers begin anew.
    client.pairs.attach(THERE, 10, 0);
    client.pairs.move_asked(HERE, THERE);
    let sent = client.sent();
    assert_eq!(sent.iter().map(|first| first.number).collect::<Vec<_>>(), [2, 3]);
    assert!(sent.iter().all(|first| first.attachment == THERE), "1 would be its own, and 2 was");
    assert!(!client.pairs.is_worn(HERE));
}

#[test]
fn rt33_no_more_ask_than_the_router_lets() {
    let mut client = Client::new();
    client.pairs.attach(THERE, 2, 0);
    let ask = |client: &mut Client, by| {
        let asking = client.asking(true);
        client.pairs.ask(by, asking, 5)
    };
    let first = ask(&mut client, THERE).unwrap();
    ask(&mut client, THERE).unwrap();
    assert_eq!(ask(&mut client, THERE), Err((AskError::Full, 5)));
    client.pairs.end(first);
    assert!(ask(&mut client, THERE).is_ok());
    assert_eq!(ask(&mut client, AttachmentId(99)), Err((AskError::Ended, 5)));
}

#[test]
fn rt38_pairs_that_ask_move_at_once_and_bound_ones_stay() {
    let mut client = Client::new();
    client.pairs.attach(THERE, 2, 0);
    let bound = client.ask(true);
    client.hears(&bound, ONE, ready(bound.number, 0));
    let asked: Vec<_> = (0..3).map(|_| client.ask(true)).collect();
    client.pairs.move_asked(HERE, THERE);
    let sent = client.sent();
    assert_eq!(
        sent.iter().map(|first| first.pair).collect::<Vec<_>>(),
        [asked[0].pair, asked[1].pair]
    );
    assert_eq!((client.pairs.asked(HERE), client.pairs.asked(THERE)), (1, 2), "it lets no more");
    client.pairs.detach(HERE);
    let over = client.over();
    assert_eq!((over.len(), over[0].pair, over[0].why), (1, asked[2].pair, Why::Detached));
    assert_eq!(client.pairs.bound(bound.pair), Some(ONE));
    let heard = client.takes(&bound, ONE.member, None, To { kind: Kind::Ack, ..ready(1, 0) });
    assert_eq!(heard, Answer::Session);
    // Answers to what was sent before the move count as well.
    let late = client.hears(&asked[0], ONE, ready(asked[0].number, 0));
    assert_eq!(late, Answer::Ready { session: ONE, credits: 32 });
    assert_eq!(client.pairs.asked(THERE), 1);
    // The move was no repetition: there are three yet.
    client.pairs.end(asked[0].pair);
    let (sent, _) = schedule(&mut client);
    assert_eq!(sent.len(), 3);
}

#[test]
fn an_entry_that_is_used_again_before_it_has_sent_sends_once() {
    let mut client = Client::new();
    let mut asked = Vec::new();
    for _ in 0..200 {
        let asking = client.asking(true);
        let pair = client.pairs.ask(HERE, asking, 0).unwrap();
        asked.push(pair);
        if asked.len() < 200 {
            client.pairs.end(pair);
        }
    }
    let sent: Vec<_> = client.sent().iter().map(|first| first.pair).collect();
    assert_eq!(sent, asked[199..]);
}

#[test]
fn rt28_an_answer_belongs_to_attachment_and_epoch_of_its_sending_or_binding() {
    let mut client = Client::new();
    client.pairs.attach(THERE, 1000, 7);
    let first = client.ask(true);
    client.pairs.set_epoch(HERE, 3);
    client.pairs.move_asked(HERE, THERE);
    let second = client.sent().pop().unwrap();
    assert_eq!((second.pair, second.attachment), (first.pair, THERE));
    assert_eq!((first.epoch, second.epoch), (2, 7));
    let there = WorkerSession { member: Member { attachment: THERE, ..ONE.member }, ..ONE };
    let block = |from: WorkerSession| {
        let (session, tag, worker) = (from.session, from.tag, from.member.worker);
        Some(WorkerBlock { session, tag, worker })
    };
    // Both attachments number their sendings from 1, but those of a pair differ (RT3).
    assert_ne!(first.number, second.number);
    let belongs = |client: &Client, echo, block| {
        let bytes = bytes_of(&first, ready(echo, 0));
        let answered = client.pairs.answered(&Packet::parse(&bytes).unwrap(), block)?;
        Some((answered.attachment, answered.epoch))
    };
    assert_eq!(belongs(&client, first.number, block(ONE)), Some((HERE, Some(2))));
    assert_eq!(belongs(&client, second.number, block(ONE)), Some((THERE, Some(7))));
    assert_eq!(belongs(&client, 99, block(ONE)), None);
    let bound = client.hears(&second, there, ready(second.number, 0));
    assert_eq!(bound, Answer::Ready { session: there, credits: 32 });
    // What the bound session says echoes its own packets.
    assert_eq!(belongs(&client, 99, block(ONE)), Some((THERE, None)));
    assert_eq!(belongs(&client, 99, None), Some((THERE, None)));
    assert_eq!(belongs(&client, first.number, block(TWO)), Some((HERE, Some(2))));
}
