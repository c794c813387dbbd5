//! The handlers.

use core::time::Duration;
use std::sync::Arc;

use petasos::{Code, Request, Response, Sender, Status, Streaming};
use petasos_rpc::timer::Timekeeper as _;
use petasos_runtime::shared::Shared;
use petasos_sim::cluster::Life;

use crate::body::{Part, body, is_right};
use crate::event::Event;
use crate::journal::Journal;
use crate::plan::Plan;
use crate::sabotage::Sabotage;
use crate::work::{Answer, Ask, Piece, Work};

/// The service during one life of a host.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) life: Life,
    pub(crate) journal: Journal,
    /// Keeps the virtual time.
    pub(crate) shared: Arc<Shared>,
}

/// One run of a handler.
struct Run {
    journal: Journal,
    call: u64,
    run: u64,
    plan: Plan,
    /// Runs of the same call before this one.
    before: usize,
    is_over: bool,
}

impl Run {
    /// Ends the run as planned.
    fn end(&mut self) -> Result<(), Status> {
        let fails = self.before < self.plan.fails;
        self.finish(if fails { Err(Status::aborted("as planned")) } else { Ok(()) })
    }

    /// Records how the run ends.
    fn finish(&mut self, end: Result<(), Status>) -> Result<(), Status> {
        let code = Some(end.as_ref().err().map_or(Code::Ok, Status::code));
        self.is_over = true;
        self.journal.note(Event::RunEnded { call: self.call, run: self.run, code });
        end
    }

    fn answer(&self, pieces: u32) -> Response<Answer> {
        let mut answer = Answer::new();
        let bytes = body(self.call, Part::Response, self.plan.response_bytes);
        answer.edit().set_run(self.run).set_pieces(pieces).set_body(bytes);
        Response::new(answer)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_over {
            self.journal.note(Event::RunEnded { call: self.call, run: self.run, code: None });
        }
    }
}

impl Service {
    fn begin(&self, call: u64, right: bool) -> Run {
        let (run, before) = self.journal.begin_run(call, self.life, right);
        let (journal, plan) = (self.journal.clone(), Plan::of(call));
        Run { journal, call, run, plan, before, is_over: false }
    }

    fn begin_asked(&self, ask: &Request<Ask>) -> Run {
        let (call, plan) = (ask.call(), Plan::of(ask.call()));
        self.begin(call, is_right(call, Part::Request, plan.request_bytes, ask.body()))
    }

    async fn sleep(&self, nanos: u64) {
        if nanos > 0 {
            self.shared.start(Duration::from_nanos(nanos)).await;
        }
    }

    async fn unary(&self, ask: Request<Ask>) -> Result<Response<Answer>, Status> {
        let mut run = self.begin_asked(&ask);
        self.sleep(run.plan.handler_nanos).await;
        run.end()?;
        Ok(run.answer(0))
    }

    async fn send(&self, run: &mut Run, out: &mut Sender<Piece>, index: u32) -> Result<(), Status> {
        let (call, number) = (run.call, run.run);
        let mut piece = Piece::new();
        let bytes = body(call, Part::Down(index), run.plan.piece_bytes);
        piece.edit().set_call(call).set_index(index).set_run(number).set_body(bytes);
        let is_lost = self.journal.sabotage == Some(Sabotage::LosePiece) && index % 10 == 9;
        let sent = if is_lost { Ok(()) } else { out.send(piece).await };
        match sent {
            Ok(()) => self.journal.note(Event::SentDown { call, run: number, index }),
            Err(status) => return run.finish(Err(status)),
        }
        self.sleep(run.plan.handler_nanos).await;
        Ok(())
    }

    /// Reads the next message of a request stream. The first message identifies the call.
    async fn read(
        &self,
        run: &mut Option<Run>,
        from: &mut Streaming<Piece>,
    ) -> Result<Option<u32>, Status> {
        let piece = match from.message().await {
            Ok(piece) => piece,
            Err(status) => {
                return run
                    .as_mut()
                    .map_or(Err(status.clone()), |run| run.finish(Err(status)).map(|()| None));
            }
        };
        let early = self.journal.sabotage == Some(Sabotage::EndForHandler);
        let piece = piece.filter(|piece| !early || piece.index() < 5);
        let Some(piece) = piece else {
            if let Some(Run { call, run, .. }) = run {
                self.journal.note(Event::EndedUp { call: *call, run: *run });
            }
            return Ok(None);
        };
        let (call, index) = (piece.call(), piece.index());
        let run = run.get_or_insert_with(|| self.begin(call, true));
        let bytes = run.plan.piece_bytes;
        let right = call == run.call && is_right(call, Part::Up(index), bytes, piece.body());
        let event = Event::GotUp { call: run.call, run: run.run, index, right };
        if self.journal.sabotage == Some(Sabotage::RepeatPiece) && index % 10 == 9 {
            self.journal.note(event.clone());
        }
        self.journal.note(event);
        self.sleep(run.plan.handler_nanos).await;
        Ok(Some(index))
    }
}

/// Whether the plan ends the handler after this message.
fn stops(run: &Run, index: u32) -> bool {
    run.plan.stops_after.is_some_and(|after| index >= after)
}

impl Work for Service {
    async fn once(&self, ask: Request<Ask>) -> Result<Response<Answer>, Status> {
        self.unary(ask).await
    }

    async fn named(&self, ask: Request<Ask>) -> Result<Response<Answer>, Status> {
        self.unary(ask).await
    }

    async fn repeated(&self, ask: Request<Ask>) -> Result<Response<Answer>, Status> {
        self.unary(ask).await
    }

    async fn hedged(&self, ask: Request<Ask>) -> Result<Response<Answer>, Status> {
        self.unary(ask).await
    }

    async fn produce(&self, ask: Request<Ask>, mut out: Sender<Piece>) -> Result<(), Status> {
        let mut run = self.begin_asked(&ask);
        for index in 0..run.plan.down {
            self.send(&mut run, &mut out, index).await?;
        }
        run.end()
    }

    async fn collect(&self, mut from: Streaming<Piece>) -> Result<Response<Answer>, Status> {
        let (mut run, mut pieces) = (None, 0);
        while let Some(index) = self.read(&mut run, &mut from).await? {
            pieces += 1;
            if run.as_ref().is_some_and(|run| stops(run, index)) {
                break;
            }
        }
        let Some(mut run) = run else { return Err(Status::aborted("no message")) };
        run.end()?;
        Ok(run.answer(pieces))
    }

    async fn chat(&self, mut from: Streaming<Piece>, mut out: Sender<Piece>) -> Result<(), Status> {
        let mut run = None;
        while let Some(index) = self.read(&mut run, &mut from).await? {
            let run = run.as_mut().expect("a message has come");
            self.send(run, &mut out, index).await?;
            if stops(run, index) {
                break;
            }
        }
        let Some(mut run) = run else { return Err(Status::aborted("no message")) };
        run.end()
    }
}
