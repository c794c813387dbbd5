//! Which messages contain themselves.
//!
//! Tarjan's algorithm for strongly connected components, with an explicit stack: references can
//! nest as deeply as a hostile schema has messages.

use crate::ids::MessageId;
use crate::model::Message;

/// The sets of messages that contain each other, messages before those that contain them; a message
/// that is in no cycle is alone in its set.
pub(crate) fn components(messages: &[Message]) -> Vec<Vec<MessageId>> {
    let mut search = Search {
        messages,
        order: vec![UNSEEN; messages.len()],
        low: vec![0; messages.len()],
        open: Vec::new(),
        is_open: vec![false; messages.len()],
        seen: 0,
        found: Vec::new(),
    };
    for root in 0..messages.len() {
        if search.order[root] == UNSEEN {
            search.run(root);
        }
    }
    search.found
}

/// Whether a component is a cycle, rather than a message that does not contain itself.
pub(crate) fn is_cycle(messages: &[Message], component: &[MessageId]) -> bool {
    match component {
        [alone] => messages[alone.index()].fields.iter().any(|f| f.kind.message() == Some(*alone)),
        _ => true,
    }
}

const UNSEEN: usize = usize::MAX;

struct Search<'a> {
    messages: &'a [Message],
    /// When each message was first seen.
    order: Vec<usize>,
    /// The earliest open message that each is known to reach.
    low: Vec<usize>,
    /// Messages whose component is not complete.
    open: Vec<usize>,
    is_open: Vec<bool>,
    seen: usize,
    found: Vec<Vec<MessageId>>,
}

impl Search<'_> {
    fn run(&mut self, root: usize) {
        self.enter(root);
        // Each entry: a message, and its next field to look at.
        let mut path = vec![(root, 0)];
        while let Some((message, field)) = path.last_mut() {
            let (at, looked_at) = (*message, *field);
            *field += 1;
            match self.messages[at].fields.get(looked_at) {
                Some(field) => {
                    let Some(to) = field.kind.message().map(MessageId::index) else { continue };
                    if self.order[to] == UNSEEN {
                        self.enter(to);
                        path.push((to, 0));
                    } else if self.is_open[to] {
                        self.low[at] = self.low[at].min(self.order[to]);
                    }
                }
                None => {
                    path.pop();
                    if let Some((parent, _)) = path.last() {
                        self.low[*parent] = self.low[*parent].min(self.low[at]);
                    }
                    self.leave(at);
                }
            }
        }
    }

    fn enter(&mut self, at: usize) {
        self.order[at] = self.seen;
        self.low[at] = self.seen;
        self.seen += 1;
        self.open.push(at);
        self.is_open[at] = true;
    }

    fn leave(&mut self, at: usize) {
        if self.low[at] != self.order[at] {
            return;
        }
        let start = self.open.iter().rposition(|open| *open == at).expect("it was entered");
        let mut component: Vec<_> = self.open.drain(start..).map(MessageId::new).collect();
        component.sort_unstable();
        component.iter().for_each(|id| self.is_open[id.index()] = false);
        self.found.push(component);
    }
}
