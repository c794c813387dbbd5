//! The methods that write a message through its `Msg`, without `edit()`.
//!
//! A `Msg` is another crate's type and can be given no methods here. It dereferences to a type of
//! the message's own, which has them.

use crate::cursor::{self, CHAINED, Method};
use crate::member::Subject;
use crate::text::Text;

/// Methods of traits that `Msg` implements, if they are in scope: they would hide a method of
/// this name, so that there is none. `edit().borrow_mut()` still works.
const HIDDEN: &[&str] = &["as_mut", "borrow_mut", "deref_mut"];

/// Writes the methods. The type itself is the macro's, in which it is transparent.
pub(crate) fn write(subject: &Subject<'_>, text: &mut Text) {
    let is_free = |method: &Method| !HIDDEN.contains(&&*method.head.name);
    let methods = cursor::all_methods(subject).into_iter().filter(is_free);
    let methods: Vec<Method> = methods.map(|method| forward(subject, method)).collect();
    if !methods.is_empty() {
        text.blank();
        cursor::write_impl(&subject.owner(), &methods, text);
    }
}

/// A method that gave the cursor back opens one, and gives that: what follows in a chain costs no
/// more than behind `edit()`.
fn forward(subject: &Subject<'_>, mut method: Method) -> Method {
    if method.head.result == CHAINED {
        let name = method.head.name.split('<').next().unwrap_or_default();
        let value = if method.head.arguments.len() > 1 { "value" } else { "" };
        let call = format!("edit.{name}({value});");
        method.body = vec!["let mut edit = self.0.edit();".to_owned(), call, "edit".to_owned()];
        method.head.result = format!("{}<'_>", subject.cursor());
    }
    method
}
