//! The table: services, their schemas and numbers, and who fits (RT31, R2, R3).
//!
//! It follows the workers' schemas by versions. One is current: clients bind from it. Another one
//! may be to come: workers learn it with the next epoch, then it is committed, and then clients
//! hear of that epoch, and bind anew. Meanwhile there is no third.
//!
//! Invariants: callers by the current version, and by the one that is to come, understand each
//! member; but for members that wait: only callers by the one to come understand them, and they get
//! no calls before.

use std::collections::BTreeSet;
use std::sync::Arc;

use petasos_call::{BindRequest, BindResponse, Status};

use crate::answers::{Answer, Answers};
use crate::form::Form;
use crate::known::{KnownSchema, Reader};
use crate::members::Members;
use crate::messages;
use crate::names::{NamesError, TableService, check_names, of_service};
use crate::version::{Numbers, Version};

/// What has become of a worker that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It is a member.
    Member,
    /// Nobody else is there, and the version that is to come is its own: it is a member once that
    /// is committed.
    Waits,
}

/// Another version of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its number, by which it is committed. That of the current version: none is to come, since
    /// another one was taken back.
    pub version: u64,
    /// What workers are to be told.
    pub services: Arc<[TableService]>,
    /// It is the first, and current: there is nobody who has bound by another.
    pub is_first: bool,
    /// Whether to hurry: otherwise it comes with the next epoch that would begin anyway, and
    /// another one may come in its place before.
    pub is_urgent: bool,
}

/// Why a worker is not a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// It does not fit, for its operator: the first service that does not, and the first field.
    #[error("{0}")]
    Incompatible(String),
    /// Messages are about to be native, compressed, or of another schema, and not with it. A later
    /// attempt may succeed.
    #[error("the group's table changes: join again")]
    Changing,
}

impl From<String> for JudgeError {
    fn from(why: String) -> JudgeError {
        JudgeError::Incompatible(why)
    }
}

/// The version that is to come.
#[derive(Debug)]
struct Next {
    version: Version,
    /// Somebody waits for it. Else it is as before, but for messages that become native, and more
    /// codecs.
    is_urgent: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Table {
    names: Vec<String>,
    /// `None` until a worker was accepted.
    current: Option<Version>,
    next: Option<Next>,
    members: Members,
    /// Members that wait for the next version.
    waiting: BTreeSet<u64>,
    numbers: Numbers,
    versions: u64,
    /// A version that was not told of yet.
    change: Option<Change>,
}

impl Table {
    /// A table of services with these full names. None of them can be bound yet.
    ///
    /// # Errors
    /// See [`NamesError`].
    pub fn new(names: &[String]) -> Result<Table, NamesError> {
        check_names(names)?;
        Ok(Table {
            names: names.to_vec(),
            current: None,
            next: None,
            members: Members::default(),
            waiting: BTreeSet::new(),
            numbers: Numbers::default(),
            versions: 0,
            change: None,
        })
    }

    /// The names of the services, in the order in which workers are asked for them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Answers a client's bind, with both as whole messages.
    pub fn respond(&self, request: &[u8]) -> Vec<u8> {
        let request = messages::read_request(request);
        messages::answer(request.map_err(Status::from).and_then(|request| self.answer(&request)))
    }

    /// R2: the answer to a bind.
    fn answer(&self, request: &BindRequest<'_>) -> Result<BindResponse<'_>, Status> {
        let at = self.names.iter().position(|name| name == request.name);
        let at = at.ok_or_else(|| Status::unimplemented("the group has no such service"))?;
        let current = self.current.as_ref();
        let current = current.ok_or_else(|| Status::unavailable("no worker has joined yet"))?;
        Ok(current.answer(at, request))
    }

    /// Judges a worker by its answers to a bind of each service, in the order of the names. The
    /// first worker defines the table. One that does not fit defines the next version if nobody
    /// else is there, and so does one with which messages cannot have the forms of now. `member` is
    /// higher than that of all before.
    ///
    /// # Errors
    /// See [`JudgeError`]. Nothing has changed then.
    pub fn judge(&mut self, member: u64, answers: &Answers) -> Result<Judged, JudgeError> {
        let answers = self.answered(answers)?;
        let mut reader = Reader::default();
        self.take_back();
        let Some(current) = &self.current else {
            return Ok(self.define(&mut reader, member, answers)?);
        };
        let fits = current.compare(&mut reader, &self.names, &answers);
        let forms = current.forms_with(&answers);
        if let Some(Next { version: next, .. }) = &self.next {
            next.compare(&mut reader, &self.names, &answers)?;
            if next.forms_with(&answers) != next.forms {
                return Err(JudgeError::Changing);
            }
        }
        let is_alone = self.waiting.len() == self.members.len();
        let next = match fits {
            Ok(()) if forms == current.forms => {
                self.members.add(member, answers)?;
                return Ok(Judged::Member);
            }
            Err(why) if !is_alone => return Err(why.into()),
            _ if self.next.is_some() => None,
            Ok(()) => Some((current.schemas.clone(), forms)),
            Err(_) => Some(self.schemas_of(&mut reader, &answers)?),
        };
        let next = next.map(|next| self.numbered(next)).transpose()?;
        self.members.add(member, answers)?;
        if let Some(version) = next {
            self.come(Next { version, is_urgent: true });
        }
        self.waiting.insert(member);
        Ok(Judged::Waits)
    }

    /// The next version does not come if nobody waits for it: workers with which messages cannot be
    /// native would have to wait for it.
    fn take_back(&mut self) {
        if self.next.take_if(|next| !next.is_urgent).is_some() {
            self.change = self.current.as_ref().map(|current| change_to(current, false));
        }
    }

    /// The first worker is there, and this is its table.
    fn define(
        &mut self,
        reader: &mut Reader,
        member: u64,
        answers: Vec<Answer>,
    ) -> Result<Judged, String> {
        let schemas = self.schemas_of(reader, &answers)?;
        let first = self.numbered(schemas)?;
        self.members.add(member, answers)?;
        self.change = Some(Change { is_first: true, ..change_to(&first, true) });
        self.current = Some(first);
        Ok(Judged::Member)
    }

    /// A member, or one that was judged, is gone.
    pub fn leave(&mut self, member: u64) {
        self.members.remove(member);
        self.waiting.remove(&member);
    }

    /// The version that is to come, if it was not asked for before: the schema of a service follows
    /// once nobody has the current one. It is then that of who came last, of those whose callers
    /// understand all.
    pub fn take_change(&mut self) -> Option<Change> {
        if self.next.as_ref().is_none_or(|next| !next.is_urgent)
            && let Some(followed) = self.followed()
            && !self.next.as_ref().is_some_and(|next| next.version.is(&followed))
        {
            let is_urgent = !self.current.as_ref().is_some_and(|it| it.has_schemas(&followed.0));
            match self.numbered(followed) {
                Ok(version) => self.come(Next { version, is_urgent }),
                Err(why) => tracing::warn!(why, "the group's table does not follow its workers"),
            }
        }
        self.change.take()
    }

    /// Lets clients bind from the version with this number, if it is to come. Returns the members
    /// that have waited for it.
    pub fn commit(&mut self, version: u64) -> BTreeSet<u64> {
        match self.next.take_if(|next| next.version.number <= version) {
            Some(next) => {
                self.current = Some(next.version);
                core::mem::take(&mut self.waiting)
            }
            None => BTreeSet::new(),
        }
    }

    fn come(&mut self, next: Next) {
        self.change = Some(change_to(&next.version, next.is_urgent));
        self.next = Some(next);
    }

    /// The answers, of which each is one.
    fn answered(&self, answers: &Answers) -> Result<Vec<Answer>, String> {
        if answers.len() != self.names.len() {
            return Err("it has not answered for each service".to_owned());
        }
        let both = self.names.iter().zip(answers.iter());
        both.map(|(name, answer)| match answer {
            Ok(answer) => Ok(answer.clone()),
            Err(status) => Err(of_service(name, &status.to_string())),
        })
        .collect()
    }

    /// The schemas and forms of a worker.
    fn schemas_of(
        &self,
        reader: &mut Reader,
        answers: &[Answer],
    ) -> Result<(Vec<KnownSchema>, Vec<Form>), String> {
        let both = self.names.iter().zip(answers);
        let read = |(name, answer): (&String, &Answer)| {
            reader.read(name, answer).map_err(|why| of_service(name, &why))
        };
        let schemas = both.map(read).collect::<Result<Vec<_>, _>>()?;
        Ok((schemas, answers.iter().map(Form::of).collect()))
    }

    fn numbered(&mut self, schemas: (Vec<KnownSchema>, Vec<Form>)) -> Result<Version, String> {
        let number = self.versions + 1;
        let version = Version::new(number, &self.names, schemas, &mut self.numbers)?;
        self.versions = number;
        Ok(version)
    }

    /// The schemas and forms that the members have by now, if they are others than the current.
    fn followed(&self) -> Option<(Vec<KnownSchema>, Vec<Form>)> {
        let current = self.current.as_ref()?;
        let mut reader = Reader::default();
        let schema = |(at, known): (usize, &KnownSchema)| {
            let versions = self.members.versions(at);
            let hash = known.service().hash().to_bytes();
            if versions.is_empty() || versions.iter().any(|it| it.hash == hash) {
                return known.clone();
            }
            understands_all(&mut reader, &self.names[at], &versions)
                .unwrap_or_else(|| known.clone())
        };
        let schemas: Vec<_> = current.schemas.iter().enumerate().map(schema).collect();
        let hashes = schemas.iter().map(|known| known.service().hash().to_bytes());
        let forms = hashes.enumerate().map(|(at, hash)| self.members.form(at, hash));
        let forms = forms.collect::<Option<Vec<_>>>()?;
        let followed = (schemas, forms);
        (!current.is(&followed)).then_some(followed)
    }
}

/// The first of these schemas whose callers understand workers with each of them.
fn understands_all(reader: &mut Reader, name: &str, of: &[&Answer]) -> Option<KnownSchema> {
    of.iter().find_map(|answer| {
        // Who has it was judged, so it can be read.
        let known = reader.read(name, answer).ok()?;
        of.iter().all(|other| known.compare(reader, name, other).is_ok()).then_some(known)
    })
}

fn change_to(version: &Version, is_urgent: bool) -> Change {
    Change {
        version: version.number,
        services: version.services.clone(),
        is_first: false,
        is_urgent,
    }
}
