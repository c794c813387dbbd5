//! Links: the workers that this endpoint's pairs are, or may be, bound to.

use petasos_netio::{Origin, Route};
use petasos_proto::LinkPath;

use crate::quota::HolderId;

/// The number of a link that is there.
pub(crate) type LinkId = u32;

/// A worker of a group, by the attachment that has told of it.
pub(crate) struct Link {
    pub(crate) route: Route,
    pub(crate) origin: Origin,
    pub(crate) path: LinkPath,
    /// Whom responses are counted for that the worker has announced.
    pub(crate) holder: HolderId,
    /// Pairs that are bound by it.
    pub(crate) pairs: u32,
    /// Whether a roster has it.
    pub(crate) is_listed: bool,
}

/// All links of an endpoint. One that is not listed is there until its last pair has ended: what
/// that pair sends needs the route.
#[derive(Default)]
pub(crate) struct Links {
    links: Vec<Option<Link>>,
    free: Vec<LinkId>,
}

impl Links {
    pub(super) fn add(&mut self, link: Link) -> LinkId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.links.push(None);
            (self.links.len() - 1) as LinkId
        });
        self.links[id as usize] = Some(link);
        id
    }

    pub(crate) fn get(&self, id: LinkId) -> &Link {
        self.links[id as usize].as_ref().expect("what names a link keeps it")
    }

    pub(crate) fn get_mut(&mut self, id: LinkId) -> &mut Link {
        self.links[id as usize].as_mut().expect("what names a link keeps it")
    }

    /// A link, unless it is gone.
    pub(super) fn find_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(id as usize)?.as_mut()
    }

    /// Takes a link out that nobody names any more.
    pub(super) fn take_unused(&mut self, id: LinkId) -> Option<Link> {
        let place = &mut self.links[id as usize];
        let is_unused = |link: &mut Link| link.pairs == 0 && !link.is_listed;
        let link = place.take_if(is_unused)?;
        self.free.push(id);
        Some(link)
    }
}
