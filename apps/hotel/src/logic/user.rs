//! Who the guests are.

use std::collections::HashMap;

use crate::calls::User;
use crate::error::Error;
use crate::messages::user::{CheckReply, CheckRequest};
use crate::store::{Store, data};
use crate::timing::Watch;

/// The digests of all users' passwords, read when the service starts. As in the suite they are not
/// salted: these are no passwords of people.
pub struct Users {
    digests: HashMap<String, String>,
}

impl Users {
    /// Reads the users.
    ///
    /// # Errors
    /// The store's.
    pub async fn load(store: &impl Store) -> Result<Users, Error> {
        Ok(Users { digests: store.users().await?.into_iter().collect() })
    }
}

impl User for Users {
    async fn check_user(&self, request: CheckRequest, _: &mut Watch) -> Result<CheckReply, Error> {
        let digest = data::digest(&request.password);
        let correct = self.digests.get(&request.username).is_some_and(|known| *known == digest);
        Ok(CheckReply { correct })
    }
}
