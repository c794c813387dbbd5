//! How often handlers run, and when.

use petasos::Code;

use super::outcomes::says_not_run;
use super::{Broken, Call, Run, hold};
use crate::event::Outcome;

impl Call {
    pub(super) fn on_run(&mut self, run: u64, right: bool) -> Broken {
        hold(right, "handlers are given what was sent")?;
        let not_run = matches!(&self.outcome, Some(Outcome::Failed { message, .. })
            if self.runs_max == 1 && says_not_run(message));
        hold(!not_run, "what did not run does not run")?;
        hold(self.runs.len() < self.runs_max, "handlers run as often as allowed")?;
        let may_run = !self.is_named() || self.has_only_named_runs();
        hold(may_run, "only what the policy names is sent again")?;
        hold(self.source.is_none(), "what was delivered is not begun anew")?;
        let begun = Run { ended: None, got: 0, end_told: false, sent: 0 };
        hold(self.runs.insert(run, begun).is_none(), "runs have numbers of their own")
    }

    /// Whether the policy names the results of all runs so far.
    pub(super) fn has_only_named_runs(&self) -> bool {
        self.runs.values().all(|run| run.ended == Some(Some(Code::Aborted)))
    }

    pub(super) fn on_run_end(&mut self, run: u64, code: Option<Code>) -> Broken {
        let run = self.runs.get_mut(&run).ok_or("handlers end that ran")?;
        hold(run.ended.is_none(), "handlers end once")?;
        run.ended = Some(code);
        Ok(())
    }
}
