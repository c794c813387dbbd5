//! Remembers which application serves a method of a target, and whether its method is the same as
//! the caller's, or where else the call goes.
//!
//! The hub finds that once for each target and method. It searches again when a binding or a served
//! name has changed, or when an application has gone.
//!
//! Invariant: since a route was found, no service was bound, no name was served, and no application
//! has gone. So the route is what a new search would find.

use petasos_engine::{Application as Number, MethodId};

use crate::host::{HubId, Server};
use crate::schemas::MethodAt;

/// As many routes of an application are known at most.
const PLACES: usize = 256;

/// Who serves a method of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// An application of the same hub.
    Here {
        server: Number,
        /// The server's.
        method: MethodAt,
    },
    /// An application of another hub of the host. That hub compares the methods.
    There(Server),
    /// Nobody of this host. This hub has the transport.
    Beyond(HubId),
}

/// What is called, as its caller says it: a target's number, and a method.
type Wanted = (u32, MethodId);

#[derive(Clone, Copy, Debug)]
struct Found {
    wanted: Wanted,
    /// The count of changes when it was found.
    changes: u64,
    route: Route,
}

/// The routes of one application's calls. Of those that share a place, the last one is known.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Empty until the first call, then [`PLACES`].
    places: Vec<Option<Found>>,
}

impl Routes {
    /// The route that was found since the last change.
    #[inline]
    pub(crate) fn get(&self, wanted: Wanted, changes: u64) -> Option<Route> {
        let found = self.places.get(place_of(wanted))?.as_ref()?;
        (found.wanted == wanted && found.changes == changes).then_some(found.route)
    }

    /// A route was found.
    #[cold]
    pub(crate) fn insert(&mut self, wanted: Wanted, changes: u64, route: Route) {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        self.places[place_of(wanted)] = Some(Found { wanted, changes, route });
    }
}

fn place_of((target, method): Wanted) -> usize {
    // Methods of a service have numbers one after the other.
    target.wrapping_mul(37).wrapping_add(method.0) as usize % PLACES
}
