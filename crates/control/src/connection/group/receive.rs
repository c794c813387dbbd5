//! What arrives of a group's messages (RT33 to RT37).

use super::{Ask, GroupEvent, JoinFailure, Wish, check_attached, check_joined};
use crate::codes::RefuseCode;
use crate::connection::{Connection, Event, Role};
use crate::error::{ConnectFailure, ProtocolError};
use crate::{
    AttachGrant, AttachParams, GroupMessage, JoinGrant, JoinParams, Leave, PlaceParams, Refusal,
    Text, Told,
};

impl Connection {
    pub(in crate::connection) fn on_group(
        &mut self,
        message: GroupMessage,
    ) -> Result<(), ProtocolError> {
        match self.role {
            Role::Acceptor => self.on_member(message),
            Role::Dialler => self.on_router(message),
        }
    }

    /// From a client or a worker.
    fn on_member(&mut self, message: GroupMessage) -> Result<(), ProtocolError> {
        match message {
            GroupMessage::Attach { attach_id, params } => {
                let AttachParams { payload_bytes_max, asked_max, .. } = params;
                let wish = Wish { payload_bytes_max, asked_max };
                let event = GroupEvent::AttachRequested { id: attach_id, params };
                self.on_ask(Ask::Attach(attach_id), wish, event)
            }
            GroupMessage::Join { join_id, params } => {
                let JoinParams { payload_bytes_max, .. } = params;
                let wish = Wish { payload_bytes_max, asked_max: 0 };
                let event = GroupEvent::JoinRequested { id: join_id, params };
                self.on_ask(Ask::Join(join_id), wish, event)
            }
            GroupMessage::Place { place_id, params } => self.on_place(place_id, params),
            GroupMessage::EpochHeard { epoch } => {
                if self.groups.order.hear(epoch).map_err(ProtocolError::GroupMisplaced)? {
                    self.report(GroupEvent::EpochHeard { epoch });
                }
                Ok(())
            }
            GroupMessage::Leave(leave) => {
                self.on_leave(leave);
                Ok(())
            }
            GroupMessage::Attached { .. }
            | GroupMessage::Joined { .. }
            | GroupMessage::Placed { .. } => Err(ProtocolError::UnexpectedReply),
            GroupMessage::Told(_) => Err(ProtocolError::GroupMisplaced("what a router tells")),
        }
    }

    /// From a router.
    fn on_router(&mut self, message: GroupMessage) -> Result<(), ProtocolError> {
        let is_active = matches!(message, GroupMessage::Told(Told::Active(_)));
        self.groups.order.next(is_active).map_err(ProtocolError::GroupMisplaced)?;
        match message {
            GroupMessage::Attached { attach_id, result } => self.on_attached(attach_id, result),
            GroupMessage::Joined { join_id, result } => self.on_joined(join_id, result),
            GroupMessage::Placed { place_id, result } => {
                self.wish_of(Ask::Place(place_id))?;
                self.groups.asked.remove(&Ask::Place(place_id));
                let result = result.map_err(ConnectFailure::Refused);
                self.report(GroupEvent::PlaceAnswered { id: place_id, result });
                Ok(())
            }
            GroupMessage::Told(told) => {
                let joins = self.groups.has_joins();
                self.groups.order.tell(&told, joins).map_err(ProtocolError::GroupMisplaced)?;
                self.report(GroupEvent::Told(told));
                Ok(())
            }
            GroupMessage::Leave(leave) => {
                self.on_leave(leave);
                Ok(())
            }
            GroupMessage::Attach { .. } => Err(ProtocolError::GroupMisplaced("attach")),
            GroupMessage::Join { .. } => Err(ProtocolError::GroupMisplaced("join")),
            GroupMessage::Place { .. } => Err(ProtocolError::GroupMisplaced("place")),
            GroupMessage::EpochHeard { .. } => Err(ProtocolError::GroupMisplaced("epoch heard")),
        }
    }

    fn on_place(&mut self, id: u64, params: PlaceParams) -> Result<(), ProtocolError> {
        let event = GroupEvent::PlaceRequested { id, params };
        self.on_ask(Ask::Place(id), Wish::default(), event)
    }

    fn on_ask(&mut self, ask: Ask, wish: Wish, event: GroupEvent) -> Result<(), ProtocolError> {
        self.resumption.heard_request();
        if self.groups.requested.contains_key(&ask) {
            return Err(ProtocolError::GroupMisplaced("an id"));
        }
        if self.is_full_of_peers() {
            return Err(ProtocolError::TooManyOutstanding);
        }
        if self.draining {
            self.refuse_draining(ask);
            return Ok(());
        }
        self.groups.requested.insert(ask, wish);
        self.report(event);
        Ok(())
    }

    /// Refuses what a process that drains does not take (C13).
    fn refuse_draining(&mut self, ask: Ask) {
        let code = RefuseCode::Draining;
        let message = match ask {
            Ask::Attach(id) => GroupMessage::Attached { attach_id: id, result: Err(code) },
            Ask::Place(id) => GroupMessage::Placed { place_id: id, result: Err(code) },
            Ask::Join(id) => {
                self.groups.order.refuse_join();
                let refusal = Refusal { code, detail: Text::default() };
                GroupMessage::Joined { join_id: id, result: Err(refusal) }
            }
        };
        self.send_group(message);
    }

    fn on_attached(
        &mut self,
        id: u64,
        result: Result<AttachGrant, RefuseCode>,
    ) -> Result<(), ProtocolError> {
        let wish = self.wish_of(Ask::Attach(id))?;
        if let Ok(grant) = &result {
            check_attached(&wish, grant).map_err(ProtocolError::ExceedsProposal)?;
            self.groups.order.attach(grant).map_err(ProtocolError::GroupMisplaced)?;
        }
        self.groups.asked.remove(&Ask::Attach(id));
        let result = result.map_err(ConnectFailure::Refused);
        self.report(GroupEvent::AttachAnswered { id, result });
        Ok(())
    }

    fn on_joined(
        &mut self,
        id: u64,
        result: Result<JoinGrant, Refusal>,
    ) -> Result<(), ProtocolError> {
        let wish = self.wish_of(Ask::Join(id))?;
        match &result {
            Ok(grant) => {
                check_joined(&wish, grant).map_err(ProtocolError::ExceedsProposal)?;
                self.groups.order.join(grant).map_err(ProtocolError::GroupMisplaced)?;
            }
            Err(_) => self.groups.order.refuse_join(),
        }
        self.groups.asked.remove(&Ask::Join(id));
        let result = result.map_err(|Refusal { code, detail }| JoinFailure {
            reason: ConnectFailure::Refused(code),
            detail,
        });
        self.report(GroupEvent::JoinAnswered { id, result });
        Ok(())
    }

    /// A leave confirms the same one of this process. Any other is confirmed, also that of a member
    /// that is not known any more.
    fn on_leave(&mut self, leave: Leave) {
        self.resumption.heard_request();
        if self.groups.leaving.remove(&leave) {
            self.groups.order.leave(&leave);
            return self.report(GroupEvent::LeaveAnswered { leave });
        }
        self.groups.order.leave(&leave);
        self.send_group(GroupMessage::Leave(leave));
        self.report(GroupEvent::Left { leave });
    }

    /// What an attempt of this process asks for. An answer to nothing is an error (C8). One that
    /// exceeds the wish leaves the attempt waiting: its outcome is that the peer has failed.
    fn wish_of(&self, ask: Ask) -> Result<Wish, ProtocolError> {
        self.groups.asked.get(&ask).copied().ok_or(ProtocolError::UnexpectedReply)
    }

    fn report(&mut self, event: GroupEvent) {
        self.events.push_back(Event::Group(event));
    }
}
