//! Requests to the service: for bindings, for targets, and for names to serve under (D13).

use std::collections::{HashMap, VecDeque};

use petasos_attach::ask::{Answer, Ask};
use petasos_attach::reason::Text;
use petasos_endpoint::SessionId;

use crate::link::{Link, LinkError, NoRoom};
use crate::services::{Binding, Bindings, KnownServices};

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A binding of the service with this index, whose schema the service may know.
    Recall(usize),
    /// The same, with the schema's bytes.
    Bind(usize),
    /// The target of a session.
    Target(SessionId),
    /// To serve at an address.
    Serve,
}

/// Requests to the service, and those that wait for room in the send heap.
#[derive(Default)]
pub(crate) struct Asks {
    waiting: VecDeque<(Asked, String)>,
    /// By the number of the request: also where the schema lies.
    under_way: HashMap<u32, (Asked, Option<u64>)>,
}

impl Asks {
    /// Whether something was not asked for yet.
    pub(crate) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether something can be asked for now.
    pub(crate) fn are_ready(&self) -> bool {
        self.waiting.front().is_some_and(|(asked, _)| !self.is_early(*asked))
    }

    /// D13: nothing is served under a name before it is bound, and whether what is recalled is
    /// bound is not known before the answer.
    fn is_early(&self, asked: Asked) -> bool {
        let is_recalled = |(asked, _): &(Asked, _)| matches!(asked, Asked::Recall(_));
        asked == Asked::Serve && self.under_way.values().any(is_recalled)
    }

    /// Whether an answer is awaited.
    pub(crate) fn are_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Asks for something, for which `name` is needed.
    pub(crate) fn add(&mut self, asked: Asked, name: &str) {
        self.waiting.push_back((asked, name.to_owned()));
    }

    /// Asks for a binding, unless that was done.
    pub(crate) fn bind(
        &mut self,
        services: &KnownServices,
        bindings: &mut Bindings,
        service: usize,
    ) {
        if *bindings.of(service) == Binding::Unasked {
            bindings.set(service, Binding::Asked);
            let name = services.list[service].name.clone();
            self.waiting.push_back((Asked::Recall(service), name));
        }
    }

    /// The service does not know the schema of a service: its bytes are next.
    pub(crate) fn send_schema(&mut self, services: &KnownServices, service: usize) {
        let name = services.list[service].name.clone();
        self.waiting.push_front((Asked::Bind(service), name));
    }

    /// Whether something is asked for and not answered.
    pub(crate) fn is_asked(&self, asked: Asked) -> bool {
        let mut all = self.waiting.iter().map(|(asked, _)| asked);
        all.any(|other| *other == asked)
            || self.under_way.values().any(|(other, _)| *other == asked)
    }

    /// Asks for what waits, as far as there is room.
    pub(crate) fn send(
        &mut self,
        link: &mut Link,
        services: &KnownServices,
        bindings: &mut Bindings,
    ) -> Result<(), LinkError> {
        while let Some((asked, name)) = self.waiting.front() {
            if self.is_early(*asked) {
                return Ok(());
            }
            let (asked, name) = (*asked, Text::new(name));
            let (ask, place) = match asked {
                Asked::Recall(service) if link.may_recall() => {
                    let known = &services.list[service];
                    let (digest, is_served) = (known.digest(), known.served.is_some());
                    (Ask::Recall { digest, is_served, service: name }, None)
                }
                Asked::Recall(service) | Asked::Bind(service) => {
                    let schema = services.list[service].schema.compact();
                    let offset = match link.allocate(schema.len()) {
                        Ok(offset) => offset,
                        Err(NoRoom::Now) => return Ok(()),
                        Err(NoRoom::Ever) => {
                            bindings.bind(service, Err("the schema is too long".to_owned()));
                            self.waiting.pop_front();
                            continue;
                        }
                    };
                    link.write(offset, schema);
                    let bytes = schema.len() as u32;
                    let is_served = services.list[service].served.is_some();
                    (Ask::Bind { offset, bytes, is_served, service: name }, Some(offset))
                }
                Asked::Target(_) => (Ask::Target(name), None),
                Asked::Serve => (Ask::Serve(name), None),
            };
            self.under_way.insert(link.ask(&ask)?, (asked, place));
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// What an answer answers. The schema's place is free again.
    pub(crate) fn answered(&mut self, link: &mut Link, answer: &Answer) -> Option<Asked> {
        let (asked, place) = self.under_way.remove(&answer.request)?;
        place.into_iter().for_each(|place| link.free(place));
        Some(asked)
    }
}
