//! Groups with one table of methods: who joins, what is told, and what clients are answered (RT31).

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use petasos_call::{
    BindRequest, BindResponse, Code, CodecSet, Hash, Load, RequestHead, ResponseHead, Services,
    Status, read_tail, split,
};
use petasos_control::Deframer;
use petasos_endpoint::{
    CallError, CallSettings, Clock, Completion, Context, Endpoint, EndpointConfig, Node, Payload,
    RefuseCode, ServedGroupId, SessionError,
};
use petasos_router_control::{GroupSettings, RouterService, StartError};
use petasos_schema::{Options, Schema};

use crate::operate::snapshot;
use crate::world::{
    BIND, Binds, LOCALHOST, Member, PATIENCE, Router, State, Wire, client, node, socket, until,
    worker, worker_on, worker_that_binds,
};

const CART: &str = "shop.Cart";
const STOCK: &str = "shop.Stock";

/// The kinds of the control protocol's messages.
const ATTACHED: u8 = 16;
const JOINED: u8 = 18;
const TABLE: u8 = 19;

fn router_of(services: &[&str]) -> Router {
    let services = services.iter().map(|name| (*name).to_owned()).collect();
    Router::start(GroupSettings { services, ..GroupSettings::default() })
}

fn router() -> Router {
    router_of(&[CART, STOCK])
}

fn schema(file: &str) -> Schema {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../router-table/tests/protos");
    petasos_schema::compile([file], [folder], &Options::default()).expect("it is right").schema
}

/// The services of a schema as a server has them.
fn services_of(schema: &Schema) -> Services {
    let mut services = Services::new(1, CodecSet::from_bits(7));
    for (_, service) in schema.services() {
        let methods: Vec<_> = service.methods().iter().map(|method| method.name()).collect();
        let hash = service.hash().to_bytes();
        services.add(service.full_name(), hash, schema.encode(), &methods).expect("they are few");
    }
    services
}

/// Answers as an ordinary server does.
fn serves(schema: &Schema) -> Binds {
    let services = services_of(schema);
    Box::new(move |request| {
        let head = RequestHead::parse(*request.first_chunk().expect("a head")).expect("a head");
        let (body, _) = split(request, head.has_tail).expect("it is whole");
        let request = BindRequest::parse(&request[body]).expect("it is a bind");
        Some(match services.answer(&request) {
            Ok(answer) => message_of(&answer),
            Err(status) => head_of(status.code()).to_vec(),
        })
    })
}

fn message_of(answer: &BindResponse<'_>) -> Vec<u8> {
    let mut message = head_of(Code::Ok).to_vec();
    answer.write(&mut message);
    message
}

fn head_of(code: Code) -> [u8; 8] {
    let (encoding, codec) = Default::default();
    ResponseHead { encoding, codec, has_tail: false, code, load: Load::default() }.to_bytes()
}

fn worker_of(router: SocketAddr, file: &str) -> Member<ServedGroupId> {
    worker_that_binds(&[router], serves(&schema(file)), |_| {})
}

/// Waits until the worker at this place is refused.
fn refused(workers: &mut [Member<ServedGroupId>], at: usize) -> (SessionError, String) {
    let mut failure = None;
    until(&mut [], workers, |_, workers| {
        failure = workers[at].failure();
        failure.is_some()
    });
    assert!(!workers[at].is_member());
    failure.expect("it was refused")
}

fn joined(workers: &mut [Member<ServedGroupId>], at: usize) {
    until(&mut [], workers, |_, workers| workers[at].is_member());
}

/// A client that only binds, in an ordinary session.
struct Binder {
    endpoint: Endpoint<Vec<Result<Vec<u8>, CallError>>>,
    router: SocketAddr,
    _node: Node,
}

impl Binder {
    fn new(router: SocketAddr) -> Binder {
        let node = node(false);
        let config = EndpointConfig::default();
        let mut endpoint = Endpoint::new(config, socket(), Clock::system(), Vec::new());
        endpoint.attach(&node).expect("the node runs");
        Binder { endpoint, router, _node: node }
    }

    fn bind(&mut self, service: &str) -> Result<(BindResponse<'static>, Vec<u8>), Status> {
        let session = self.endpoint.connect_and_wait(self.router, PATIENCE).expect("it listens");
        let mut message = RequestHead::default().to_bytes().to_vec();
        BindRequest { layout: 1, hash: Hash::default(), name: service }.write(&mut message);
        let cx = self.endpoint.context();
        let mut request = cx.alloc(message.len()).expect("the pool has room");
        request.copy_from_slice(&message);
        cx.enqueue_with(session, BIND, request, keep, 0, &CallSettings::default())
            .expect("the session is ready");
        self.endpoint.run_for(PATIENCE, |answers, _| !answers.is_empty());
        let answer = self.endpoint.state_mut().pop().expect("it is answered").expect("it is");
        self.endpoint.close_session(session);
        read(&answer)
    }
}

fn keep(
    answers: &mut Vec<Result<Vec<u8>, CallError>>,
    cx: &mut Context<Vec<Result<Vec<u8>, CallError>>>,
    done: Completion<'_>,
) {
    answers.push(done.result.map(|payload| {
        let bytes = payload.to_vec();
        if let Payload::Buffer(buf) = payload {
            cx.free(buf);
        }
        bytes
    }));
    cx.free(done.request);
}

fn read(message: &[u8]) -> Result<(BindResponse<'static>, Vec<u8>), Status> {
    let head = ResponseHead::parse(*message.first_chunk().expect("a head")).expect("a head");
    let (body, tail) = split(message, head.has_tail).expect("it is whole");
    if head.code != Code::Ok {
        let parts = read_tail(tail, 1 << 14).expect("it is whole");
        return Err(parts.into_status(head.code).0);
    }
    let answer = BindResponse::parse(&message[body]).expect("it is an answer");
    Ok((BindResponse { schema: &[], ..answer }, answer.schema.to_vec()))
}

#[test]
fn rt31_clients_bind_from_the_table_of_the_first_worker() {
    let router = router();
    let mut binder = Binder::new(router.address);
    let status = binder.bind(CART).expect_err("there is no worker");
    assert_eq!(status, Status::unavailable("no worker has joined yet"));
    assert_eq!(binder.bind("a.B").expect_err("nobody serves it").code(), Code::Unimplemented);
    let mut workers = vec![worker_of(router.address, "first.proto")];
    joined(&mut workers, 0);
    let first = schema("first.proto");
    for (service, number, methods) in [(CART, 1, 2), (STOCK, 3, 1)] {
        let (answer, compact) = binder.bind(service).expect("it is in the table");
        let (_, there) = first.service_by_name(service).expect("it is there");
        assert_eq!((answer.first, answer.methods), (number, methods), "{service}");
        assert_eq!(answer.hash, there.hash().to_bytes());
        assert_eq!((answer.layout, answer.codecs), (1, CodecSet::from_bits(7)));
        assert_eq!(compact, first.encode());
    }
    assert_eq!(binder.bind("a.B").expect_err("nobody serves it").code(), Code::Unimplemented);
    // A newer one joins, and the table stays as long as the first one is there.
    workers.push(worker_of(router.address, "newer.proto"));
    joined(&mut workers, 1);
    let bound = binder.bind(CART).map(|(answer, _)| (answer.methods, answer.layout));
    assert_eq!(bound, Ok((2, 0)), "messages are native with one of the two only");
    assert_eq!(router.service.refused(), (0, 0));
}

/// Waits until a service is bound like this: its first number, and how many methods it has.
fn until_bound(binder: &mut Binder, workers: &mut [Member<ServedGroupId>], is: (u16, u16)) {
    let mut bound = (0, 0);
    until(&mut [], workers, |_, _| {
        let (answer, _) = binder.bind(CART).expect("it is in the table");
        bound = (answer.first, answer.methods);
        bound == is
    });
}

#[test]
fn rt31_the_table_follows_its_workers_and_calls_go_on_while_clients_bind_anew() {
    let mut settings = GroupSettings { services: vec![CART.into()], ..GroupSettings::default() };
    settings.epochs.overlap = Duration::from_secs(1);
    let router = Router::start(settings);
    let wire = Wire::to(router.address);
    let mut binder = Binder::new(router.address);
    let mut workers = vec![worker_of(router.address, "first.proto")];
    joined(&mut workers, 0);
    let mut clients = vec![client(&[wire.address]), client(&[router.address])];
    until(&mut clients, &mut workers, |clients, _| clients.iter_mut().all(|it| it.peers() == 1));
    let before: Vec<_> = clients.iter_mut().map(Member::session).collect();
    workers.push(worker_of(router.address, "newer.proto"));
    joined(&mut workers, 1);
    until(&mut clients, &mut workers, |clients, _| clients.iter_mut().all(|it| it.peers() == 2));
    drop(workers.remove(0));
    // Calls by the numbers before go on all the while.
    let mut made = [0; 2];
    until(&mut clients, &mut workers, |clients, _| {
        for (client, made) in clients.iter_mut().zip(&mut made) {
            // Until the client has heard of the epoch, nobody may take its requests.
            let state = client.endpoint.state_mut();
            *made -= state.errors.extract_if(.., |it| *it == CallError::Again).count() as u64;
            assert_eq!(state.errors, []);
            if *made - state.answered < 4 {
                *made += u64::from(client.call(64, true));
            }
        }
        clients.iter_mut().zip(&before).all(|(client, before)| client.session() != *before)
    });
    until(&mut clients, &mut workers, |clients, _| {
        let ended = |it: &State| it.answered + it.errors.len() as u64;
        clients.iter().zip(made).all(|(it, made)| ended(it.endpoint.state()) == made)
    });
    until_bound(&mut binder, &mut workers, (3, 3));
    // Each has attached once more when messages became protobuf, and once when the table changed.
    let attached = || messages(&wire.said(), &[ATTACHED]).len();
    until(&mut clients, &mut workers, |_, _| attached() == 3);
    let operator = router.service.operator();
    until(&mut clients, &mut workers, |_, _| snapshot(&operator).clients == 2);
    // Also those that come now can call.
    clients.push(client(&[router.address]));
    until(&mut clients, &mut workers, |clients, _| clients[2].call(64, false));
    until(&mut clients, &mut workers, |clients, _| clients[2].endpoint.state().answered == 1);
}

#[test]
fn rt31_an_empty_group_takes_a_worker_of_other_schemas_and_the_former_ones_again() {
    let mut settings = GroupSettings { services: vec![CART.into()], ..GroupSettings::default() };
    settings.epochs.overlap = Duration::from_millis(100);
    let router = Router::start(settings);
    let mut binder = Binder::new(router.address);
    // `AddRequest.count` is a number, and then a text.
    for (file, bound) in
        [("first.proto", (1, 2)), ("changed.proto", (3, 2)), ("first.proto", (1, 2))]
    {
        let mut workers = vec![worker_of(router.address, file)];
        joined(&mut workers, 0);
        until_bound(&mut binder, &mut workers, bound);
        let mut clients = vec![client(&[router.address])];
        until(&mut clients, &mut workers, |clients, _| clients[0].peers() == 1);
        until(&mut clients, &mut workers, |clients, _| clients[0].call(64, false));
        until(&mut clients, &mut workers, |clients, _| {
            assert_eq!(clients[0].endpoint.state().errors, []);
            clients[0].endpoint.state().answered == 1
        });
    }
}

#[test]
fn rt31_calls_reach_workers_that_were_judged() {
    let router = router();
    let mut workers =
        vec![worker_of(router.address, "first.proto"), worker_of(router.address, "first.proto")];
    let mut clients = vec![client(&[router.address])];
    until(&mut clients, &mut workers, |clients, _| clients[0].peers() == 2);
    let mut made = 0;
    until(&mut clients, &mut workers, |clients, _| {
        let failed = clients[0].endpoint.state().errors.len();
        if made - failed < 100 {
            made += usize::from(clients[0].call(64, true));
        }
        clients[0].endpoint.state().answered == 100
    });
}

#[test]
fn rt31_an_incompatible_worker_is_refused_with_the_first_incompatible_field() {
    let router = router();
    let mut workers = vec![worker_of(router.address, "first.proto")];
    joined(&mut workers, 0);
    let cases = [
        ("changed.proto", ["`shop.Cart`", "shop.AddRequest.count (field 2)"]),
        ("changed_stock.proto", ["`shop.Stock`", "shop.CountReply.count (field 1)"]),
        ("fewer.proto", ["`shop.Cart`", "lacks method `Clear`"]),
    ];
    for (file, parts) in cases {
        workers.push(worker_of(router.address, file));
        let (error, detail) = refused(&mut workers, 1);
        assert_eq!(error, SessionError::RefusedBy(RefuseCode::IncompatibleParameters));
        assert!(parts.iter().all(|part| detail.contains(part)), "{file}: {detail}");
        workers.pop();
    }
    assert!(workers[0].is_member());
    assert!(router.service.refused().1 >= 3);
}

#[test]
fn rt31_a_worker_without_a_dial_port_is_told_to_have_one() {
    let router = router();
    let mut workers = vec![worker(&[router.address])];
    let (error, detail) = refused(&mut workers, 0);
    assert_eq!(error, SessionError::RefusedBy(RefuseCode::IncompatibleParameters));
    assert!(detail.contains("dial port"), "{detail}");
}

#[test]
fn rt31_workers_that_do_not_answer_are_refused_in_time_while_others_join() {
    let router = router();
    // It is a process that accepts connections and says nothing.
    let mute = TcpListener::bind((LOCALHOST, 0)).expect("loopback has ports");
    let mute_port = mute.local_addr().expect("it is bound").port();
    // One that was free a moment ago may be another test's by now.
    let closed_port = 1;
    let never = || -> Binds { Box::new(|_| None) };
    let with_port =
        |port| worker_that_binds(&[router.address], never(), |it| it.dial_port = Some(port));
    let clock = Clock::system();
    let begun = clock.now();
    let mut workers = vec![
        worker_that_binds(&[router.address], never(), |_| {}),
        with_port(mute_port),
        with_port(closed_port),
    ];
    let (_, detail) = refused(&mut workers, 2);
    assert!(detail.contains("cannot dial"), "{detail}");
    workers.push(worker_of(router.address, "first.proto"));
    joined(&mut workers, 3);
    if clock.now() - begun < Duration::from_secs(2) {
        assert!(workers[..2].iter_mut().all(|it| it.failure().is_none()), "they have time left");
    }
    for at in 0..2 {
        let (_, detail) = refused(&mut workers, at);
        // The node notices a silent peer as late as this, too.
        let is_late = detail.contains("has not answered") || detail.contains("is silent");
        assert!(is_late, "{at}: {detail}");
    }
    assert!(clock.now() - begun >= Duration::from_secs(2), "they had two seconds");
    assert!(workers[3].is_member());
}

#[test]
fn rt31_a_worker_that_is_gone_while_it_is_judged_is_forgotten() {
    let router = router();
    let is_asked = |workers: &mut [Member<ServedGroupId>]| workers[0].endpoint.state().bound == 1;
    let never: Binds = Box::new(|_| None);
    let mut workers = vec![worker_that_binds(&[router.address], never, |_| {})];
    until(&mut [], &mut workers, |_, workers| is_asked(workers));
    drop(workers);
    // Of this one only the connection breaks. It is accepted after that, for nobody, and joins by
    // the next one.
    let wire = Wire::to(router.address);
    let mut workers = vec![worker_of(wire.address, "first.proto")];
    until(&mut [], &mut workers, |_, workers| is_asked(workers));
    wire.cut();
    std::thread::sleep(Duration::from_millis(1500));
    joined(&mut workers, 0);
    // Nobody hears the verdicts on those that are gone.
    let clock = Clock::system();
    let end = clock.now() + Duration::from_millis(2500);
    until(&mut [], &mut workers, |_, _| clock.now() > end);
    assert!(workers[0].is_member() && router.service.is_running());
    workers.push(worker_of(router.address, "first.proto"));
    joined(&mut workers, 1);
}

#[test]
fn rt31_hostile_answers_refuse_their_worker_and_nothing_else() {
    let router = router();
    let forged = |schema_bytes: usize| -> Binds {
        Box::new(move |_| {
            // Of the right version, and no schema.
            let mut schema = vec![0xff; schema_bytes];
            schema[0] = petasos_schema::FORMAT_VERSION;
            Some(message_of(&BindResponse {
                layout: 0,
                codecs: CodecSet::IDENTITY,
                hash: [1; 16],
                first: 1,
                methods: 2,
                schema: &schema,
            }))
        })
    };
    let cases: Vec<(Binds, &str)> = vec![
        (Box::new(|_| Some(vec![])), "malformed"),
        (Box::new(|_| Some(vec![0xff; 8000])), "malformed"),
        (Box::new(|_| Some(head_of(Code::Unimplemented).to_vec())), "unimplemented"),
        (forged(3 << 20), "cannot be read"),
        (forged(4 << 20), "cannot be read"),
        // No message of the session is so long.
        (forged(5 << 20), "has not answered"),
    ];
    for (binds, wanted) in cases {
        let mut workers = vec![worker_that_binds(&[router.address], binds, |_| {})];
        let (error, detail) = refused(&mut workers, 0);
        assert_eq!(error, SessionError::RefusedBy(RefuseCode::IncompatibleParameters));
        let detail = detail.to_lowercase();
        assert!(detail.contains(wanted), "{wanted}: {detail}");
    }
    let mut workers = vec![worker_of(router.address, "first.proto")];
    joined(&mut workers, 0);
    assert!(router.service.is_running());
}

/// The messages of some kinds that a router has said, in their order.
fn messages(said: &[u8], kinds: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut deframer, mut rest, mut found) = (Deframer::new(), said, Vec::new());
    while let Ok(Some(frame)) = deframer.next_frame(&mut rest) {
        if kinds.contains(&frame.kind) {
            found.push((frame.kind, frame.body.to_vec()));
        }
    }
    found
}

#[test]
fn rt31_a_worker_is_told_the_whole_table_before_it_has_joined_and_once() {
    let router = router_of(&["wide.Wide"]);
    let wire = Wire::to(router.address);
    let wide = wide_schema();
    let mut workers = vec![worker_that_binds(&[wire.address], serves(&wide), |_| {})];
    joined(&mut workers, 0);
    // Another endpoint of the same process joins by the same connection.
    let node = workers[0].node.clone();
    workers.push(worker_on(node, serves(&wide), &[wire.address], |_| {}));
    joined(&mut workers, 1);
    let said = messages(&wire.said(), &[JOINED, TABLE]);
    let kinds: Vec<u8> = said.iter().map(|(kind, _)| *kind).collect();
    let tables = kinds.iter().take_while(|kind| **kind == TABLE).count();
    assert!(tables > 1, "it takes several messages");
    assert_eq!(kinds[tables..], [JOINED, JOINED]);
    let mut names = Vec::new();
    for (at, (_, body)) in said[..tables].iter().enumerate() {
        let first = usize::from(u16::from_le_bytes([body[2], body[3]]));
        assert_eq!(first, 1 + names.len());
        assert_eq!(body[4], u8::from(at + 1 == tables), "only the last says so");
        let (service, mut rest) = body[6..].split_at(usize::from(body[5]));
        assert_eq!(service, b"wide.Wide");
        while let Some((bytes, behind)) = rest.split_first() {
            let (name, behind) = behind.split_at(usize::from(*bytes));
            names.push(String::from_utf8(name.to_vec()).expect("it is text"));
            rest = behind;
        }
    }
    let (_, service) = wide.service_by_name("wide.Wide").expect("it is there");
    assert!(service.methods().iter().map(|method| method.name()).eq(names));
}

/// A service whose methods' names do not fit into one message.
fn wide_schema() -> Schema {
    let mut text = "syntax = \"proto3\";\npackage wide;\nmessage M {}\nservice Wide {\n".to_owned();
    for at in 0..4000 {
        text += &format!("  rpc Method{at:0>200}(M) returns (M);\n");
    }
    text += "}\n";
    let folder = std::env::temp_dir().join(format!("petasos-tables-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room");
    std::fs::write(folder.join("wide.proto"), text).expect("there is room");
    let compiled = petasos_schema::compile(["wide.proto"], [&folder], &Options::default());
    std::fs::remove_dir_all(&folder).expect("it was made");
    compiled.expect("it is right").schema
}

#[test]
fn a_group_with_services_needs_a_socket_for_binds_and_right_names() {
    let settings = |services: &[&str]| GroupSettings {
        services: services.iter().map(|name| (*name).to_owned()).collect(),
        ..GroupSettings::default()
    };
    let started = RouterService::start(&node(true), socket(), settings(&[CART]));
    assert!(matches!(started.expect_err("it is wrong"), StartError::NoBindSocket));
    for wrong in [&[][..], &[""], &[CART, CART]] {
        let (node, settings) = (node(true), settings(wrong));
        let started = RouterService::start_with_table(&node, socket(), socket(), settings);
        assert!(matches!(started.expect_err("it is wrong"), StartError::Names(_)), "{wrong:?}");
    }
}
