//! Workers that join a group with a table: they are judged by it first (RT31).

use std::net::SocketAddr;

use petasos_base::Time;
use petasos_control::{RefuseCode, Text};
use petasos_endpoint::group_router::{JoinParams, PeerLink, Refusal, RouterAnswers};
use petasos_router_table::{News, RefuseReason, Verdict};

use super::{Group, Pending};

/// Without it nobody can bind at the worker.
const NO_DIAL_PORT: &str = "the group has a table of methods, and asks its workers for their \
                            schemas: listen, and join with the port as the dial port";

impl Group {
    /// Has a worker judged that may join, if the group has a table.
    pub(super) fn judge_first(
        &mut self,
        now: Time,
        (link, id): (PeerLink, u64),
        (params, address): (JoinParams, SocketAddr),
    ) -> Result<(), Refusal> {
        let Some(methods) = &self.methods else {
            return self.place(now, (link, id), (params, address), None);
        };
        let Some(port) = params.dial_port else {
            let detail = Text::new(NO_DIAL_PORT);
            return Err(Refusal { code: RefuseCode::IncompatibleParameters, detail });
        };
        let at = &self.links[&link];
        let dialled = SocketAddr::new(at.peer.ip, port);
        self.next_ticket += 1;
        methods.judge.ask(self.next_ticket, at.holder.clone(), dialled);
        let judged = Pending::Judged { link: Some(link), id, params, address };
        self.pending.insert(self.next_ticket, judged);
        Ok(())
    }

    /// Takes what the thread of the table has found.
    pub(super) fn take_news(&mut self, now: Time, answers: &mut RouterAnswers) {
        let Some(methods) = &self.methods else { return };
        for news in methods.judge.take_news() {
            match news {
                News::Judged(ticket, verdict) => self.on_verdict(now, ticket, verdict, answers),
                News::Changed(change) => {
                    let methods = self.methods.as_mut().expect("it was just there");
                    if methods.versions.change(change) {
                        self.epochs.hasten(now);
                    }
                }
            }
        }
    }

    fn on_verdict(
        &mut self,
        now: Time,
        ticket: u64,
        verdict: Verdict,
        answers: &mut RouterAnswers,
    ) {
        let judged = self.pending.remove(&ticket);
        let Some(Pending::Judged { link, id, params, address }) = judged else {
            unreachable!("each question has one verdict");
        };
        // Nobody waits for it any more.
        let Some(link) = link else { return };
        let result = match verdict {
            Verdict::Accepted(membership) => {
                self.place(now, (link, id), (params, address), Some(membership))
            }
            Verdict::Refused { reason, detail } => Err(refusal(reason, &detail)),
        };
        if let Err(refusal) = result {
            self.answer_refused((link, id), refusal, answers);
        }
    }
}

fn refusal(reason: RefuseReason, detail: &str) -> Refusal {
    let code = match reason {
        RefuseReason::Overloaded => RefuseCode::SessionsFull,
        _ => RefuseCode::IncompatibleParameters,
    };
    Refusal { code, detail: Text::new(detail) }
}
