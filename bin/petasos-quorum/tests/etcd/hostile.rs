//! Clients that ask for too much.

use petasos::{Code, Msg, block_on};
use petasos_quorum_etcd::api::{
    DeleteRangeRequest, KVClient, PutRequest, RequestOp, TxnRequest, WatchClient, WatchRequest,
};

use crate::servers::Member;

fn member(test: u8) -> Member {
    Member::start(test, 1, &["--in-memory", "--init", "--keeps", "etcd", "--room", "8MiB"])
}

/// A stream's watches take what they may, others are refused, and one that ends makes room.
#[test]
fn watches_of_a_stream_are_bounded() {
    let member = member(11);
    let refused = block_on(async {
        let client = WatchClient::new(member.channel());
        let (mut asks, mut answers) = client.watch().await.unwrap();
        let create = || {
            let mut ask: Msg<WatchRequest> = WatchRequest::new();
            ask.edit().create_request_mut().set_key(&[b'k'; 32 << 10][..]);
            ask
        };
        let mut made = 0;
        let refused = loop {
            asks.send(create()).await.unwrap();
            let answer = answers.message().await.unwrap().unwrap();
            assert!(answer.created());
            if answer.canceled() {
                break answer.cancel_reason().to_owned();
            }
            made += 1;
        };
        assert!((400..520).contains(&made), "{made}");
        let mut ask = WatchRequest::new();
        ask.edit().cancel_request_mut().set_watch_id(7);
        asks.send(ask).await.unwrap();
        assert!(answers.message().await.unwrap().unwrap().canceled());
        asks.send(create()).await.unwrap();
        assert!(!answers.message().await.unwrap().unwrap().canceled());
        refused
    });
    assert_eq!(refused, "etcdserver: request is too large");
}

fn put(key: &[u8], value: &[u8]) -> Msg<PutRequest> {
    let mut put = PutRequest::new();
    put.edit().set_key(key).set_value(value);
    put
}

/// What is too long or too much is refused with etcd's codes; a full store refuses what adds, takes
/// what deletes, and goes on.
#[test]
fn what_is_too_much_is_refused_and_costs_others_nothing() {
    let member = member(12);
    let keys = KVClient::new(member.channel());
    let code = |put: Msg<PutRequest>| block_on(keys.put(put)).map_err(|status| status.code()).err();
    assert_eq!(code(put(&[b'k'; (32 << 10) + 1], b"")), Some(Code::InvalidArgument));
    assert_eq!(code(put(b"k", &vec![0; 2 << 20])), Some(Code::InvalidArgument));
    let mut many = TxnRequest::new();
    for number in 0..129_u32 {
        let mut part = RequestOp::new();
        part.edit().set_request_put(&put(&number.to_le_bytes(), b""));
        many.edit().success_mut().push(&part);
    }
    let refused = block_on(keys.txn(many)).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let mut deep: Msg<TxnRequest> = TxnRequest::new();
    for _ in 0..9 {
        let mut part = RequestOp::new();
        part.edit().set_request_txn(&deep);
        deep = TxnRequest::new();
        deep.edit().success_mut().push(&part);
    }
    assert_eq!(block_on(keys.txn(deep)).unwrap_err().code(), Code::InvalidArgument);
    let mut taken = 0_u32;
    let full = loop {
        match code(put(&taken.to_le_bytes(), &vec![1; 1 << 20])) {
            None => taken += 1,
            refused => break refused,
        }
    };
    assert_eq!((full, taken), (Some(Code::ResourceExhausted), 7));
    let mut delete = DeleteRangeRequest::new();
    delete.edit().set_key(&0_u32.to_le_bytes()[..]);
    assert_eq!(block_on(keys.delete_range(delete)).unwrap().deleted(), 1);
    assert_eq!(code(put(b"small", b"x")), None);
}
