//! The declarations, imports and names of one module, read from its tokens.

use std::collections::BTreeSet;

use super::tokens::{Token, Tokens};

/// The content of one module, without that of the modules in it.
#[derive(Debug, Default)]
pub struct Body {
    /// `mod name;` with the file's name if an attribute gives one, and `mod name { … }`.
    pub children: Vec<Child>,
    /// Names that are defined in the module itself, not in a function or block of it.
    pub definitions: BTreeSet<String>,
    /// Macros by example among the definitions.
    pub macros: BTreeSet<String>,
    /// Leaves of `use` declarations.
    pub imports: Vec<Import>,
    /// Paths of two or more names outside of `use` declarations.
    pub paths: Vec<Path>,
    /// Macros that are called by their bare name.
    pub macro_calls: Vec<Path>,
    /// Every word outside of `use` declarations.
    pub words: BTreeSet<String>,
}

/// A module that is declared in another.
#[derive(Debug)]
pub struct Child {
    pub name: String,
    pub text: ChildText,
}

/// Where a module's text is.
#[derive(Debug)]
pub enum ChildText {
    Inline(Body),
    File,
    /// Position of the quote that begins the file's name.
    FileNamedAt(usize),
}

/// One name that a `use` declaration imports.
#[derive(Debug)]
pub struct Import {
    pub path: Path,
    /// The local name; `None` for `*`.
    pub name: Option<String>,
    /// Whether the declaration begins with `pub`.
    pub reexports: bool,
    /// Whether it is in the module itself, not in a function.
    pub at_module_level: bool,
}

/// Names separated by `::`.
#[derive(Clone, Debug)]
pub struct Path {
    pub names: Vec<String>,
    pub line: usize,
}

/// Reads a whole file.
pub fn file(tokens: &[Token]) -> Body {
    body(&mut tokens.iter().peekable())
}

/// Reads until the brace that closes the module, or the end.
fn body(tokens: &mut Tokens) -> Body {
    let mut reader = Reader::default();
    while let Some(token) = tokens.next() {
        if token.is('}') && reader.depth == 0 {
            break;
        }
        reader.token(token, tokens);
    }
    reader.body
}

#[derive(Default)]
struct Reader {
    body: Body,
    /// Brackets of any kind that are open.
    depth: usize,
    /// Whether `pub` was seen since the last item.
    public: bool,
    /// Position of the quote in the last `#[path = "…"]`.
    path_attribute: Option<usize>,
    /// Whether the previous token is `::`, `.` or `$`, so that the next one begins no path.
    continues: bool,
}

impl Reader {
    fn token(&mut self, token: &Token, tokens: &mut Tokens) {
        let continues = std::mem::take(&mut self.continues);
        if let Some(word) = token.word() {
            return self.word(word, continues, token.line, tokens);
        }
        self.continues = token.separates() || token.is('.') || token.is('$');
        if token.is('{') || token.is('(') || token.is('[') {
            self.depth += 1;
        } else if token.is('}') || token.is(')') || token.is(']') {
            self.depth = self.depth.saturating_sub(1);
        } else if token.is('#') {
            self.attribute(tokens);
        }
        if token.is(';') || token.is('}') {
            self.public = false;
        }
    }

    fn attribute(&mut self, tokens: &Tokens) {
        let start: Vec<&Token> = tokens.clone().take(4).collect();
        if let [open, path, equals, quote] = start[..] {
            let named = open.is('[') && path.word() == Some("path");
            if named && equals.is('=') && quote.is('"') {
                self.path_attribute = Some(quote.at);
            }
        }
    }

    fn word(&mut self, word: &str, continues: bool, line: usize, tokens: &mut Tokens) {
        let next_is = |mark| tokens.clone().next().is_some_and(|token: &Token| token.is(mark));
        match word {
            "pub" => self.public = true,
            "use" if !next_is('<') => return self.declaration(tokens),
            "mod" => return self.module(tokens),
            "macro_rules" if next_is('!') => return self.macro_definition(tokens),
            _ if self.depth == 0 && is_definition(word) => self.definition(tokens),
            _ => {}
        }
        self.body.words.insert(word.to_owned());
        if continues {
            skip_path(tokens);
        } else {
            self.path(word, line, tokens);
        }
    }

    /// The name after `struct`, `fn` and similar words. The token is not consumed.
    fn definition(&mut self, tokens: &Tokens) {
        let mut ahead = tokens.clone().map_while(Token::word);
        let Some(name) = ahead.find(|word| !["mut", "unsafe", "extern", "async"].contains(word))
        else {
            return;
        };
        if !is_definition(name) {
            self.body.definitions.insert(name.to_owned());
        }
    }

    fn macro_definition(&mut self, tokens: &mut Tokens) {
        tokens.next();
        if let Some(name) = tokens.next().and_then(Token::word) {
            self.body.definitions.insert(name.to_owned());
            self.body.macros.insert(name.to_owned());
        }
    }

    fn path(&mut self, first: &str, line: usize, tokens: &mut Tokens) {
        let mut names = vec![first.to_owned()];
        names.extend(skip_path(tokens));
        let mut ahead = tokens.clone();
        let calls_macro = ahead.next().is_some_and(|token| token.is('!'))
            && ahead.next().is_some_and(|token| token.is('(') || token.is('[') || token.is('{'));
        self.body.words.extend(names.iter().cloned());
        match names.len() {
            1 if calls_macro => self.body.macro_calls.push(Path { names, line }),
            1 => {}
            _ => self.body.paths.push(Path { names, line }),
        }
    }

    fn module(&mut self, tokens: &mut Tokens) {
        let Some(name) = tokens.next().and_then(Token::word) else { return };
        let named_at = self.path_attribute.take();
        self.public = false;
        let text = match tokens.next() {
            Some(token) if token.is('{') => ChildText::Inline(body(tokens)),
            _ => named_at.map_or(ChildText::File, ChildText::FileNamedAt),
        };
        self.body.children.push(Child { name: name.to_owned(), text });
    }

    fn declaration(&mut self, tokens: &mut Tokens) {
        let (reexports, at_module_level) = (std::mem::take(&mut self.public), self.depth == 0);
        let mut leaves = Vec::new();
        use_tree(&mut Vec::new(), tokens, &mut leaves);
        self.body.imports.extend(leaves.into_iter().map(|(path, name)| Import {
            path,
            name,
            reexports,
            at_module_level,
        }));
    }
}

fn is_definition(word: &str) -> bool {
    const KEYWORDS: [&str; 8] =
        ["struct", "enum", "union", "trait", "type", "fn", "const", "static"];
    KEYWORDS.contains(&word)
}

/// Takes `::name` as often as it occurs.
fn skip_path(tokens: &mut Tokens) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let mut ahead = tokens.clone();
        let separated = ahead.next().is_some_and(Token::separates);
        let Some(name) = ahead.next().and_then(Token::word).filter(|_| separated) else {
            return names;
        };
        names.push(name.to_owned());
        *tokens = ahead;
    }
}

/// Reads one tree of a `use` declaration, with the `;`, `,` or `}` after it.
fn use_tree(
    prefix: &mut Vec<String>,
    tokens: &mut Tokens,
    leaves: &mut Vec<(Path, Option<String>)>,
) {
    let depth = prefix.len();
    let mut alias = None;
    let mut grouped = false;
    while let Some(token) = tokens.next() {
        match token.word() {
            Some("as") => alias = tokens.next().and_then(Token::word).map(str::to_owned),
            Some(word) => prefix.push(word.to_owned()),
            None if token.is('{') => {
                grouped = true;
                use_group(prefix, tokens, leaves);
            }
            None if token.is('*') => {
                leaves.push((Path { names: prefix.clone(), line: token.line }, None));
                grouped = true;
            }
            None if token.separates() => {}
            None => {
                if !grouped && prefix.len() > depth {
                    leaves.push(leaf(prefix, alias, token.line));
                }
                break;
            }
        }
        if tokens.peek().is_some_and(|token| token.is('}')) {
            if !grouped && prefix.len() > depth {
                leaves.push(leaf(prefix, alias, token.line));
            }
            break;
        }
    }
    prefix.truncate(depth);
}

fn use_group(
    prefix: &mut Vec<String>,
    tokens: &mut Tokens,
    leaves: &mut Vec<(Path, Option<String>)>,
) {
    while tokens.peek().is_some_and(|token| !token.is('}')) {
        use_tree(prefix, tokens, leaves);
    }
    tokens.next();
}

fn leaf(prefix: &[String], alias: Option<String>, line: usize) -> (Path, Option<String>) {
    let mut names = prefix.to_vec();
    if names.len() > 1 && names.last().is_some_and(|name| name == "self") {
        names.pop();
    }
    let name = alias.or_else(|| names.last().cloned());
    (Path { names, line }, name)
}
