//! Calls with streams, at the client.

use petasos::{Msg, Sender, Status, Streaming};

use crate::body::{Part, body, is_right};
use crate::client::{Client, Ended, answered, ask, both};
use crate::event::{Event, Outcome};
use crate::plan::Plan;
use crate::sabotage::Sabotage;
use crate::work::Piece;

impl Client {
    pub(crate) async fn produce(&self, call: u64, plan: &Plan) -> Ended {
        let from = self.stub.produce(ask(call, plan)).await?;
        let ended = self.read_all(call, plan, from).await;
        if ended.is_err() && self.journal.sabotage == Some(Sabotage::BeginAnew) {
            let from = self.stub.produce(ask(call, plan)).await?;
            return self.read_all(call, plan, from).await;
        }
        ended
    }

    pub(crate) async fn collect(&self, call: u64, plan: &Plan) -> Ended {
        let mut upload = self.stub.collect();
        if let Some(timeout) = plan.timeout {
            upload = upload.with_timeout(timeout);
        }
        let mut is_over = false;
        for index in 0..plan.up {
            is_over = upload.send(piece(call, plan, index)).await.is_err();
            if is_over {
                break;
            }
            self.sent(call, plan, index).await;
        }
        if !is_over {
            self.journal.note(Event::ClosedUp { call });
        }
        answered(call, plan, upload.finish().await)
    }

    pub(crate) async fn chat(&self, call: u64, plan: &Plan) -> Ended {
        let mut opening = self.stub.chat();
        if let Some(timeout) = plan.timeout {
            opening = opening.with_timeout(timeout);
        }
        let (out, back) = opening.await?;
        let writing = self.write_all(call, plan, out);
        both(writing, self.read_all(call, plan, back)).await.1
    }

    async fn write_all(&self, call: u64, plan: &Plan, mut out: Sender<Piece>) {
        for index in 0..plan.up {
            // The response stream reports the reason.
            if out.send(piece(call, plan, index)).await.is_err() {
                return;
            }
            self.sent(call, plan, index).await;
        }
        self.journal.note(Event::ClosedUp { call });
        out.close();
    }

    async fn sent(&self, call: u64, plan: &Plan, index: u32) {
        self.journal.note(Event::SentUp { call, index });
        self.sleep(plan.client_nanos).await;
    }

    async fn read_all(&self, call: u64, plan: &Plan, mut from: Streaming<Piece>) -> Ended {
        let end = loop {
            match from.message().await {
                Ok(Some(piece)) => {
                    if self.is_end(&piece, plan) {
                        break Ok(Outcome::End);
                    }
                    self.got(call, plan, &piece);
                    self.sleep(plan.client_nanos).await;
                }
                Ok(None) => break Ok(Outcome::End),
                Err(status) => break Err(status),
            }
        };
        let sabotage = self.journal.sabotage;
        if sabotage == Some(Sabotage::KeepStreams) {
            core::mem::forget(from);
        } else if sabotage != Some(Sabotage::EndEarly) && !is_same(&end, from.message().await) {
            self.journal.note(Event::EndedOtherwise { call });
        }
        end
    }

    fn got(&self, call: u64, plan: &Plan, piece: &Piece) {
        let (index, run) = (piece.index(), piece.run());
        let right = piece.call() == call
            && is_right(call, Part::Down(index), plan.piece_bytes, piece.body())
            && !(self.journal.sabotage == Some(Sabotage::AlterPiece) && index == 7);
        self.journal.note(Event::GotDown { call, run, index, right });
    }

    /// Whether an inserted bug ends the stream here.
    fn is_end(&self, piece: &Piece, plan: &Plan) -> bool {
        self.journal.sabotage == Some(Sabotage::EndEarly) && piece.index() + 1 == plan.down
    }
}

fn piece(call: u64, plan: &Plan, index: u32) -> Msg<Piece> {
    let mut piece = Piece::new();
    let bytes = body(call, Part::Up(index), plan.piece_bytes);
    piece.edit().set_call(call).set_index(index).set_body(bytes);
    piece
}

/// Whether a stream that has ended reports the same result again.
fn is_same(end: &Ended, again: Result<Option<Msg<Piece>>, Status>) -> bool {
    match (end, again) {
        (Ok(_), Ok(None)) => true,
        (Err(status), Err(again)) => status.code() == again.code(),
        _ => false,
    }
}
