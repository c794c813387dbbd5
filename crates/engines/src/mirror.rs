//! Sends copies of a share of requests to another peer, for example to try a new version with real
//! load. Callers do not see the results of the copies. Streams are not copied.

use std::ops::RangeInclusive;
use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{
    Declare, Decompose, Direction, Engine, FieldError, Item, ItemKind, MethodId, Peer, Policy,
    PolicyError, PolicyKind, State, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{self, Kind, within};
use crate::pattern::{ByMethod, Methods};

/// The kind `mirror`.
#[derive(Debug)]
pub struct Mirror;

/// As long are names that are called.
const NAME_BYTES: RangeInclusive<usize> = 1..=255;
const VERSION: Version = Version { kind: "mirror", version: 1 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    /// The name that is called with the copies.
    to: String,
    share: f64,
    #[serde(default)]
    methods: Methods,
}

/// What outlives the policy.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    mirrored: u64,
}

struct Shared {
    configuration: Configuration,
    mirrored: AtomicU64,
}

impl PolicyKind for Mirror {
    fn version(&self) -> Version {
        VERSION
    }

    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &Kind = self;
        let configuration: Configuration = config::parse(kind, configuration)?;
        if !NAME_BYTES.contains(&configuration.to.len()) {
            return Err(kind.wrong("`to` must have from 1 to 255 bytes"));
        }
        within(kind, "share", &configuration.share, config::SHARE)?;
        let contents: Contents = config::contents(state, VERSION)?;
        let mirrored = AtomicU64::new(contents.mirrored);
        Ok(Box::new(Mirrored(Arc::new(Shared { configuration, mirrored }))))
    }
}

struct Mirrored(Arc<Shared>);

impl Policy for Mirrored {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        config::no_state(state, VERSION)?;
        let (peer, is_meant) = (Peer::NONE, ByMethod::default());
        Ok(Box::new(MirrorEngine { shared: Arc::clone(&self.0), peer, is_meant }))
    }

    fn state(&self) -> State {
        State::new(VERSION, &Contents { mirrored: self.0.mirrored.load(Ordering::Relaxed) })
    }

    fn report(&self) -> Value {
        json!({"mirrored": self.0.mirrored.load(Ordering::Relaxed)})
    }
}

struct MirrorEngine {
    shared: Arc<Shared>,
    /// Whom the copies are for.
    peer: Peer,
    is_meant: ByMethod<bool>,
}

impl Engine for MirrorEngine {
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        self.peer = declare.peer(&self.shared.configuration.to);
        self.is_meant.insert(method, self.shared.configuration.methods.matches(name));
        Ok(())
    }

    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                if work.kind(&item) == ItemKind::Request {
                    self.mirror(work, &item);
                }
                work.forward(item);
            }
        }
    }

    fn decompose(self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
        None
    }
}

impl MirrorEngine {
    fn mirror(&self, work: &mut Work<'_>, item: &Item) {
        let (call, peer) = (work.call(item), self.peer);
        let is_meant = self.is_meant.get(call.method).copied().unwrap_or(false);
        // A copy for the peer that has the request would run twice there.
        if is_meant
            && !call.is_stream
            && call.peer != peer
            && work.direction(item) == Direction::Outbound
            && work.rng().chance(self.shared.configuration.share)
        {
            work.mirror(item, peer);
            self.shared.mirrored.fetch_add(1, Ordering::Relaxed);
        }
    }
}
