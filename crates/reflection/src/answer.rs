//! The requests and answers of reflection, independent of the version.

use std::collections::BTreeSet;

use petasos::Code;
use petasos_schema::{DescriptorFile, Files};

/// Answers requests.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) names: BTreeSet<String>,
    /// The files that the program has added, then those made from schemas.
    pub(super) files: [Files; 2],
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question<'q> {
    /// A file, by its name.
    File(&'q str),
    /// The file of a symbol.
    Symbol(&'q str),
    /// The file of an extension of a message.
    Extension(&'q str, i32),
    /// The numbers of a message's extensions.
    Extensions(&'q str),
    /// All services.
    Services,
}

/// The answer to a request.
#[derive(Debug)]
pub(super) enum Answer<'a> {
    /// Encoded files.
    Files(Vec<&'a [u8]>),
    Extensions {
        of: &'a str,
        numbers: Vec<i32>,
    },
    Services(&'a BTreeSet<String>),
    /// Why there is no answer.
    Nothing(Code, String),
}

impl Inner {
    pub(super) fn answer<'a>(&'a self, question: Option<Question<'a>>) -> Answer<'a> {
        let Some(question) = question else {
            let what = "the request asks for nothing that this server supports".to_owned();
            return Answer::Nothing(Code::InvalidArgument, what);
        };
        let missing = |what: String| Answer::Nothing(Code::NotFound, what);
        match question {
            Question::Services => Answer::Services(&self.names),
            Question::File(name) => self
                .files(|files| files.file(name))
                .unwrap_or_else(|| missing(format!("no file `{name}` is known"))),
            Question::Symbol(name) => self
                .files(|files| files.file_of_symbol(without_dot(name)))
                .unwrap_or_else(|| missing(format!("no symbol `{name}` is known"))),
            Question::Extension(name, number) => self
                .files(|files| files.file_of_extension(without_dot(name), number))
                .unwrap_or_else(|| missing(format!("`{name}` has no known extension {number}"))),
            Question::Extensions(name) => self
                .extensions(without_dot(name))
                .unwrap_or_else(|| missing(format!("no message `{name}` is known"))),
        }
    }

    /// The first file that is found, and all files that it imports.
    fn files<'a>(
        &'a self,
        find: impl Fn(&'a Files) -> Option<&'a DescriptorFile>,
    ) -> Option<Answer<'a>> {
        self.files.iter().find_map(|files| {
            let whole = files.with_imports(find(files)?);
            Some(Answer::Files(whole.into_iter().map(DescriptorFile::bytes).collect()))
        })
    }

    fn extensions<'a>(&'a self, of: &'a str) -> Option<Answer<'a>> {
        let known = self.files.iter().find_map(|files| files.extension_numbers(of));
        known.map(|numbers| Answer::Extensions { of, numbers })
    }
}

/// Removes a leading dot. Names in descriptors have one; names in requests should not, but some do.
fn without_dot(name: &str) -> &str {
    name.strip_prefix('.').unwrap_or(name)
}
