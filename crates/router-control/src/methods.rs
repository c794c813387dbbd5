//! The group's table of methods: who judges workers by it, and what workers are told (RT31, RT36).
//!
//! Another version of the table begins with an epoch: workers are told it before that epoch, and
//! once they have confirmed it, it is committed, so that clients bind from it, and clients are told
//! the epoch, with which they bind anew.

use std::sync::Arc;

use petasos_control::{BODY_BYTES_MAX, Table, Text};
use petasos_endpoint::group_router::{TellError, Told};
use petasos_router_table::{Change, Judge, TableService};

/// Epoch, first number, flags, and the length of the service's name.
const FIXED_BYTES: usize = 2 + 2 + 1 + 1;

/// See the module's documentation.
pub(crate) struct MethodTable {
    pub(crate) judge: Judge,
    pub(crate) versions: Versions,
}

impl MethodTable {
    pub(crate) fn new(judge: Judge) -> MethodTable {
        MethodTable { judge, versions: Versions::default() }
    }

    /// Clients are about to be told the newest epoch.
    pub(crate) fn commit(&mut self) {
        if let Some(version) = self.versions.uncommitted.take() {
            self.judge.commit(version);
        }
    }
}

/// The versions of the table: which one workers are told.
#[derive(Default)]
pub(crate) struct Versions {
    told: Arc<WholeTable>,
    /// What comes with the next epoch.
    next: Option<Change>,
    /// What workers are told, and clients cannot bind from yet.
    uncommitted: Option<u64>,
    /// The last epoch that came with a version, counted from the first.
    changed_at: Option<u64>,
}

/// What workers are told, but for the epoch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WholeTable {
    /// 0: no worker has defined the table yet.
    version: u64,
    messages: Vec<Table>,
}

impl Versions {
    /// What workers are told.
    pub(crate) fn told(&self) -> &Arc<WholeTable> {
        &self.told
    }

    /// There is another version. Returns whether the next epoch is waited for.
    pub(crate) fn change(&mut self, change: Change) -> bool {
        let is_urgent = change.is_urgent && !change.is_first;
        if change.is_first {
            self.told = Arc::new(WholeTable::of(&change));
        } else {
            self.next = Some(change).filter(|it| it.version > self.told.version);
        }
        is_urgent
    }

    /// An epoch begins, the `begun`th: a version that has waited for it does so, too.
    pub(crate) fn begin(&mut self, begun: u64) {
        if let Some(change) = self.next.take() {
            self.told = Arc::new(WholeTable::of(&change));
            (self.uncommitted, self.changed_at) = (Some(change.version), Some(begun));
        }
    }

    /// Whether a client has to bind anew that knows an epoch `behind` the newest, of `begun`.
    pub(crate) fn binds_anew(&self, begun: u64, behind: u16) -> bool {
        self.changed_at.is_some_and(|at| begun - at < u64::from(behind))
    }
}

impl WholeTable {
    fn of(change: &Change) -> WholeTable {
        WholeTable { version: change.version, messages: messages(&change.services) }
    }
}

/// How much of the table a connection was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MethodsTold {
    /// The newest version that was told whole; 0 is none.
    version: u64,
    /// A version of which more is to come: so many messages, with this epoch.
    part: Option<(Arc<WholeTable>, usize, u16)>,
}

impl MethodsTold {
    pub(crate) fn is_all(&self, table: &WholeTable) -> bool {
        self.version == table.version && self.version != 0
    }

    /// Goes on telling: all of a version with the epoch that was the newest at its beginning, and
    /// then the next one.
    ///
    /// # Errors
    /// A message cannot be told now. The same one is next.
    pub(crate) fn tell(
        &mut self,
        table: &Arc<WholeTable>,
        newest: u16,
        tell: &mut dyn FnMut(Told) -> Result<(), TellError>,
    ) -> Result<(), TellError> {
        while table.version != 0 && (self.part.is_some() || !self.is_all(table)) {
            let begun = || (table.clone(), 0, newest);
            let (whole, at, epoch) = self.part.get_or_insert_with(begun);
            tell(Told::Table(Table { epoch: *epoch, ..whole.messages[*at].clone() }))?;
            *at += 1;
            if *at == whole.messages.len() {
                self.version = whole.version;
                self.part = None;
            }
        }
        Ok(())
    }

    /// A refusal ends a table of which more was to come: it begins anew (RT34).
    pub(crate) fn on_join_refused(&mut self) {
        self.part = None;
    }
}

/// The table in as many messages as it takes. Its first epoch is told with it.
fn messages(services: &[TableService]) -> Vec<Table> {
    let mut messages = Vec::new();
    for service in services {
        let mut first = service.first;
        let mut bytes = FIXED_BYTES + service.name.len();
        let mut methods = Vec::new();
        for name in &service.methods {
            if bytes + 1 + name.len() > BODY_BYTES_MAX {
                let count = methods.len() as u16;
                messages.push(message(&service.name, first, core::mem::take(&mut methods)));
                (first, bytes) = (first + count, FIXED_BYTES + service.name.len());
            }
            bytes += 1 + name.len();
            methods.push(Text::new(name));
        }
        messages.push(message(&service.name, first, methods));
    }
    if let Some(last) = messages.last_mut() {
        last.is_last = true;
    }
    messages
}

fn message(
    service: &str,
    first: u16,
    methods: Vec<Text<{ petasos_router_table::NAME_BYTES_MAX }>>,
) -> Table {
    Table { epoch: 0, first, is_last: false, service: Text::new(service), methods }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, first: u16, methods: usize, bytes: usize) -> TableService {
        let methods = (0..methods).map(|at| format!("{at:0bytes$}")).collect();
        TableService { name: name.to_owned(), first, methods }
    }

    #[test]
    fn rt36_a_table_is_told_in_messages_that_fit_and_only_the_last_says_so() {
        let longest = "s".repeat(255);
        let services =
            [service("a.A", 1, 3, 3), service(&longest, 4, 100, 255), service("a.None", 104, 0, 1)];
        let messages = messages(&services);
        let mut next = 0;
        for (at, message) in messages.iter().enumerate() {
            assert_eq!(message.is_last, at == messages.len() - 1);
            let names = message.methods.iter().map(|name| 1 + name.as_str().len());
            let bytes = 5 + 1 + message.service.as_str().len() + names.sum::<usize>();
            assert!(bytes <= BODY_BYTES_MAX, "{bytes}");
            if at > 0 {
                assert_eq!(message.first, next, "numbers go on");
            }
            next = message.first + message.methods.len() as u16;
        }
        // No message is begun before the one before is full.
        assert_eq!(messages.len(), 1 + 100usize.div_ceil(14) + 1);
        for service in &services {
            let of = messages.iter().filter(|it| it.service.as_str() == service.name);
            let methods: Vec<_> = of.flat_map(|it| &it.methods).map(Text::as_str).collect();
            assert_eq!(methods, service.methods);
        }
    }

    fn change(version: u64, services: Vec<TableService>) -> Change {
        Change { version, services: services.into(), is_first: version == 1, is_urgent: true }
    }

    fn table_of(version: u64, services: Vec<TableService>) -> Arc<WholeTable> {
        Arc::new(WholeTable::of(&change(version, services)))
    }

    /// The messages with an epoch.
    fn with(epoch: u16, table: &WholeTable) -> impl Iterator<Item = Table> {
        table.messages.iter().map(move |it| Table { epoch, ..it.clone() })
    }

    /// Tells as many messages as there is room for.
    fn tell(of: &mut MethodsTold, table: &Arc<WholeTable>, newest: u16, room: usize) -> Vec<Table> {
        let mut heard = Vec::new();
        let result = of.tell(table, newest, &mut |told| {
            let Told::Table(table) = told else { panic!("{told:?} is no table") };
            if heard.len() == room {
                return Err(TellError::Backlogged);
            }
            heard.push(table);
            Ok(())
        });
        assert_eq!(result.is_err(), !of.is_all(table));
        heard
    }

    #[test]
    fn rt36_a_table_is_told_once_and_all_of_it_with_one_epoch() {
        let table = table_of(1, vec![service("a.A", 1, 70, 255)]);
        assert_eq!(table.messages.len(), 5);
        let mut told = MethodsTold::default();
        let mut heard = tell(&mut told, &table, 7, 2);
        // A newer epoch begins meanwhile.
        heard.extend(tell(&mut told, &table, 8, 2));
        heard.extend(tell(&mut told, &table, 8, 2));
        assert!(told.is_all(&table));
        assert_eq!(heard, with(7, &table).collect::<Vec<_>>());
        told.on_join_refused();
        assert_eq!(tell(&mut told, &table, 9, 2), [], "it is known");
    }

    #[test]
    fn rt36_another_version_is_told_after_all_of_the_one_before() {
        let first = table_of(1, vec![service("a.A", 1, 70, 255)]);
        let second = table_of(2, vec![service("a.A", 71, 70, 255)]);
        let mut told = MethodsTold::default();
        let mut heard = tell(&mut told, &first, 7, 2);
        heard.extend(tell(&mut told, &second, 8, 2));
        heard.extend(tell(&mut told, &second, 8, 9));
        let expected = with(7, &first).chain(with(8, &second));
        assert_eq!(heard, expected.collect::<Vec<_>>());
        assert_eq!(tell(&mut told, &second, 9, 2), []);
    }

    #[test]
    fn rt34_a_table_that_a_refusal_has_ended_begins_anew() {
        let table = table_of(1, vec![service("a.A", 1, 70, 255)]);
        let mut told = MethodsTold::default();
        tell(&mut told, &table, 7, 2);
        told.on_join_refused();
        let heard = tell(&mut told, &table, 8, 9);
        assert_eq!(heard, with(8, &table).collect::<Vec<_>>());
    }

    #[test]
    fn rt31_who_knows_no_epoch_since_a_change_binds_anew() {
        let mut versions = Versions::default();
        assert!(!versions.change(change(1, Vec::new())), "nobody has bound");
        assert!(!versions.binds_anew(9, 4095));
        assert!(versions.change(change(2, Vec::new())), "it waits");
        assert!(!versions.binds_anew(9, 1));
        versions.begin(10);
        assert_eq!(versions.told().version, 2);
        for (begun, behind, anew) in
            [(10, 0, false), (10, 1, true), (12, 2, false), (12, 3, true), (9000, 4095, false)]
        {
            assert_eq!(versions.binds_anew(begun, behind), anew, "{begun}, {behind}");
        }
        // Epochs that begin without a version change nothing.
        versions.begin(13);
        assert!(!versions.binds_anew(13, 1));
    }
}
