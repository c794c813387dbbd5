//! Asking routers for workers to connect to (RT37).
//!
//! A place is asked for by an attachment that stands, on its connection, and told to the endpoint
//! with the other news of that attachment. There is one question at a time for each.

use petasos_control::{ConnectFailure, Member, PlaceGrant, PlaceParams, RefuseCode};

use super::{Asking, Control};
use crate::enrolment::{EnrolmentId, PlaceWish};
use crate::error::SessionError;
use crate::sessions::PeerId;

impl Control {
    pub(super) fn place(&mut self, enrolment: EnrolmentId, wish: PlaceWish) {
        let Some((number, Member::Client(client))) = self.enrolments.member(enrolment) else {
            // The endpoint hears that the attachment has ended.
            return;
        };
        let id = self.add_attempt(Asking::Place(enrolment));
        let PlaceWish { policy, key_hash, avoid } = wish;
        let params = PlaceParams { client, policy, key_hash, avoid };
        let connection = self.links.get_mut(&number).and_then(|link| link.connection());
        match connection.map(|connection| connection.place(id, params)) {
            Some(Ok(())) => self.note_asked(number, id),
            // It drains, or too much is asked.
            _ => self.fail_attempt(id, SessionError::ConnectionLost),
        }
    }

    pub(super) fn on_place_answered(
        &mut self,
        number: PeerId,
        id: u64,
        result: Result<PlaceGrant, ConnectFailure>,
    ) {
        if let Some(told) = self.enrolments.links.get_mut(&number) {
            told.asked = told.asked.saturating_sub(1);
        }
        let Some(Asking::Place(enrolment)) = self.attempts.remove(&id).map(|it| it.asking) else {
            return;
        };
        let placed = result.map_err(|failure| match failure {
            ConnectFailure::Refused(RefuseCode::SessionsFull) => SessionError::NoWorker,
            ConnectFailure::Refused(code) => SessionError::RefusedBy(code),
            _ => SessionError::ConnectionLost,
        });
        self.tell_placed(enrolment, placed);
    }

    /// Tells an endpoint where its router has placed it.
    pub(super) fn tell_placed(
        &mut self,
        enrolment: EnrolmentId,
        placed: Result<PlaceGrant, SessionError>,
    ) {
        if let Some(standing) = self.enrolments.standing(enrolment) {
            // An endpoint that is gone need not be told.
            standing.enrolment.leave(|news| news.placed = Some(placed));
        }
    }
}
