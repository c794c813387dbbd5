//! What reflection is asked and answers, in any version.

use std::collections::BTreeSet;

use petasos::Code;
use petasos_schema::{DescriptorFile, Files};

/// What answers.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) names: BTreeSet<String>,
    /// What the program brought, before what was made.
    pub(super) files: [Files; 2],
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question<'q> {
    /// For a file by its name.
    File(&'q str),
    /// For the file of a symbol.
    Symbol(&'q str),
    /// For the file of an extension of a message.
    Extension(&'q str, i32),
    /// For the numbers of a message's extensions.
    Extensions(&'q str),
    /// For all services.
    Services,
}

/// What it comes to.
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
            let what = "the request asks nothing that this server knows of".to_owned();
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

    /// The file that is found, with all that it imports, the first time that one is.
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

/// Names in descriptors begin with a dot; questions for them should not, but some do.
fn without_dot(name: &str) -> &str {
    name.strip_prefix('.').unwrap_or(name)
}
