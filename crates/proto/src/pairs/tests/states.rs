//! RT11 and RT14: every packet in every state.

use super::*;

/// Every packet of a worker that is none of the bound session.
fn all(echo: u64) -> Vec<To> {
    let codes = (1..=11).map(|code| RejectCode::from_value(code).unwrap());
    let rejects = codes.map(|code| reject(echo, code));
    let ack = To { kind: Kind::Ack, value: 1, echo: echo as u32, payload: b"" };
    let reset = To { kind: Kind::Reset, ..ack };
    let answers = [ready(echo, 0), ready(echo, 1), response(echo, 6), response(echo, 5000)];
    answers.into_iter().chain(rejects).chain([ack, reset]).collect()
}

fn has_block(to: &To) -> bool {
    matches!(to.kind, Kind::Ready | Kind::Response | Kind::Reject)
}

#[test]
fn rt11_a_whole_request_completes_or_is_bound() {
    for session in [None, Some(ONE)] {
        let mut client = Client::new();
        let first = client.ask(false);
        let answer = response(first.number, 6);
        let completed = match session {
            Some(session) => client.hears(&first, session, answer),
            None => client.hears_only(&first, ONE.member, answer),
        };
        assert_eq!(completed, Answer::Complete { context: first.pair.request, done: session });
        assert!(client.is_over(first.pair) && client.pairs.asked(HERE) == 0);
    }
    let mut client = Client::new();
    let first = client.ask(false);
    let long = response(first.number, 5000);
    assert_eq!(client.hears(&first, ONE, long), Answer::Response { session: ONE });
    assert_eq!(client.pairs.bound(first.pair), Some(ONE));
    let first = client.ask(false);
    let running = ready(first.number, 1);
    assert_eq!(client.hears(&first, TWO, running), Answer::Ready { session: TWO, credits: 32 });
    assert_eq!(client.pairs.end(first.pair), Some(first.pair.request));
    assert_eq!(client.pairs.end(first.pair), None);
}

#[test]
fn rt11_a_claim_is_bound_by_ready_alone() {
    let mut client = Client::new();
    let first = client.ask(true);
    for to in [response(first.number, 6), response(first.number, 5000), ready(first.number, 1)] {
        assert_eq!(client.hears(&first, ONE, to), Answer::None, "{to:?}");
    }
    assert_eq!(client.pairs.stats().void, 3);
    let claimed = ready(first.number, 0);
    assert_eq!(client.hears(&first, ONE, claimed), Answer::Ready { session: ONE, credits: 32 });
    assert_eq!(client.pairs.asked(HERE), 0);
}

#[test]
fn rt11_what_cannot_come_is_void() {
    let mut client = Client::new();
    let first = client.ask(false);
    let ack = To { kind: Kind::Ack, ..ready(first.number, 1) };
    assert_eq!(client.takes(&first, ONE.member, None, ack), Answer::None);
    let long = response(first.number, 5000);
    assert_eq!(client.hears_only(&first, ONE.member, long), Answer::None, "nothing to pull from");
    assert_eq!(client.hears_only(&first, ONE.member, ready(first.number, 1)), Answer::None);
    let with_payload = To { payload: b"x", ..ready(first.number, 1) };
    assert_eq!(client.hears(&first, ONE, with_payload), Answer::None);
    assert_eq!(client.hears(&first, ONE, ready(first.number, 0)), Answer::None);
    assert_eq!((client.pairs.stats().void, client.is_over(first.pair)), (5, false));
}

/// RT10, RT11: once a pair is bound, its call hears one session, also of the same worker.
#[test]
fn rt10_a_bound_pair_hears_one_session() {
    for is_claim in [true, false] {
        let mut client = Client::new();
        let first = client.ask(is_claim);
        let bound = ready(first.number, u32::from(!is_claim));
        client.hears(&first, ONE, bound);
        for to in all(first.number) {
            let (own, other, again) = match has_block(&to) {
                true => (
                    client.hears(&first, ONE, to),
                    client.hears(&first, TWO, to),
                    client.hears(&first, ONE_AGAIN, to),
                ),
                false => (
                    client.takes(&first, ONE.member, None, to),
                    client.takes(&first, TWO.member, None, to),
                    client.takes(&first, ROUTER, None, to),
                ),
            };
            let expected = if to.kind == Kind::Ready { Answer::None } else { Answer::Session };
            assert_eq!(own, expected, "{to:?}");
            let cancel = |session| match to.kind {
                Kind::Ready | Kind::Response => {
                    Answer::Cancel { session, request: first.pair.request }
                }
                _ => Answer::None,
            };
            assert_eq!((other, again), (cancel(TWO), cancel(ONE_AGAIN)), "{to:?}");
            if has_block(&to) {
                assert_eq!(client.hears_only(&first, ROUTER, to), Answer::None);
                assert_eq!(client.hears_only(&first, ONE.member, to), Answer::None);
            }
            assert_eq!(client.pairs.bound(first.pair), Some(ONE));
        }
    }
}

#[test]
fn rt11_who_answers_a_pair_that_has_ended_is_told() {
    let mut client = Client::new();
    let first = client.ask(true);
    assert_eq!(client.pairs.end(first.pair), Some(first.pair.request));
    for to in all(first.number) {
        let block = has_block(&to);
        let heard = match block {
            true => client.hears(&first, TWO, to),
            false => client.takes(&first, TWO.member, None, to),
        };
        let expected = match to.kind {
            Kind::Ready | Kind::Response => {
                Answer::Cancel { session: TWO, request: first.pair.request }
            }
            _ => Answer::None,
        };
        assert_eq!(heard, expected, "{to:?}");
        if block {
            assert_eq!(client.hears_only(&first, TWO.member, to), Answer::None);
        }
    }
    // Until the entry is used again, which takes a while.
    for _ in 0..64 {
        let next = client.ask(true);
        assert_ne!(next.pair.index, first.pair.index);
        client.pairs.end(next.pair);
    }
    let again = client.ask(true);
    assert_eq!(again.pair.index, first.pair.index, "in the order in which they became free");
    assert_eq!(client.hears(&first, TWO, ready(first.number, 0)), Answer::None);
    assert!(!client.is_over(again.pair));
}

#[test]
fn rt10_what_is_not_a_pairs_is_dropped() {
    let mut client = Client::new();
    let first = client.ask(true);
    let claimed = ready(first.number, 0);
    let wrong_tag = First { tag: first.tag ^ 1, ..first };
    let wrong_request = PairId { request: first.pair.request + 1, ..first.pair };
    let wrong_request = First { pair: wrong_request, ..first };
    let nobody = First { pair: PairId { index: first.pair.index + 1, ..first.pair }, ..first };
    let a_session = PairId { index: first.pair.index & !super::super::PAIR_BIT, ..first.pair };
    let a_session = First { pair: a_session, ..first };
    for wrong in [wrong_tag, wrong_request, nobody, a_session] {
        assert_eq!(client.hears(&wrong, ONE, claimed), Answer::None);
    }
    assert_eq!(client.pairs.stats().stale, 4);
    // Another member's number in the block, an echo of nothing, another router's worker.
    let block = WorkerBlock { session: 1, tag: 1, worker: 2 };
    assert_eq!(client.takes(&first, ONE.member, Some(block), claimed), Answer::None);
    assert_eq!(client.hears(&first, ONE, ready(first.number + 1, 0)), Answer::None);
    let elsewhere = Member { attachment: THERE, worker: 1 };
    let elsewhere = WorkerSession { member: elsewhere, ..ONE };
    assert_eq!(client.hears(&first, elsewhere, claimed), Answer::None);
    assert_eq!((client.pairs.stats().from_elsewhere, client.is_over(first.pair)), (3, false));
}

#[test]
fn rt14_a_certain_code_ends_a_pair_when_all_its_sendings_are_rejected() {
    for code in 1..=11 {
        let code = RejectCode::from_value(code).unwrap();
        let is_certain = !matches!(code, RejectCode::HandlerFailed | RejectCode::Declined);
        for is_claim in [true, false] {
            let mut client = Client::new();
            let first = client.ask(is_claim);
            client.waits(21);
            let second = client.sent().pop().expect("it is repeated");
            let ended = Answer::Rejected {
                context: first.pair.request,
                code: Some(code),
                has_not_run: is_certain || is_claim,
            };
            let heard = client.hears_only(&first, ROUTER, reject(second.number, code));
            if !is_certain {
                assert_eq!(heard, ended, "{code:?}");
                continue;
            }
            assert_eq!(heard, Answer::None, "the other may run");
            let again = client.hears_only(&first, ROUTER, reject(second.number, code));
            assert_eq!(again, Answer::None, "a copy says nothing of the other");
            let heard = client.hears_only(&first, ONE.member, reject(first.number, code));
            assert_eq!(heard, ended, "{code:?}");
            assert!(client.is_over(first.pair) && client.pairs.asked(HERE) == 0);
        }
    }
    let mut client = Client::new();
    let first = client.ask(false);
    let unknown = To { value: 77, ..reject(first.number, RejectCode::Again) };
    let heard = client.hears_only(&first, ONE.member, unknown);
    let context = first.pair.request;
    assert_eq!(heard, Answer::Rejected { context, code: None, has_not_run: false });
}
