//! The group's table of methods: who judges workers by it, and what workers are told (RT31, RT36).

use std::sync::Arc;

use petasos_control::{BODY_BYTES_MAX, Table, Text};
use petasos_endpoint::group_router::{TellError, Told};
use petasos_router_table::{Judge, TableService};

/// Epoch, first number, flags, and the length of the service's name.
const FIXED_BYTES: usize = 2 + 2 + 1 + 1;

/// See the module's documentation.
pub(crate) struct MethodTable {
    pub(crate) judge: Judge,
    /// What workers are told, but for the epoch. None before a worker has defined it; the same ever
    /// after.
    messages: Vec<Table>,
}

impl MethodTable {
    pub(crate) fn new(judge: Judge) -> MethodTable {
        MethodTable { judge, messages: Vec::new() }
    }

    /// A worker was accepted, and this is the table.
    pub(crate) fn define(&mut self, services: &Arc<[TableService]>) {
        if self.messages.is_empty() {
            self.messages = messages(services);
        }
    }

    pub(crate) fn messages(&self) -> &[Table] {
        &self.messages
    }
}

/// How much of the table a connection was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MethodsTold {
    /// So many messages, with this epoch.
    Part { messages: usize, epoch: u16 },
    /// It is not told again.
    All,
}

impl Default for MethodsTold {
    fn default() -> MethodsTold {
        MethodsTold::Part { messages: 0, epoch: 0 }
    }
}

impl MethodsTold {
    pub(crate) fn is_all(self) -> bool {
        self == MethodsTold::All
    }

    /// Goes on telling: all of it with the epoch that was the newest at its beginning.
    ///
    /// # Errors
    /// A message cannot be told now. The same one is next.
    pub(crate) fn tell(
        &mut self,
        table: &[Table],
        newest: u16,
        tell: &mut dyn FnMut(Told) -> Result<(), TellError>,
    ) -> Result<(), TellError> {
        while let MethodsTold::Part { messages, epoch } = *self {
            let Some(message) = table.get(messages) else { return Ok(()) };
            let epoch = if messages == 0 { newest } else { epoch };
            tell(Told::Table(Table { epoch, ..message.clone() }))?;
            *self = match message.is_last {
                true => MethodsTold::All,
                false => MethodsTold::Part { messages: messages + 1, epoch },
            };
        }
        Ok(())
    }

    /// A refusal ends a table of which more was to come: it begins anew (RT34).
    pub(crate) fn on_join_refused(&mut self) {
        if !self.is_all() {
            *self = MethodsTold::default();
        }
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

    /// Tells as many messages as there is room for.
    fn tell(of: &mut MethodsTold, table: &[Table], newest: u16, room: usize) -> Vec<Table> {
        let mut heard = Vec::new();
        let result = of.tell(table, newest, &mut |told| {
            let Told::Table(table) = told else { panic!("{told:?} is no table") };
            if heard.len() == room {
                return Err(TellError::Backlogged);
            }
            heard.push(table);
            Ok(())
        });
        assert_eq!(result.is_err(), !of.is_all());
        heard
    }

    #[test]
    fn rt36_a_table_is_told_once_and_all_of_it_with_one_epoch() {
        let table = messages(&[service("a.A", 1, 70, 255)]);
        assert_eq!(table.len(), 5);
        let mut told = MethodsTold::default();
        let mut heard = tell(&mut told, &table, 7, 2);
        // A newer epoch begins meanwhile.
        heard.extend(tell(&mut told, &table, 8, 2));
        heard.extend(tell(&mut told, &table, 8, 2));
        assert!(told.is_all());
        let expected = table.iter().map(|it| Table { epoch: 7, ..it.clone() });
        assert_eq!(heard, expected.collect::<Vec<_>>());
        told.on_join_refused();
        assert_eq!(tell(&mut told, &table, 9, 2), [], "it is known");
    }

    #[test]
    fn rt34_a_table_that_a_refusal_has_ended_begins_anew() {
        let table = messages(&[service("a.A", 1, 70, 255)]);
        let mut told = MethodsTold::default();
        tell(&mut told, &table, 7, 2);
        told.on_join_refused();
        let heard = tell(&mut told, &table, 8, 9);
        let expected = table.iter().map(|it| Table { epoch: 8, ..it.clone() });
        assert_eq!(heard, expected.collect::<Vec<_>>());
    }
}
