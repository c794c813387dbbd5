//! Workers that join a group with a table: they are judged by it first (RT31).

use std::net::SocketAddr;

use petasos_base::Time;
use petasos_control::{RefuseCode, Text};
use petasos_endpoint::group_router::{JoinParams, PeerLink, Refusal, RouterAnswers};
use petasos_router_table::{RefuseReason, Verdict};

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
            return self.place(now, (link, id), params, address);
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

    pub(super) fn take_verdicts(&mut self, now: Time, answers: &mut RouterAnswers) {
        let Some(methods) = &self.methods else { return };
        for (ticket, verdict) in methods.judge.take_verdicts() {
            let judged = self.pending.remove(&ticket);
            let Some(Pending::Judged { link, id, params, address }) = judged else {
                unreachable!("each question has one verdict");
            };
            if let (Verdict::Accepted(services), Some(methods)) = (&verdict, &mut self.methods) {
                methods.define(services);
            }
            // Nobody waits for it any more.
            let Some(link) = link else { continue };
            let result = match verdict {
                Verdict::Accepted(_) => self.place(now, (link, id), params, address),
                Verdict::Refused { reason, detail } => Err(refusal(reason, &detail)),
            };
            if let Err(refusal) = result {
                self.answer_refused((link, id), refusal, answers);
            }
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
