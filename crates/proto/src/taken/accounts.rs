//! What a worker knows of its clients: how many sessions they have, and how long their claims are
//! kept (RT17, RT39).

use core::time::Duration;

/// Claims lapse no sooner.
pub(super) const CLAIM_MIN: Duration = Duration::from_millis(1);
/// `claim` is halved no more often than this: 64 s are 1 ms then.
const HALVED_MAX: u8 = 16;

/// Clients by the caller's places.
#[derive(Debug)]
pub(super) struct Accounts {
    /// As far as there have been clients.
    accounts: Vec<Account>,
    clients_max: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Entries of the table.
    pub(super) sessions: u32,
    /// How often `claim` is halved for it.
    halved: u8,
}

impl Accounts {
    pub(super) fn new(clients_max: u32) -> Accounts {
        Accounts { accounts: Vec::new(), clients_max }
    }

    #[inline]
    pub(super) fn get(&self, client: u32) -> Account {
        self.accounts.get(client as usize).copied().unwrap_or_default()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, client: u32) -> &mut Account {
        let place = client as usize;
        if place >= self.accounts.len() {
            assert!(client < self.clients_max, "there is no such place for a client");
            self.accounts.resize(place + 1, Account::default());
        }
        &mut self.accounts[place]
    }

    /// The place is to be another client's.
    pub(super) fn forget(&mut self, client: u32) {
        if let Some(account) = self.accounts.get_mut(client as usize) {
            *account = Account::default();
        }
    }
}

impl Account {
    /// How long a claim of the client is kept, where `usual` is the membership's value.
    pub(super) fn claim(&self, usual: Duration) -> Duration {
        (usual / (1 << u32::from(self.halved))).max(CLAIM_MIN.min(usual))
    }

    /// One has lapsed.
    pub(super) fn shorten(&mut self, usual: Duration) {
        if self.claim(usual) > CLAIM_MIN {
            self.halved = (self.halved + 1).min(HALVED_MAX);
        }
    }

    /// One was confirmed, in time or late.
    pub(super) fn lengthen(&mut self) {
        self.halved = self.halved.saturating_sub(1);
    }
}
