//! Who fits a table, and what clients are answered (RT31, R2, R3).
#![allow(clippy::unwrap_used, reason = "a failed test is told by its panic")]

use petasos_call::{
    BindRequest, BindResponse, Code, CodecSet, Hash, Load, RequestHead, ResponseHead, Services,
    Status, read_tail, split,
};
use petasos_router_table::{Answers, NAME_BYTES_MAX, NamesError, SERVICES_MAX, Table};
use petasos_schema::{Options, Schema};

const CART: &str = "shop.Cart";
const STOCK: &str = "shop.Stock";

fn schema(name: &str) -> Schema {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protos");
    petasos_schema::compile([name], [folder], &Options::default()).unwrap().schema
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn table() -> Table {
    Table::new(&names(&[CART, STOCK])).unwrap()
}

/// A message of an answer, with a change.
fn answer_that(
    schema: &Schema,
    service: &str,
    change: impl FnOnce(&mut BindResponse<'_>),
) -> Vec<u8> {
    let (_, at) = schema.service_by_name(service).unwrap();
    let methods: Vec<_> = at.methods().iter().map(|method| method.name()).collect();
    let mut services = Services::new(1, CodecSet::from_bits(7));
    services.add(service, at.hash().to_bytes(), schema.encode(), &methods).unwrap();
    let request = BindRequest { layout: 0, hash: Hash::default(), name: service };
    let mut answer = services.answer(&request).unwrap();
    change(&mut answer);
    let (encoding, codec) = Default::default();
    let (code, load) = (Code::Ok, Load::default());
    let head = ResponseHead { encoding, codec, has_tail: false, code, load };
    let mut message = head.to_bytes().to_vec();
    answer.write(&mut message);
    message
}

fn answers_of(messages: &[Vec<u8>]) -> Answers {
    let mut answers = Answers::new();
    messages.iter().for_each(|message| answers.push(message).unwrap());
    answers
}

fn answers(file: &str) -> Answers {
    let schema = schema(file);
    answers_of(&[CART, STOCK].map(|service| answer_that(&schema, service, |_| {})))
}

/// What a client is answered.
fn bound(
    table: &Table,
    service: &str,
    hash: Hash,
) -> Result<(BindResponse<'static>, Vec<u8>), Status> {
    let mut message = RequestHead::default().to_bytes().to_vec();
    BindRequest { layout: 1, hash, name: service }.write(&mut message);
    read(&table.respond(&message))
}

fn read(message: &[u8]) -> Result<(BindResponse<'static>, Vec<u8>), Status> {
    let head = ResponseHead::parse(*message.first_chunk().unwrap()).unwrap();
    let (body, tail) = split(message, head.has_tail).unwrap();
    if head.code != Code::Ok {
        return Err(read_tail(tail, 1 << 14).unwrap().into_status(head.code).0);
    }
    let answer = BindResponse::parse(&message[body]).unwrap();
    Ok((BindResponse { schema: &[], ..answer }, answer.schema.to_vec()))
}

#[test]
fn rt31_the_first_worker_defines_the_table_and_clients_bind_from_it() {
    let mut table = table();
    let refused = |table: &Table, service| bound(table, service, Hash::default()).unwrap_err();
    assert_eq!(refused(&table, CART), Status::unavailable("no worker has joined yet"));
    assert_eq!(refused(&table, "shop.Other").code(), Code::Unimplemented);
    let services = table.judge(&answers("first.proto")).unwrap();
    let told: Vec<_> = services.iter().map(|it| (it.name.as_str(), it.first)).collect();
    assert_eq!(told, [(CART, 1), (STOCK, 3)]);
    assert_eq!(services[0].methods, ["Add", "Clear"]);
    assert_eq!(services[1].methods, ["Count"]);
    let first = schema("first.proto");
    let hash = first.service_by_name(STOCK).unwrap().1.hash().to_bytes();
    let (answer, compact) = bound(&table, STOCK, Hash::default()).unwrap();
    assert_eq!((answer.first, answer.methods, answer.hash), (3, 1, hash));
    assert_eq!((answer.layout, answer.codecs), (0, CodecSet::IDENTITY), "whichever worker");
    assert_eq!(compact, first.encode());
    let (_, compact) = bound(&table, STOCK, hash).unwrap();
    assert!(compact.is_empty(), "the client has it");
    assert_eq!(refused(&table, "shop.Other").code(), Code::Unimplemented);
}

#[test]
fn rt31_workers_that_the_groups_callers_understand_fit_and_change_nothing() {
    let mut table = table();
    let services = table.judge(&answers("first.proto")).unwrap();
    let before = bound(&table, CART, Hash::default()).unwrap();
    for file in ["first.proto", "newer.proto"] {
        assert_eq!(table.judge(&answers(file)).unwrap(), services, "{file}");
        assert_eq!(bound(&table, CART, Hash::default()).unwrap(), before, "{file}");
    }
}

#[test]
fn rt31_workers_that_do_not_fit_are_refused_with_the_first_service_and_field() {
    let mut table = table();
    let services = table.judge(&answers("first.proto")).unwrap();
    let cases = [
        ("changed.proto", vec!["`shop.Cart`", "shop.AddRequest.count (field 2)", "string there"]),
        ("changed_stock.proto", vec!["`shop.Stock`", "shop.CountReply.count (field 1)"]),
        ("fewer.proto", vec!["`shop.Cart`", "lacks method `Clear`"]),
    ];
    for (file, parts) in cases {
        let why = table.judge(&answers(file)).unwrap_err();
        assert!(parts.iter().all(|part| why.contains(part)), "{file}: {why}");
    }
    assert_eq!(table.judge(&answers("newer.proto")).unwrap(), services);
    // What is newer where it has come first is wanted of all.
    let mut table = self::table();
    table.judge(&answers("newer.proto")).unwrap();
    let why = table.judge(&answers("first.proto")).unwrap_err();
    assert!(why.contains("lacks method `Buy`"), "{why}");
}

#[test]
fn rt31_a_first_worker_that_is_refused_defines_nothing() {
    let mut table = table();
    let schema = schema("changed.proto");
    let cart = answer_that(&schema, CART, |_| {});
    let unknown = {
        let head = ResponseHead {
            encoding: Default::default(),
            codec: Default::default(),
            has_tail: false,
            code: Code::Unimplemented,
            load: Load::default(),
        };
        head.to_bytes().to_vec()
    };
    let wrong_hash = answer_that(&schema, STOCK, |it| it.hash[0] ^= 1);
    let wrong_count = answer_that(&schema, STOCK, |it| it.methods += 1);
    let no_schema = answer_that(&schema, STOCK, |it| it.schema = &[]);
    let others = answer_that(&schema, STOCK, |it| it.schema = &it.schema[..it.schema.len() - 1]);
    let cases = [unknown, wrong_hash, wrong_count, no_schema, others, vec![], vec![0xff; 3000]];
    for (at, answer) in cases.into_iter().enumerate() {
        let why = table.judge(&answers_of(&[cart.clone(), answer])).unwrap_err();
        assert!(why.contains("`shop.Stock`"), "{at}: {why}");
        assert_eq!(bound(&table, CART, Hash::default()).unwrap_err().code(), Code::Unavailable);
    }
    assert!(table.judge(&answers_of(&[cart])).is_err(), "one service is missing");
    table.judge(&answers("first.proto")).unwrap();
    // What was refused as the first one does not fit now either.
    assert!(table.judge(&answers("changed.proto")).is_err());
}

#[test]
fn rt31_a_lie_about_an_equal_hash_is_found() {
    let mut table = table();
    table.judge(&answers("first.proto")).unwrap();
    let hash = schema("first.proto").service_by_name(CART).unwrap().1.hash().to_bytes();
    let stock = answer_that(&schema("first.proto"), STOCK, |_| {});
    let lie = answer_that(&schema("changed.proto"), CART, |it| it.hash = hash);
    let why = table.judge(&answers_of(&[lie, stock.clone()])).unwrap_err();
    assert!(why.contains("not the one that it names"), "{why}");
    let lie = answer_that(&schema("first.proto"), CART, |it| it.methods = 1);
    assert!(table.judge(&answers_of(&[lie, stock])).is_err());
}

#[test]
fn r13_binds_that_break_rules_are_answered_as_such() {
    let table = table();
    for request in [&[][..], &[0; 7], &[0; 8], &[0xff; 8], &[0; 40]] {
        let status = read(&table.respond(request)).unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{status}");
    }
}

#[test]
fn names_that_cannot_be_meant_are_refused() {
    let wrong = |given: &[&str]| Table::new(&names(given)).unwrap_err();
    assert_eq!(wrong(&[]), NamesError::Count(0));
    assert_eq!(wrong(&[CART, STOCK, CART]), NamesError::Twice(CART.to_owned()));
    for name in ["", "/shop.Cart", "shop.", "shop..Cart", "shop.1", "Läden"] {
        assert_eq!(wrong(&[name]), NamesError::NotAName(name.to_owned()));
    }
    let long = |bytes| "x".repeat(bytes);
    assert!(Table::new(&[long(NAME_BYTES_MAX)]).is_ok());
    let longer = long(NAME_BYTES_MAX + 1);
    assert_eq!(wrong(&[&longer]), NamesError::TooLong(longer));
    let many: Vec<_> = (0..=SERVICES_MAX).map(|at| format!("s{at}")).collect();
    assert_eq!(Table::new(&many).unwrap_err(), NamesError::Count(SERVICES_MAX + 1));
    assert!(Table::new(&many[1..]).is_ok());
}
