//! Messages of streams arrive once and in order, and the end comes after the last.

use super::{Broken, Call, hold};

impl Call {
    pub(super) fn on_sent_up(&mut self, index: u32) -> Broken {
        hold(index == self.sent && !self.closed, "clients send in order")?;
        self.sent += 1;
        Ok(())
    }

    pub(super) fn on_closed_up(&mut self) -> Broken {
        hold(!self.closed, "clients close once")?;
        self.closed = true;
        Ok(())
    }

    pub(super) fn on_got_up(&mut self, run: u64, index: u32, right: bool) -> Broken {
        hold(right, "messages keep their bytes")?;
        let (sent, run) = (self.sent, self.runs.get_mut(&run).ok_or("handlers read that run")?);
        hold(index == run.got, "messages come once and in order")?;
        hold(index < sent && !run.end_told, "messages come that were sent")?;
        run.got += 1;
        Ok(())
    }

    pub(super) fn on_ended_up(&mut self, run: u64) -> Broken {
        let all = (self.closed, self.sent);
        let run = self.runs.get_mut(&run).ok_or("handlers read that run")?;
        hold(!run.end_told, "a stream ends once")?;
        hold(all == (true, run.got), "a stream ends behind its last message")?;
        run.end_told = true;
        Ok(())
    }

    pub(super) fn on_sent_down(&mut self, run: u64, index: u32) -> Broken {
        let run = self.runs.get_mut(&run).ok_or("handlers send that run")?;
        hold(run.ended.is_none() && index == run.sent, "handlers send in order")?;
        run.sent += 1;
        Ok(())
    }

    pub(super) fn on_got_down(&mut self, run: u64, index: u32, right: bool) -> Broken {
        hold(right, "messages keep their bytes")?;
        hold(!self.is_over(), "nothing comes when the call is over")?;
        let source = *self.source.get_or_insert(run);
        let sent = self.runs.get(&run).map_or(0, |run| run.sent);
        hold(source == run, "a stream is of one handler")?;
        hold(index == self.got, "messages come once and in order")?;
        hold(index < sent, "messages come that were sent")?;
        self.got += 1;
        Ok(())
    }
}
