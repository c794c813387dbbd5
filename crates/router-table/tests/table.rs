//! Who fits a table, and what clients are answered (RT31, R2, R3).
#![allow(clippy::unwrap_used, reason = "a failed test is told by its panic")]

use petasos_call::{
    BindRequest, BindResponse, Code, CodecSet, Hash, Load, RequestHead, ResponseHead, Services,
    Status, read_tail, split,
};
use petasos_router_table::{
    Answers, Change, JudgeError, Judged, NAME_BYTES_MAX, NamesError, SERVICES_MAX, Table,
    TableService,
};
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

/// A table, and tickets for its members.
struct World {
    table: Table,
    tickets: u64,
}

impl World {
    fn new() -> World {
        World { table: table(), tickets: 0 }
    }

    /// Judges a worker with the schemas of a file. Gives its ticket.
    fn join(&mut self, file: &str) -> Result<(u64, Judged), String> {
        self.join_with(file, 1).map_err(|error| error.to_string())
    }

    fn member(&mut self, file: &str) -> u64 {
        let (ticket, judged) = self.join(file).unwrap();
        assert_eq!(judged, Judged::Member, "{file}");
        ticket
    }

    /// The same, with a native layout.
    fn join_with(&mut self, file: &str, layout: u16) -> Result<(u64, Judged), JudgeError> {
        self.tickets += 1;
        let judged = self.table.judge(self.tickets, &answers_with(file, layout))?;
        Ok((self.tickets, judged))
    }

    /// The native layouts with which clients bind both services.
    fn layouts(&self) -> [u16; 2] {
        [CART, STOCK].map(|it| bound(&self.table, it, Hash::default()).unwrap().0.layout)
    }

    /// A worker that waits for the version that comes because of it.
    fn waits(&mut self, file: &str) -> Change {
        let (_, judged) = self.join(file).unwrap();
        assert_eq!(judged, Judged::Waits, "{file}");
        self.table.take_change().unwrap()
    }

    /// A member with which messages are not native any more.
    fn foreign(&mut self, file: &str) -> u64 {
        let change = self.waits(file);
        assert_eq!(self.table.commit(change.version).len(), 1);
        self.tickets
    }

    /// The first number and the methods of a service, as clients bind it.
    fn bound(&self, service: &str) -> (u16, u16) {
        let (answer, _) = bound(&self.table, service, Hash::default()).unwrap();
        (answer.first, answer.methods)
    }

    /// A member of a new table, with what workers are told.
    fn first(file: &str) -> (World, u64, Change) {
        let mut world = World::new();
        let ticket = world.member(file);
        let change = world.table.take_change().unwrap();
        assert!(change.is_first);
        assert_eq!(world.table.take_change(), None, "it is said once");
        (world, ticket, change)
    }
}

/// The first numbers of services, as workers are told.
fn numbers(services: &[TableService]) -> Vec<(&str, u16)> {
    services.iter().map(|it| (it.name.as_str(), it.first)).collect()
}

fn answers(file: &str) -> Answers {
    answers_with(file, 1)
}

/// Of a worker with this native layout.
fn answers_with(file: &str, layout: u16) -> Answers {
    let schema = schema(file);
    let answer = |service| answer_that(&schema, service, |it| it.layout = layout);
    answers_of(&[CART, STOCK].map(answer))
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
    let refused = |table: &Table, service| bound(table, service, Hash::default()).unwrap_err();
    let table = table();
    assert_eq!(refused(&table, CART), Status::unavailable("no worker has joined yet"));
    assert_eq!(refused(&table, "shop.Other").code(), Code::Unimplemented);
    let (World { table, .. }, _, change) = World::first("first.proto");
    assert_eq!(numbers(&change.services), [(CART, 1), (STOCK, 3)]);
    assert_eq!(change.services[0].methods, ["Add", "Clear"]);
    assert_eq!(change.services[1].methods, ["Count"]);
    let first = schema("first.proto");
    let hash = first.service_by_name(STOCK).unwrap().1.hash().to_bytes();
    let (answer, compact) = bound(&table, STOCK, Hash::default()).unwrap();
    assert_eq!((answer.first, answer.methods, answer.hash), (3, 1, hash));
    assert_eq!((answer.layout, answer.codecs), (1, CodecSet::from_bits(7)), "its own");
    assert_eq!(compact, first.encode());
    let (_, compact) = bound(&table, STOCK, hash).unwrap();
    assert!(compact.is_empty(), "the client has it");
    assert_eq!(refused(&table, "shop.Other").code(), Code::Unimplemented);
}

#[test]
fn rt31_workers_that_the_groups_callers_understand_fit_and_change_no_number() {
    let (mut world, _, _) = World::first("first.proto");
    world.member("first.proto");
    assert_eq!(world.table.take_change(), None);
    let before = bound(&world.table, CART, Hash::default()).unwrap();
    let change = world.waits("newer.proto");
    assert_eq!(world.table.commit(change.version).len(), 1);
    let after = bound(&world.table, CART, Hash::default()).unwrap();
    assert_eq!(after, (BindResponse { layout: 0, ..before.0 }, before.1));
    world.member("newer.proto");
    assert_eq!(world.table.take_change(), None, "the first ones are there");
}

#[test]
fn rt31_messages_are_native_while_all_have_the_very_same_schema_and_layout() {
    let (mut world, _, _) = World::first("first.proto");
    assert_eq!(world.layouts(), [1, 1]);
    // `Stock` is the same in both.
    let change = world.waits("newer.proto");
    assert!(change.is_urgent);
    assert_eq!(world.layouts(), [1, 1], "clients know nothing yet");
    let newer = world.tickets;
    assert_eq!(world.table.commit(change.version).into_iter().collect::<Vec<_>>(), [newer]);
    assert_eq!(world.layouts(), [0, 1]);
    // With that one gone `Cart` may be native again, when there is time.
    world.table.leave(newer);
    let change = world.table.take_change().expect("all are the same");
    assert!(!change.is_urgent);
    assert_eq!(world.table.take_change(), None, "it is said once");
    world.table.commit(change.version);
    assert_eq!(world.layouts(), [1, 1]);
    // Another layout, or none, is as bad as another schema.
    for layout in [2, 0] {
        let (other, judged) = world.join_with("first.proto", layout).unwrap();
        assert_eq!(judged, Judged::Waits, "{layout}");
        let change = world.table.take_change().expect("it has another layout");
        world.table.commit(change.version);
        assert_eq!(world.layouts(), [0, 0], "{layout}");
        world.table.leave(other);
        let change = world.table.take_change().expect("all are the same");
        world.table.commit(change.version);
    }
}

#[test]
fn rt31_messages_are_compressed_by_what_all_workers_take() {
    let (mut world, _, _) = World::first("first.proto");
    let codecs = |world: &World| bound(&world.table, CART, Hash::default()).unwrap().0.codecs;
    assert_eq!(codecs(&world), CodecSet::from_bits(7));
    let schema = schema("first.proto");
    let with = |bits: u32| {
        let answer = |it: &mut BindResponse<'_>| it.codecs = CodecSet::from_bits(bits);
        answers_of(&[CART, STOCK].map(|service| answer_that(&schema, service, answer)))
    };
    // More is no harm, and less is waited for.
    assert_eq!(world.table.judge(2, &with(15)), Ok(Judged::Member));
    assert_eq!(world.table.take_change(), None);
    assert_eq!(world.table.judge(3, &with(3)), Ok(Judged::Waits));
    let change = world.table.take_change().expect("it takes one codec only");
    world.table.commit(change.version);
    assert_eq!(codecs(&world), CodecSet::from_bits(3));
    assert_eq!(world.layouts(), [1, 1], "native all the same");
    world.table.leave(3);
    let change = world.table.take_change().expect("the others take more");
    assert!(!change.is_urgent);
    world.table.commit(change.version);
    assert_eq!(codecs(&world), CodecSet::from_bits(7));
}

#[test]
fn rt31_nobody_waits_for_messages_to_become_native() {
    let (mut world, _, _) = World::first("first.proto");
    let change = world.waits("newer.proto");
    let newer = world.tickets;
    world.table.commit(change.version);
    world.table.leave(newer);
    let native = world.table.take_change().expect("all are the same");
    // It comes back before that has begun: at once, and the version does not come.
    world.member("newer.proto");
    let back = world.table.take_change().expect("the version was taken back");
    assert_eq!(back.version, change.version, "the current one");
    assert!(world.table.commit(native.version).is_empty());
    assert_eq!(world.layouts(), [0, 1]);
}

#[test]
fn rt31_who_does_not_fit_the_version_that_comes_joins_after_it() {
    let (mut world, first, _) = World::first("first.proto");
    let change = world.waits("newer.proto");
    world.table.commit(change.version);
    world.table.leave(first);
    let change = world.table.take_change().expect("nobody has the first schema");
    // It understands what comes, but not as native messages.
    let refused = world.join_with("newer.proto", 2).unwrap_err();
    assert_eq!(refused, JudgeError::Changing);
    world.table.commit(change.version);
    assert_eq!(world.layouts(), [1, 1]);
    let (_, judged) = world.join_with("newer.proto", 2).unwrap();
    assert_eq!(judged, Judged::Waits);
}

#[test]
fn rt31_workers_that_do_not_fit_are_refused_with_the_first_service_and_field() {
    let (mut world, _, _) = World::first("first.proto");
    let cases = [
        ("changed.proto", vec!["`shop.Cart`", "shop.AddRequest.count (field 2)", "string there"]),
        ("changed_stock.proto", vec!["`shop.Stock`", "shop.CountReply.count (field 1)"]),
        ("fewer.proto", vec!["`shop.Cart`", "lacks method `Clear`"]),
    ];
    for (file, parts) in cases {
        let why = world.join(file).unwrap_err();
        assert!(parts.iter().all(|part| why.contains(part)), "{file}: {why}");
    }
    world.foreign("newer.proto");
    assert_eq!(world.table.take_change(), None);
    // What is newer where it has come first is wanted of all.
    let (mut world, _, _) = World::first("newer.proto");
    let why = world.join("first.proto").unwrap_err();
    assert!(why.contains("lacks method `Buy`"), "{why}");
}

#[test]
fn rt31_the_table_follows_once_nobody_has_its_schema_and_clients_once_workers_know() {
    let (mut world, first, _) = World::first("first.proto");
    let newer = world.foreign("newer.proto");
    assert_eq!(world.table.take_change(), None);
    world.table.leave(first);
    let change = world.table.take_change().expect("nobody has the first schema");
    assert!(!change.is_first);
    assert_eq!(numbers(&change.services), [(CART, 4), (STOCK, 3)], "only what has changed");
    assert_eq!(change.services[0].methods, ["Add", "Buy", "Clear"]);
    assert_eq!(world.table.take_change(), None, "it is said once");
    // Clients bind as before until workers know.
    assert_eq!(world.bound(CART), (1, 2));
    assert!(world.table.commit(change.version - 1).is_empty());
    assert_eq!(world.bound(CART), (1, 2));
    // Who comes meanwhile has to fit both.
    let why = world.join("first.proto").unwrap_err();
    assert!(why.contains("lacks method `Buy`"), "{why}");
    world.member("newer.proto");
    assert!(world.table.commit(change.version).is_empty());
    assert_eq!((world.bound(CART), world.bound(STOCK)), ((4, 3), (3, 1)));
    assert_eq!(world.table.take_change(), None);
    // With the last one gone it stays.
    world.table.leave(newer);
    world.table.leave(newer + 2);
    assert_eq!(world.table.take_change(), None);
    assert_eq!(world.bound(CART), (4, 3));
}

#[test]
fn rt31_the_table_keeps_to_what_callers_of_all_workers_understand() {
    let (mut world, first, _) = World::first("fewer.proto");
    // Both have more than the table: one has `Clear`, the other `Buy` as well.
    world.foreign("newer.proto");
    world.member("first.proto");
    world.table.leave(first);
    let change = world.table.take_change().expect("nobody has the first schema");
    assert_eq!(change.services[0].methods, ["Add", "Clear"], "what both have");
}

#[test]
fn rt31_a_worker_that_does_not_fit_an_empty_group_changes_the_table_and_waits_for_that() {
    let (mut world, first, before) = World::first("first.proto");
    assert!(world.join("changed.proto").is_err(), "somebody is there");
    world.table.leave(first);
    let (changed, judged) = world.join("changed.proto").unwrap();
    assert_eq!(judged, Judged::Waits);
    let change = world.table.take_change().expect("it has other schemas");
    assert_eq!(numbers(&change.services), [(CART, 4), (STOCK, 3)]);
    // Others with it wait as well; who has the schemas before is refused.
    let (same, judged) = world.join("changed.proto").unwrap();
    assert_eq!(judged, Judged::Waits);
    assert!(world.join("first.proto").is_err());
    assert_eq!(world.bound(CART), (1, 2));
    let accepted: Vec<_> = world.table.commit(change.version).into_iter().collect();
    assert_eq!(accepted, [changed, same]);
    assert_eq!(world.bound(CART), (4, 2));
    // And back again: to the numbers that these schemas have had.
    world.table.leave(changed);
    world.table.leave(same);
    let (_, judged) = world.join("first.proto").unwrap();
    assert_eq!(judged, Judged::Waits);
    let back = world.table.take_change().unwrap();
    assert_eq!((&back.services, back.version), (&before.services, 3));
    assert_eq!(world.table.commit(back.version).len(), 1);
    assert_eq!(world.bound(CART), (1, 2));
}

#[test]
fn rt31_one_that_waits_and_leaves_is_not_accepted() {
    let (mut world, first, _) = World::first("first.proto");
    world.table.leave(first);
    let (changed, _) = world.join("changed.proto").unwrap();
    let change = world.table.take_change().unwrap();
    world.table.leave(changed);
    assert!(world.table.commit(change.version).is_empty());
    assert_eq!(world.bound(CART), (4, 2), "it was the last that was there");
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
        let why =
            table.judge(at as u64, &answers_of(&[cart.clone(), answer])).unwrap_err().to_string();
        assert!(why.contains("`shop.Stock`"), "{at}: {why}");
        assert_eq!(bound(&table, CART, Hash::default()).unwrap_err().code(), Code::Unavailable);
    }
    assert!(table.judge(10, &answers_of(&[cart])).is_err(), "one service is missing");
    assert_eq!(table.take_change(), None);
    table.judge(11, &answers("first.proto")).unwrap();
    // What was refused as the first one does not fit now either.
    assert!(table.judge(12, &answers("changed.proto")).is_err());
}

#[test]
fn rt31_a_lie_about_an_equal_hash_is_found() {
    let (mut world, _, _) = World::first("first.proto");
    let hash = schema("first.proto").service_by_name(CART).unwrap().1.hash().to_bytes();
    let stock = answer_that(&schema("first.proto"), STOCK, |_| {});
    let lie = answer_that(&schema("changed.proto"), CART, |it| it.hash = hash);
    let why = world.table.judge(2, &answers_of(&[lie, stock.clone()])).unwrap_err().to_string();
    assert!(why.contains("not the one that it names"), "{why}");
    let lie = answer_that(&schema("first.proto"), CART, |it| it.methods = 1);
    assert!(world.table.judge(3, &answers_of(&[lie, stock])).is_err());
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
