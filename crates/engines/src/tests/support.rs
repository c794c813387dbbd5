//! A datapath with one engine, virtual time, and calls.

use std::sync::Arc;

use petasos_engine::*;
use serde_json::Value as Json;

/// The methods that the engines know.
pub const METHODS: [(u32, &str); 3] =
    [(3, "pkg.Service/Method"), (4, "pkg.Service/Other"), (5, "other.Service/Method")];

/// An engine of a policy in a datapath.
pub struct Rig {
    pub datapath: Datapath,
    pub schema: TestSchema,
    pub policy: Arc<dyn Policy>,
    kind: &'static dyn PolicyKind,
    now: Time,
}

impl Rig {
    pub fn new(kind: &'static dyn PolicyKind, configuration: &str) -> Rig {
        let policy = make(kind, configuration, None).expect("the configuration is right");
        Rig::with(kind, policy)
    }

    /// With an engine of a policy that there is.
    pub fn with(kind: &'static dyn PolicyKind, policy: Arc<dyn Policy>) -> Rig {
        Rig::try_with(kind, policy, TestSchema::default()).expect("the policy is placed")
    }

    pub fn try_with(
        kind: &'static dyn PolicyKind,
        policy: Arc<dyn Policy>,
        mut schema: TestSchema,
    ) -> Result<Rig, ChangeError> {
        let mut datapath = Datapath::new(100_000, 7);
        for (number, name) in METHODS {
            datapath.add_method(MethodId(number), name, &mut schema).expect("nobody reads fields");
        }
        datapath.attach(0, policy.clone(), &mut schema)?;
        Ok(Rig { datapath, schema, policy, kind, now: Time::from_nanos(1_000_000_000) })
    }

    /// Lets the engine work so many microseconds after the last time.
    pub fn run_after(&mut self, us: u64) -> Turn {
        self.now = self.now.plus_nanos(us * 1000);
        self.run()
    }

    pub fn run(&mut self) -> Turn {
        loop {
            let turn = self.datapath.run(self.now);
            while self.datapath.pop_void().is_some() {}
            let Counts { entered, left, void, queued, held } = self.datapath.counts();
            assert_eq!(entered, left + void + queued + held, "{:?}", self.datapath.counts());
            if !turn.has_more {
                return turn;
            }
        }
    }

    pub fn now(&self) -> Time {
        self.now
    }

    /// Begins a call and puts its request in, without running the engine.
    pub fn begin(&mut self, call: Call) -> CallId {
        let requests = call.requests;
        let id = self.datapath.begin(call).expect("there is room");
        let request = Submission::new(ItemKind::Request, requests, 100);
        self.datapath.submit(id, request, self.now).expect("the call is there");
        id
    }

    /// Begins a unary call, lets the engine work and says whether the request has passed.
    pub fn passes(&mut self, call: Call) -> bool {
        let id = self.begin(call);
        self.run();
        self.out().iter().any(|item| item.call == id)
    }

    /// Puts an item of an outbound call in.
    pub fn submit(&mut self, id: CallId, kind: ItemKind, bytes: u32) {
        let direction = match kind {
            ItemKind::Head | ItemKind::End => Direction::Inbound,
            _ => Direction::Outbound,
        };
        let item = Submission::new(kind, direction, bytes);
        self.datapath.submit(id, item, self.now).expect("the call is there");
    }

    /// Ends a call at the callee, lets the engine work and takes the end.
    pub fn end(&mut self, id: CallId, status: Option<Status>) {
        let end = Submission { status, ..Submission::new(ItemKind::End, Direction::Inbound, 50) };
        self.datapath.submit(id, end, self.now).expect("the call is there");
        self.run();
        self.back();
    }

    /// A call from its beginning to its end after so many microseconds. Whether it has passed.
    pub fn whole(&mut self, call: Call, us: u64, status: Option<Status>) -> bool {
        let id = self.begin(call);
        self.run();
        if !self.out().iter().any(|item| item.call == id) {
            self.back();
            return false;
        }
        self.run_after(us);
        self.end(id, status);
        true
    }

    /// What has left outbound.
    pub fn out(&mut self) -> Vec<Finished> {
        std::iter::from_fn(|| self.datapath.take(Direction::Outbound)).collect()
    }

    /// What has left inbound.
    pub fn back(&mut self) -> Vec<Finished> {
        std::iter::from_fn(|| self.datapath.take(Direction::Inbound)).collect()
    }

    /// The codes and messages of calls that the engine has ended.
    pub fn refused(&mut self) -> Vec<(Code, String)> {
        let ends = self.back().into_iter().filter(|item| item.is_from_engine && item.has_not_run);
        let status = |item: Finished| item.status.expect("it failed");
        ends.map(status).map(|status| (status.code(), status.message().to_owned())).collect()
    }

    /// Puts a policy of the same kind, which goes on from the state, in the place of the one there.
    pub fn upgrade(&mut self, configuration: &str) {
        let state = self.policy.state();
        let policy = make(self.kind, configuration, Some(&state)).expect("it goes on");
        self.policy = policy.clone();
        self.datapath.replace(0, policy, &mut self.schema).expect("it is replaced");
        self.run();
    }

    /// Takes the engine out; what it held is taken, in order.
    pub fn detach(&mut self) -> (Option<State>, Vec<Finished>) {
        let state = self.datapath.detach(0, &mut self.schema).expect("it is there");
        while self.datapath.pop_void().is_some() {}
        let counts = self.datapath.counts();
        assert_eq!(counts.held, 0);
        (state, self.out())
    }

    pub fn report(&self) -> Json {
        self.policy.report()
    }
}

/// A policy that goes on from a state.
pub fn make(
    kind: &'static dyn PolicyKind,
    configuration: &str,
    state: Option<&State>,
) -> Result<Arc<dyn Policy>, PolicyError> {
    kind.make(configuration, state).map(Arc::from)
}

/// A unary call of the application.
pub fn call() -> Call {
    Call {
        application: Application(1),
        peer: Peer(2),
        method: MethodId(3),
        requests: Direction::Outbound,
        is_stream: false,
        is_idempotent: false,
        is_sealed: false,
        attempt: 0,
        began: Time::ZERO,
        deadline: Time::NEVER,
        identity: None,
    }
}

pub fn to_peer(peer: u32) -> Call {
    Call { peer: Peer(peer), ..call() }
}

pub fn of_method(method: u32) -> Call {
    Call { method: MethodId(method), ..call() }
}

pub fn stream() -> Call {
    Call { is_stream: true, ..call() }
}

/// The policy goes on from a state that version 1 has written, and refuses those of a later
/// version, of another kind, and what is no state.
pub fn goes_on_from(
    kind: &'static dyn PolicyKind,
    configuration: &str,
    version_1: &str,
) -> Arc<dyn Policy> {
    let name = kind.version().kind;
    let state = |kind: &str, version, json: &str| State {
        kind: kind.to_owned(),
        version,
        json: json.to_owned(),
    };
    let later = state(name, kind.version().version + 1, version_1);
    for wrong in [later.clone(), state("another", 1, version_1), state(name, 1, "[7")] {
        let refused = make(kind, configuration, Some(&wrong)).err();
        assert!(matches!(refused, Some(PolicyError::State { .. })), "{wrong:?}: {refused:?}");
    }
    let policy = make(kind, configuration, Some(&state(name, 1, version_1))).expect("it goes on");
    let refused = policy.engine(Some(&later)).err();
    assert!(matches!(refused, Some(PolicyError::State { .. })), "an engine: {refused:?}");
    policy
}

/// Configurations that are refused, each with a part of the message.
pub fn are_wrong(kind: &'static dyn PolicyKind, cases: &[(&str, &str)]) {
    for (configuration, expected) in cases {
        let refused = make(kind, configuration, None).err();
        let Some(PolicyError::Configuration { why, .. }) = &refused else {
            panic!("{configuration} was not refused: {refused:?}");
        };
        assert!(why.contains(expected), "{configuration}: {why}");
    }
}

/// A schema in which each method has these fields.
#[derive(Clone, Default)]
pub struct TestSchema {
    pub fields: Vec<(&'static str, FieldKind)>,
    /// Paths of fields that engines want now.
    pub wanted: Vec<(MethodId, String, FieldId)>,
    /// The application's name.
    pub application: &'static str,
}

impl Schema for TestSchema {
    fn field(
        &mut self,
        method: MethodId,
        path: &str,
        id: FieldId,
        _: bool,
    ) -> Result<FieldKind, FieldError> {
        let known = self.fields.iter().find(|(known, _)| *known == path);
        let unknown = || FieldError::Unknown { method: "m".to_owned(), path: path.to_owned() };
        let (_, kind) = known.ok_or_else(unknown)?;
        self.wanted.push((method, path.to_owned(), id));
        Ok(*kind)
    }

    fn forget(&mut self, id: FieldId) {
        self.wanted.retain(|(.., wanted)| *wanted != id);
    }

    fn application(&self) -> &str {
        self.application
    }

    /// The name that is known is `shadow`.
    fn peer(&mut self, name: &str) -> Peer {
        if name == "shadow" { Peer(9) } else { Peer::NONE }
    }
}
