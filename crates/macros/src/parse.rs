//! Parsing of a message expression.

use std::iter::Peekable;

use proc_macro::token_stream::IntoIter;
use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

use crate::fields::{Field, Message, Value};

/// An error and its position.
pub(crate) struct Error {
    at: Span,
    what: &'static str,
}

impl Error {
    /// `compile_error!`, at the position of the error.
    pub(crate) fn into_tokens(self) -> TokenStream {
        let text = TokenTree::Literal(Literal::string(self.what));
        let mut group = Group::new(Delimiter::Brace, TokenStream::from(text));
        group.set_span(self.at);
        let tokens = [
            TokenTree::Ident(Ident::new("compile_error", self.at)),
            TokenTree::Punct(Punct::new('!', Spacing::Alone)),
            TokenTree::Group(group),
        ];
        TokenStream::from_iter(tokens.map(|mut token| {
            token.set_span(self.at);
            token
        }))
    }
}

type Result<T> = std::result::Result<T, Error>;

fn error<T>(at: Span, what: &'static str) -> Result<T> {
    Err(Error { at, what })
}

/// `Path { … }`
pub(crate) fn message(input: TokenStream) -> Result<Message> {
    let mut tokens: Vec<TokenTree> = input.into_iter().collect();
    let end = tokens.last().map_or_else(Span::call_site, TokenTree::span);
    let body = match tokens.pop() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => group,
        _ => return error(end, "a message is written `Type { field: value, … }`"),
    };
    if tokens.is_empty() {
        return error(end, "the message's type is missing: `Type { field: value, … }`");
    }
    let (fields, base) = fields(body.stream())?;
    Ok(Message { path: tokens.into_iter().collect(), fields, base })
}

/// The fields between a message's braces, and the expression after `..` at their end.
fn fields(body: TokenStream) -> Result<(Vec<Field>, Option<TokenStream>)> {
    let mut tokens = body.into_iter().peekable();
    let mut fields = Vec::new();
    while let Some(token) = tokens.next() {
        if is_punct(&token, '.') {
            let base = rest_of_spread(&mut tokens, token.span())?;
            return match tokens.next() {
                None => Ok((fields, Some(base))),
                Some(token) => error(token.span(), "`..message` stands at the end"),
            };
        }
        let TokenTree::Ident(name) = token else {
            return error(token.span(), "a field's name is expected");
        };
        let field = field(name, &mut tokens)?;
        if replaces(&field, &fields) {
            return error(field.name.span(), "the field is set twice: this replaces its value");
        }
        fields.push(field);
    }
    Ok((fields, None))
}

/// Whether a field sets anew what one of `others` has set. Parts of a message, a list or a map are
/// added to what is there.
fn replaces(field: &Field, others: &[Field]) -> bool {
    let name = field.bare_name();
    matches!(field.value, Value::Plain(_)) && others.iter().any(|other| other.bare_name() == name)
}

fn field(name: Ident, tokens: &mut Peekable<IntoIter>) -> Result<Field> {
    match tokens.next() {
        None => {}
        Some(token) if is_punct(&token, ',') => {}
        Some(token) if is_punct(&token, ':') => {
            let value = expression(tokens);
            return Ok(Field { value: value_of(value, token.span())?, name });
        }
        Some(token) => return error(token.span(), "`:` or `,` is expected after a field's name"),
    }
    let value = Value::Plain(TokenStream::from(TokenTree::Ident(name.clone())));
    Ok(Field { name, value })
}

/// The tokens up to the next comma, which is removed as well.
fn expression(tokens: &mut Peekable<IntoIter>) -> Vec<TokenTree> {
    let mut expression = Vec::new();
    for token in tokens.by_ref() {
        if is_punct(&token, ',') {
            break;
        }
        expression.push(token);
    }
    expression
}

fn value_of(tokens: Vec<TokenTree>, before: Span) -> Result<Value> {
    if let [TokenTree::Group(group)] = &tokens[..] {
        match group.delimiter() {
            Delimiter::Brace if is_map(group) => return map(group.stream()),
            Delimiter::Brace => {
                return match fields(group.stream())? {
                    (fields, None) => Ok(Value::Message(fields)),
                    (_, Some(_)) => error(group.span(), "`..message` is for the outermost message"),
                };
            }
            Delimiter::Bracket => return Ok(Value::List(list(group.stream())?)),
            Delimiter::Parenthesis | Delimiter::None => {}
        }
    }
    let mut tokens = tokens.into_iter().collect::<TokenStream>().into_iter().peekable();
    match tokens.peek() {
        None => error(before, "a value is expected"),
        Some(token) if is_punct(token, '.') => {
            let dot = tokens.next().expect("it was just seen");
            Ok(Value::Spread(rest_of_spread(&mut tokens, dot.span())?))
        }
        Some(_) => Ok(Value::Plain(tokens.collect())),
    }
}

fn list(body: TokenStream) -> Result<Vec<Value>> {
    let mut tokens = body.into_iter().peekable();
    let mut values = Vec::new();
    while let Some(token) = tokens.peek() {
        let at = token.span();
        let element = expression(&mut tokens);
        values.push(match value_of(element, at)? {
            Value::List(_) | Value::Map(_) => {
                return error(at, "lists hold values and messages, not lists or maps");
            }
            value => value,
        });
    }
    Ok(values)
}

/// Whether the content of the braces begins with `key =>`.
fn is_map(group: &Group) -> bool {
    let mut tokens =
        group.stream().into_iter().take_while(|token| !is_punct(token, ',')).peekable();
    while let Some(token) = tokens.next() {
        let arrow = tokens.peek().is_some_and(|next| is_punct(next, '>'));
        if is_punct(&token, '=') && arrow {
            return true;
        }
    }
    false
}

fn map(body: TokenStream) -> Result<Value> {
    let mut tokens = body.into_iter().peekable();
    let mut entries = Vec::new();
    while let Some(token) = tokens.peek() {
        let at = token.span();
        let entry = expression(&mut tokens);
        let is_arrow = |pair: &[TokenTree]| is_punct(&pair[0], '=') && is_punct(&pair[1], '>');
        let Some(arrow) = entry.windows(2).position(is_arrow).filter(|at| *at > 0) else {
            return error(at, "a map's entries are written `key => value`");
        };
        let key = entry[..arrow].iter().cloned().collect();
        let value = match value_of(entry[arrow + 2..].to_vec(), entry[arrow].span())? {
            value @ (Value::Plain(_) | Value::Message(_)) => value,
            _ => return error(at, "maps hold values and messages, not lists or maps"),
        };
        entries.push((key, value));
    }
    Ok(Value::Map(entries))
}

/// The expression after `..`, of which one dot was parsed already.
fn rest_of_spread(tokens: &mut Peekable<IntoIter>, at: Span) -> Result<TokenStream> {
    match tokens.next() {
        Some(token) if is_punct(&token, '.') => {}
        _ => return error(at, "`..` is expected"),
    }
    let rest: TokenStream = expression(tokens).into_iter().collect();
    if rest.is_empty() { error(at, "an expression is expected after `..`") } else { Ok(rest) }
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}
