//! What undoes changes.

use std::sync::Arc;

use petasos::config::Switch;
use petasos_engine::{Application as Number, Left, Place, Policy, Replaced};
use petasos_service::{Digest, HubId, KnownSchema};

use crate::names::Names;
use crate::plugins::Plugins;
use crate::policies::Rule;
use crate::quotas::Quotas;
use crate::transport::{ApplicationTransport, Peers};

/// What undoes one change, if those after it were undone before. Engines are known by their
/// policies, too: a place may have another one if not all could be undone.
pub enum Undo {
    /// The engine of this policy is taken out.
    Detach(Number, Place, Arc<dyn Policy>),
    /// An engine of a policy goes on from what one has left.
    Attach(Number, Place, Arc<dyn Policy>, Left),
    /// An engine of a policy takes the place of that of another, the last.
    Replace(Number, Place, Arc<dyn Policy>, Replaced, Arc<dyn Policy>),
    /// The engine of this policy moves.
    Move(Number, Place, Place, Arc<dyn Policy>),
    /// These are the rules.
    Rules(Vec<Rule>),
    /// These are the quotas.
    Quotas(Box<Quotas>),
    /// These are the names that are listed.
    Names(Names),
    /// These are the plug-ins.
    Plugins(Plugins),
    /// These are other hosts.
    Peers(Box<Peers>),
    /// Applications have these transports of their own.
    Transports(Vec<ApplicationTransport>),
    /// A schema is not loaded.
    Unload(Digest),
    /// A schema is known, and whether it is loaded.
    Load(Arc<KnownSchema>, bool),
    /// A switch of the transport, and whether it was on.
    Switch(Switch, bool),
    /// A runtime is removed.
    Runtime(HubId),
    /// The processor of a runtime.
    Pin(HubId, Option<u32>),
}
