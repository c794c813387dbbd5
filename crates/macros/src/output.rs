//! Translation of a message expression to calls of setters.

use proc_macro::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};

use crate::fields::{Field, Message, Value};

/// The program is not to blame for parentheses that the parser needs.
const LINTS: [&str; 2] = ["unused_parens", "unused_braces"];

/// `{ let message = { let mut message = Type::new(); …; message }; message }`
pub(crate) fn expression(message: Message) -> TokenStream {
    let made = hidden("message");
    let inner = TokenStream::from(filled(message));
    let mut body = allowing(&LINTS);
    body.extend([word("let", Span::mixed_site()), made.clone(), alone('=')]);
    body.extend(inner);
    body.extend([alone(';'), made]);
    TokenStream::from(braces(body))
}

/// `{ let mut message = Type::new(); { let mut edit = message.edit(); … } message }`
fn filled(message: Message) -> TokenTree {
    let Message { path, fields, base } = message;
    let (owner, cursor) = (hidden("message"), hidden("edit"));
    let begin = base.unwrap_or_else(|| {
        let mut new = path.clone();
        new.extend([
            joint(':'),
            alone(':'),
            word("new", Span::mixed_site()),
            TokenTree::Group(Group::new(Delimiter::Parenthesis, TokenStream::new())),
        ]);
        new
    });
    let mut body = TokenStream::new();
    body.extend(bind(&owner, begin));
    if !fields.is_empty() {
        let mut block = TokenStream::new();
        let edit = call(owner.clone(), word("edit", Span::mixed_site()), TokenStream::new());
        block.extend(bind(&cursor, edit));
        set_all(&cursor, fields, &mut block);
        body.extend([braces(block)]);
    }
    body.extend([owner]);
    braces(body)
}

fn set_all(cursor: &TokenTree, fields: Vec<Field>, out: &mut TokenStream) {
    for field in fields {
        let (span, name) = (field.name.span(), field.bare_name());
        let opened = word(&format!("{name}_mut"), span);
        match field.value {
            Value::Plain(value) => {
                let setter = word(&format!("set_{name}"), span);
                out.extend(call(cursor.clone(), setter, value));
                out.extend([alone(';')]);
            }
            Value::Message(fields) => within(cursor, opened, out, |inner, out| {
                set_all(inner, fields, out);
            }),
            Value::List(values) => within(cursor, opened, out, |list, out| {
                values.into_iter().for_each(|value| append(list, value, out));
            }),
            Value::Map(entries) => within(cursor, opened, out, |map, out| {
                entries.into_iter().for_each(|(key, value)| insert(map, key, value, out));
            }),
            Value::Spread(iterator) => within(cursor, opened, out, |list, out| {
                append(list, Value::Spread(iterator), out);
            }),
        }
    }
}

/// Appends an element of a list, or the items of an iterator.
fn append(list: &TokenTree, value: Value, out: &mut TokenStream) {
    let (method, argument) = match value {
        Value::Message(fields) => {
            let add = word("add", Span::mixed_site());
            return within(list, add, out, |inner, out| set_all(inner, fields, out));
        }
        Value::Plain(value) => ("push", value),
        Value::Spread(iterator) => ("extend", iterator),
        Value::List(_) | Value::Map(_) => unreachable!("the parser refuses them in lists"),
    };
    out.extend(call(list.clone(), word(method, Span::mixed_site()), argument));
    out.extend([alone(';')]);
}

fn insert(map: &TokenTree, key: TokenStream, value: Value, out: &mut TokenStream) {
    match value {
        Value::Plain(value) => {
            let mut both = key;
            both.extend([alone(',')]);
            both.extend(value);
            out.extend(call(map.clone(), word("insert", Span::mixed_site()), both));
            out.extend([alone(';')]);
        }
        Value::Message(fields) => {
            let at = word("at", Span::mixed_site());
            within_call(map, at, key, out, |inner, out| set_all(inner, fields, out));
        }
        _ => unreachable!("the parser refuses them in maps"),
    }
}

/// `{ let mut edit = outer.method(); … }`
fn within(
    outer: &TokenTree,
    method: TokenTree,
    out: &mut TokenStream,
    write: impl FnOnce(&TokenTree, &mut TokenStream),
) {
    within_call(outer, method, TokenStream::new(), out, write);
}

fn within_call(
    outer: &TokenTree,
    method: TokenTree,
    argument: TokenStream,
    out: &mut TokenStream,
    write: impl FnOnce(&TokenTree, &mut TokenStream),
) {
    let inner = hidden("edit");
    let mut block = TokenStream::new();
    let opened = call(outer.clone(), method, argument);
    block.extend(bind(&inner, opened));
    write(&inner, &mut block);
    out.extend([braces(block)]);
}

/// `#[allow(…)] let mut name = value;`
fn bind(name: &TokenTree, value: TokenStream) -> TokenStream {
    let site = Span::mixed_site();
    let mut tokens = allowing(&["unused_mut", "unused_variables"]);
    tokens.extend([word("let", site), word("mut", site), name.clone(), alone('=')]);
    tokens.extend(value);
    tokens.extend([alone(';')]);
    tokens
}

/// `#[allow(lint, …)]`
fn allowing(lints: &[&str]) -> TokenStream {
    let site = Span::mixed_site();
    let lints = lints.iter().flat_map(|lint| [word(lint, site), alone(',')]);
    let list = Group::new(Delimiter::Parenthesis, lints.collect());
    let allow = TokenStream::from_iter([word("allow", site), TokenTree::Group(list)]);
    TokenStream::from_iter([alone('#'), TokenTree::Group(Group::new(Delimiter::Bracket, allow))])
}

/// `object.method(argument)`. Errors about the call point at the method.
fn call(object: TokenTree, method: TokenTree, argument: TokenStream) -> TokenStream {
    let mut arguments = Group::new(Delimiter::Parenthesis, argument);
    arguments.set_span(method.span());
    TokenStream::from_iter([object, alone('.'), method, TokenTree::Group(arguments)])
}

/// A variable that the program's own expressions cannot see.
fn hidden(name: &str) -> TokenTree {
    word(name, Span::mixed_site())
}

fn word(name: &str, span: Span) -> TokenTree {
    TokenTree::Ident(Ident::new(name, span))
}

fn alone(punct: char) -> TokenTree {
    TokenTree::Punct(Punct::new(punct, Spacing::Alone))
}

fn joint(punct: char) -> TokenTree {
    TokenTree::Punct(Punct::new(punct, Spacing::Joint))
}

fn braces(body: TokenStream) -> TokenTree {
    TokenTree::Group(Group::new(Delimiter::Brace, body))
}
