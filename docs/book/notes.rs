//! The service that chapters about callers call.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use petasos::{Msg, Request, Response, Sender, Status, Streaming};

use crate::guide::{Filter, Note, NoteId, Notebook, Summary};
use crate::newer;

/// Notes in memory. There is one under `n-1` from the start.
#[derive(Debug)]
pub struct Notes(Mutex<BTreeMap<String, Msg<Note>>>);

impl Default for Notes {
    fn default() -> Notes {
        let notes = Notes(Mutex::default());
        let mut first = Note::new();
        let mut edit = first.edit();
        edit.set_text("water the plants");
        edit.tags_mut().push("home");
        notes.keep(first);
        notes
    }
}

impl Notes {
    fn notes(&self) -> MutexGuard<'_, BTreeMap<String, Msg<Note>>> {
        self.0.lock().expect("nothing panics under the lock")
    }

    fn keep(&self, mut note: Msg<Note>) -> String {
        let mut notes = self.notes();
        let id = format!("n-{}", notes.len() + 1);
        note.set_id(&id);
        notes.insert(id.clone(), note);
        id
    }
}

impl Notebook for Notes {
    async fn find(&self, request: Request<NoteId>) -> Result<Response<Note>, Status> {
        let found = self.notes().get(request.id()).cloned();
        let found = found.ok_or_else(|| Status::not_found("there is no such note"))?;
        Ok(Response::new(found))
    }

    async fn add(&self, request: Request<Note>) -> Result<Response<NoteId>, Status> {
        if request.text().is_empty() {
            return Err(Status::invalid_argument("a note needs a text"));
        }
        let mut id = NoteId::new();
        id.set_id(self.keep(request.into_message()));
        Ok(Response::new(id))
    }

    async fn list(&self, filter: Request<Filter>, mut out: Sender<Note>) -> Result<(), Status> {
        let has_tag = |note: &Msg<Note>| {
            filter.tag().is_empty() || note.tags().iter().any(|tag| tag.as_str() == filter.tag())
        };
        let found: Vec<_> = self.notes().values().filter(|note| has_tag(note)).cloned().collect();
        for note in found {
            out.send(note).await?;
        }
        Ok(())
    }

    async fn import(&self, mut notes: Streaming<Note>) -> Result<Response<Summary>, Status> {
        let mut count = 0;
        while let Some(note) = notes.message().await? {
            self.keep(note);
            count += 1;
        }
        let mut summary = Summary::new();
        summary.set_notes(count);
        Ok(Response::new(summary))
    }

    async fn echo(&self, mut notes: Streaming<Note>, mut out: Sender<Note>) -> Result<(), Status> {
        while let Some(mut note) = notes.message().await? {
            let loud = note.text().to_uppercase();
            note.set_text(loud);
            out.send(note).await?;
        }
        Ok(())
    }
}

/// The newer version of the service, which knows one note.
#[derive(Clone, Copy, Debug)]
pub struct NewerNotes;

impl newer::Notebook for NewerNotes {
    async fn find(&self, _: Request<newer::NoteId>) -> Result<Response<newer::Note>, Status> {
        let mut note = newer::Note::new();
        note.set_text("as everybody knows it").set_author("as only newer clients do");
        Ok(Response::new(note))
    }

    async fn add(&self, _: Request<newer::Note>) -> Result<Response<newer::NoteId>, Status> {
        Err(Status::unimplemented("nothing is kept here"))
    }

    async fn list(&self, _: Request<newer::Filter>, _: Sender<newer::Note>) -> Result<(), Status> {
        Ok(())
    }

    async fn import(&self, _: Streaming<newer::Note>) -> Result<Response<newer::Summary>, Status> {
        Err(Status::unimplemented("nothing is kept here"))
    }

    async fn echo(&self, _: Streaming<newer::Note>, _: Sender<newer::Note>) -> Result<(), Status> {
        Ok(())
    }

    async fn remove(&self, _: Request<newer::NoteId>) -> Result<Response<newer::Note>, Status> {
        Err(Status::not_found("nothing is kept here"))
    }
}
