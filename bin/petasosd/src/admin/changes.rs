//! Changes: what takes time of them is done by a thread of its own, the rest by the loop.

use petasos::{Msg, Status};
use petasos_admin::{self as proto, STEPS_MAX};
use petasos_base::{Clock, Time};

use super::service::Inner;
use crate::control::prepare::{Survey, is_quick, prepare};
use crate::control::{Keep, StepError, Undone, World};

/// What each step has done, and the chain of changes that can be undone.
type Done = (Vec<String>, Option<u64>);

/// What came of a change without preparation.
enum Tried {
    Done(Done),
    /// It has to be prepared.
    TakesTime(Msg<proto::ChangeRequest>),
}

impl Inner {
    /// Does all steps, or none, until this time. Gives what each has done. A reload is of this
    /// text, if there is one.
    pub(super) async fn change(
        &self,
        request: Msg<proto::ChangeRequest>,
        text: Option<String>,
        until: Time,
    ) -> Result<Done, Status> {
        // Whoever does not wait for it any more has told others that it was not made.
        let change = move |world: &mut World<'_>, request: &proto::ChangeRequest, ready, keep| {
            match Clock::system().now() < until {
                true => Ok(world.change(request.steps(), ready, keep)?),
                false => Err(Status::from(StepError::TooLate)),
            }
        };
        match request.steps().len() {
            0 => return Err(Status::invalid_argument("a change has steps")),
            len if len > STEPS_MAX => {
                let what = format!("a change has at most {STEPS_MAX} steps");
                return Err(Status::invalid_argument(what));
            }
            _ => {}
        }
        let keep = Keep::of(&request).map_err(Status::invalid_argument)?;
        let quickly = self.ask(move |world| match is_quick(world, request.steps()) {
            true => Ok(Tried::Done(change(world, &request, Vec::new(), keep)?)),
            false => Ok(Tried::TakesTime(request)),
        });
        let request = match quickly.await? {
            Tried::Done(done) => return Ok(done),
            Tried::TakesTime(request) => request,
        };
        let _turn = self.preparing.lock().await;
        let (survey, request) =
            self.ask(move |world| Ok((Survey::take(world, request.steps()), request))).await?;
        let reader = self.reader.clone();
        let work = move || {
            let ready = prepare(survey, request.steps(), (&reader, text.as_deref()));
            (ready, request)
        };
        let failed = |_| Status::internal("the change could not be prepared; nothing was done");
        let (ready, request) = tokio::task::spawn_blocking(work).await.map_err(failed)?;
        self.ask(move |world| change(world, &request, ready, keep)).await
    }

    /// Undoes the last change of a chain.
    pub(super) async fn undo(&self, chain: u64) -> Result<Undone, Status> {
        self.ask(move |world| Ok(world.undo_change(chain)?)).await
    }
}
