//! The methods that write a message through its `Msg`, without `edit()`.
//!
//! `Msg` is a type of another crate, so it cannot get methods here. It dereferences to a type of
//! the message, which has them.

use crate::cursor::{self, CHAINED, Method};
use crate::member::Subject;
use crate::text::Text;

/// Methods of traits that `Msg` implements. If such a trait is in scope, its method would hide
/// ours, so none is generated. `edit().borrow_mut()` still works.
const HIDDEN: &[&str] = &["as_mut", "borrow_mut", "deref_mut"];

/// Writes the methods. The type itself comes from the macro, which makes it transparent.
pub(crate) fn write(subject: &Subject<'_>, text: &mut Text) {
    let is_free = |method: &Method| !HIDDEN.contains(&&*method.head.name);
    let methods = cursor::all_methods(subject).into_iter().filter(is_free);
    let methods: Vec<Method> = methods.map(|method| forward(subject, method)).collect();
    if !methods.is_empty() {
        text.blank();
        cursor::write_impl(&subject.owner(), &methods, text);
    }
}

/// Instead of returning the cursor, the method opens one and returns it. So the rest of a chain
/// costs no more than after `edit()`.
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
