//! Commands: of clients and workers, of routers, and of both.

use super::{Ask, Wish, check_attached, check_joined};
use crate::connection::{Connection, Phase, Role};
use crate::error::{GroupError, field_of};
use crate::{
    Active, AttachGrant, AttachParams, BODY_BYTES_MAX, GroupMessage, JoinGrant, JoinParams, Leave,
    Malformed, Member, PlaceGrant, PlaceParams, Refusal, RefuseCode, Text, Told,
};

/// Commands of clients and workers to a router that they have dialled.
impl Connection {
    /// Asks for an attachment. The outcome is one
    /// [`GroupEvent::AttachAnswered`](crate::GroupEvent::AttachAnswered).
    ///
    /// # Errors
    /// See [`GroupError`]; nothing was sent and there will be no event.
    pub fn attach(&mut self, id: u64, params: AttachParams) -> Result<(), GroupError> {
        self.check_asking(Ask::Attach(id))?;
        valid(params.validate())?;
        let AttachParams { payload_bytes_max, asked_max, .. } = params;
        self.ask(Ask::Attach(id), Wish { payload_bytes_max, asked_max });
        self.send_group(GroupMessage::Attach { attach_id: id, params });
        Ok(())
    }

    /// Asks for a membership. The outcome is one
    /// [`GroupEvent::JoinAnswered`](crate::GroupEvent::JoinAnswered).
    ///
    /// # Errors
    /// See [`GroupError`]; nothing was sent and there will be no event.
    pub fn join(&mut self, id: u64, params: JoinParams) -> Result<(), GroupError> {
        self.check_asking(Ask::Join(id))?;
        valid(params.validate())?;
        let payload_bytes_max = params.payload_bytes_max;
        self.ask(Ask::Join(id), Wish { payload_bytes_max, asked_max: 0 });
        self.send_group(GroupMessage::Join { join_id: id, params });
        Ok(())
    }

    /// Asks for a worker to connect to, for a client that is attached here. The outcome is one
    /// [`GroupEvent::PlaceAnswered`](crate::GroupEvent::PlaceAnswered).
    ///
    /// # Errors
    /// See [`GroupError`]; nothing was sent and there will be no event.
    pub fn place(&mut self, id: u64, params: PlaceParams) -> Result<(), GroupError> {
        self.check_asking(Ask::Place(id))?;
        valid(params.validate())?;
        if !self.groups.order.is_attached(params.client) {
            return Err(GroupError::Misplaced("client"));
        }
        self.ask(Ask::Place(id), Wish::default());
        self.send_group(GroupMessage::Place { place_id: id, params });
        Ok(())
    }

    /// Confirms an epoch that the router has told workers of this process, also with a grant.
    ///
    /// # Errors
    /// See [`GroupError`]; nothing was sent.
    pub fn confirm_epoch(&mut self, epoch: u16) -> Result<(), GroupError> {
        self.check_role(Role::Dialler)?;
        self.check_room()?;
        if !self.groups.order.hear(epoch).map_err(GroupError::Misplaced)? {
            return Err(GroupError::Misplaced("epoch heard"));
        }
        self.send_group(GroupMessage::EpochHeard { epoch });
        Ok(())
    }
}

/// Commands of both sides.
impl Connection {
    /// Ends an attachment or a membership: as its owner, or as the router that makes it leave. The
    /// peer confirms with one [`GroupEvent::LeaveAnswered`](crate::GroupEvent::LeaveAnswered),
    /// unless the connection ends first.
    /// Repeating an unconfirmed one has no effect.
    ///
    /// # Errors
    /// See [`GroupError`]; nothing was sent.
    pub fn leave(&mut self, leave: Leave) -> Result<(), GroupError> {
        self.check_group()?;
        if self.groups.leaving.contains(&leave) {
            return Ok(());
        }
        if !self.groups.order.holds(&leave) {
            return Err(GroupError::Misplaced(name_of(leave.member)));
        }
        self.check_outstanding()?;
        self.check_room()?;
        self.groups.leaving.insert(leave);
        if self.role == Role::Acceptor {
            self.groups.order.leave(&leave);
        }
        self.send_group(GroupMessage::Leave(leave));
        Ok(())
    }
}

/// Commands of the router.
impl Connection {
    /// Answers the [`GroupEvent::AttachRequested`](crate::GroupEvent::AttachRequested) with the
    /// same `id`, and says with a grant whether this router is the active one.
    ///
    /// # Errors
    /// See [`GroupError`]; the attempt still waits for an answer.
    pub fn answer_attach(
        &mut self,
        id: u64,
        result: Result<(AttachGrant, Active), RefuseCode>,
    ) -> Result<(), GroupError> {
        let wish = self.check_answering(Ask::Attach(id))?;
        let (result, active) = match result {
            Ok((grant, active)) => {
                valid(grant.validate())?;
                check_attached(&wish, &grant).map_err(GroupError::InvalidField)?;
                self.groups.order.attach(&grant).map_err(GroupError::Misplaced)?;
                (Ok(grant), Some(active))
            }
            Err(code) => (Err(code), None),
        };
        self.groups.requested.remove(&Ask::Attach(id));
        self.send_group(GroupMessage::Attached { attach_id: id, result });
        if let Some(active) = active {
            self.groups.order.next(true).expect("an attachment awaits it");
            self.send_group(GroupMessage::Told(Told::Active(active)));
        }
        Ok(())
    }

    /// Answers the [`GroupEvent::JoinRequested`](crate::GroupEvent::JoinRequested) with the same
    /// `id`. A refusal's text is left out if the peer has much to read (C15).
    ///
    /// # Errors
    /// See [`GroupError`]; the attempt still waits for an answer.
    pub fn answer_join(
        &mut self,
        id: u64,
        result: Result<JoinGrant, Refusal>,
    ) -> Result<(), GroupError> {
        let wish = self.check_answering(Ask::Join(id))?;
        let order = &mut self.groups.order;
        let result = match result {
            Ok(grant) => {
                valid(grant.validate())?;
                check_joined(&wish, &grant).map_err(GroupError::InvalidField)?;
                order.join(&grant).map_err(GroupError::Misplaced)?;
                Ok(grant)
            }
            Err(refusal) if self.is_backlogged() => {
                Err(Refusal { detail: Text::default(), ..refusal })
            }
            Err(refusal) => Err(refusal),
        };
        if result.is_err() {
            self.groups.order.refuse_join();
        }
        self.groups.requested.remove(&Ask::Join(id));
        self.send_group(GroupMessage::Joined { join_id: id, result });
        Ok(())
    }

    /// Answers the [`GroupEvent::PlaceRequested`](crate::GroupEvent::PlaceRequested) with the same
    /// `id`.
    ///
    /// # Errors
    /// See [`GroupError`]; the attempt still waits for an answer.
    pub fn answer_place(
        &mut self,
        id: u64,
        result: Result<PlaceGrant, RefuseCode>,
    ) -> Result<(), GroupError> {
        self.check_answering(Ask::Place(id))?;
        if let Ok(grant) = &result {
            valid(grant.validate())?;
        }
        self.groups.requested.remove(&Ask::Place(id));
        self.send_group(GroupMessage::Placed { place_id: id, result });
        Ok(())
    }

    /// Tells what clients or workers have to know.
    ///
    /// # Errors
    /// See [`GroupError`]; nothing was sent. After [`GroupError::Backlogged`], read what is to be
    /// told from the tables again once there is room: only the newest counts.
    pub fn tell(&mut self, told: Told) -> Result<(), GroupError> {
        self.check_role(Role::Acceptor)?;
        valid(told.validate())?;
        if told.body_bytes() > BODY_BYTES_MAX {
            return Err(GroupError::InvalidField("entries"));
        }
        self.check_room()?;
        let is_far_ahead = |number| self.groups.order.is_far_ahead(number);
        if matches!(&told, Told::Epoch { client: None, epoch } if is_far_ahead(epoch.number)) {
            return Err(GroupError::Backlogged);
        }
        let joins = self.groups.has_joins();
        self.groups.order.tell(&told, joins).map_err(GroupError::Misplaced)?;
        self.send_group(GroupMessage::Told(told));
        Ok(())
    }
}

impl Connection {
    fn ask(&mut self, ask: Ask, wish: Wish) {
        self.groups.asked.insert(ask, wish);
    }

    fn check_group(&self) -> Result<(), GroupError> {
        if self.phase != Phase::Open {
            return Err(GroupError::NotOpen);
        }
        if !self.knows_groups() {
            return Err(GroupError::UnknownToPeer);
        }
        Ok(())
    }

    fn check_role(&self, role: Role) -> Result<(), GroupError> {
        self.check_group()?;
        if self.role != role {
            return Err(GroupError::WrongRole);
        }
        Ok(())
    }

    fn check_asking(&self, ask: Ask) -> Result<(), GroupError> {
        self.check_role(Role::Dialler)?;
        if self.peer_draining {
            return Err(GroupError::PeerDraining);
        }
        if self.groups.asked.contains_key(&ask) {
            return Err(GroupError::IdInUse);
        }
        self.check_outstanding()?;
        self.check_room()
    }

    fn check_answering(&self, ask: Ask) -> Result<Wish, GroupError> {
        self.check_role(Role::Acceptor)?;
        self.groups.requested.get(&ask).copied().ok_or(GroupError::UnknownId)
    }

    fn check_outstanding(&self) -> Result<(), GroupError> {
        if self.is_full() { Err(GroupError::TooManyOutstanding) } else { Ok(()) }
    }

    fn check_room(&self) -> Result<(), GroupError> {
        if self.is_backlogged() { Err(GroupError::Backlogged) } else { Ok(()) }
    }
}

fn name_of(member: Member) -> &'static str {
    match member {
        Member::Client(_) => "client",
        Member::Worker(_) => "worker",
    }
}

fn valid(result: Result<(), Malformed>) -> Result<(), GroupError> {
    result.map_err(|error| GroupError::InvalidField(field_of(error)))
}
