//! Who an application is, besides its number and the name that it says.

use std::sync::Arc;

use petasos_engine::Application as Number;

use crate::application::{Application, Memory};

impl<M: Memory> Application<M> {
    /// Nobody else can have its name: from now on, that is the identity of its calls.
    pub fn prove_name(&mut self) {
        self.is_proved = true;
    }

    /// Whose process it is: policies know one with the same user and name again.
    pub fn of_user(&mut self, user: u32) {
        self.user = Some(user);
    }

    /// As what policies know it: by the number of the first of its attachments, if it is known
    /// again.
    pub fn policy_number(&self) -> Number {
        self.policed.number
    }

    /// Its name, if that is proved.
    pub(crate) fn identity(&self) -> Option<Arc<str>> {
        self.is_proved.then(|| self.name.clone())
    }
}
