//! How often handlers run, and when.

use petasos::Code;

use super::outcomes::says_not_run;
use super::{Broken, Call, Run, hold};
use crate::event::Outcome;
use crate::plan::Kind;

impl Call {
    pub(super) fn on_run(&mut self, run: u64, right: bool) -> Broken {
        hold(right, "handlers are given what was sent")?;
        let not_run = matches!(&self.outcome, Some(Outcome::Failed { message, .. })
            if self.plan.kind.runs_max() == 1 && says_not_run(message));
        hold(!not_run, "what did not run does not run")?;
        hold(self.runs.len() < self.plan.kind.runs_max(), "handlers run as often as allowed")?;
        // R12: a method that may not run twice is sent again only after a status that its policy
        // names, which its handler has given.
        let named = |run: &Run| run.ended == Some(Some(Code::Aborted));
        let may_run = self.plan.kind != Kind::Named || self.runs.values().all(named);
        hold(may_run, "only what the policy names is sent again")?;
        let begun = Run { ended: None, got: 0, end_told: false, sent: 0 };
        hold(self.runs.insert(run, begun).is_none(), "runs have numbers of their own")
    }

    pub(super) fn on_run_end(&mut self, run: u64, code: Option<Code>) -> Broken {
        let run = self.runs.get_mut(&run).ok_or("handlers end that ran")?;
        hold(run.ended.is_none(), "handlers end once")?;
        run.ended = Some(code);
        Ok(())
    }
}
