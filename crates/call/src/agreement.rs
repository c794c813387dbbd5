//! Evaluating the answer to a bind at the caller (R3, R4).

use std::fmt::Write;

use crate::{BindResponse, CodecSet, Hash, Malformed, Status, UNARY_ONLY};

/// The caller's view of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerSchema {
    /// Version of the native layout that the caller supports, and [`UNARY_ONLY`]; 0: none.
    pub layout: u16,
    /// Hash of the caller's schema of the service; zeros: it has no schema.
    pub hash: Hash,
    /// The number of methods that the caller knows.
    pub methods: u16,
}

/// The counterpart of a caller's method at a server whose schema differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodMatch {
    /// Its index at the server.
    pub index: u16,
    /// The request's type has the same message hash in both schemas.
    pub same_request: bool,
    /// The response's type has the same message hash in both schemas.
    pub same_response: bool,
}

/// How to call a method in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundMethod {
    /// The method number in the packet's header.
    pub number: u16,
    /// Requests may be native (R4).
    pub native_request: bool,
    /// Responses may be native; each request says so.
    pub native_response: bool,
    /// Both hold for streams, too.
    pub native_streams: bool,
    /// The codecs that the server accepts.
    pub codecs: CodecSet,
}

impl BoundMethod {
    /// How to call it if it has streams.
    pub fn of_streams(self) -> BoundMethod {
        BoundMethod {
            native_request: self.native_request && self.native_streams,
            native_response: self.native_response && self.native_streams,
            ..self
        }
    }
}

/// The outcome of a bind. It is stored with its session.
#[derive(Clone, Debug)]
pub struct Agreement {
    first: u16,
    native: Native,
    codecs: CodecSet,
    /// How many methods are called with messages as they lie and by the caller's own numbers: all,
    /// or none.
    usual: u16,
    methods: Methods,
}

/// Which messages may be native, of those whose types agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Native {
    Nothing,
    Unary,
    All,
}

impl Native {
    /// R4: what two layouts allow.
    fn of(ours: u16, theirs: u16) -> Native {
        let is_same = (ours ^ theirs) & !UNARY_ONLY == 0;
        match is_same && ours & !UNARY_ONLY != 0 {
            false => Native::Nothing,
            true if (ours | theirs) & UNARY_ONLY != 0 => Native::Unary,
            true => Native::All,
        }
    }
}

#[derive(Clone, Debug)]
enum Methods {
    /// The schemas are equal, so the methods have the same order. Contains the first method number.
    Equal(u16),
    /// One entry for each method of the caller.
    Matched(Vec<Option<MethodMatch>>),
    Incompatible(Status),
}

impl Agreement {
    /// R3: evaluates the answer to a bind. If the schemas differ, this calls `compare` with the
    /// server's compact schema. `compare` finds each of the caller's methods by name, or returns
    /// the first incompatibility.
    ///
    /// # Errors
    /// The answer contradicts itself. The bind fails, and so do the calls that wait for it.
    pub fn evaluate(
        caller: &CallerSchema,
        answer: &BindResponse<'_>,
        compare: impl FnOnce(&[u8]) -> Result<Vec<Option<MethodMatch>>, String>,
    ) -> Result<Agreement, Malformed> {
        let methods = if caller.hash == answer.hash && caller.hash != Hash::default() {
            let as_many = caller.methods == answer.methods;
            Methods::Equal(if as_many { caller.methods } else { return Err(Malformed::Bind) })
        } else {
            match compare(answer.schema) {
                Ok(matched) => Methods::Matched(matched),
                Err(what) => Methods::Incompatible(incompatible(caller, answer, &what)),
            }
        };
        if let Methods::Matched(matched) = &methods
            && matched.iter().flatten().any(|found| found.index >= answer.methods)
        {
            return Err(Malformed::Bind);
        }
        let native = Native::of(caller.layout, answer.layout);
        let usual = match &methods {
            Methods::Equal(count) if native != Native::Nothing => *count,
            _ => 0,
        };
        Ok(Agreement { first: answer.first, native, codecs: answer.codecs, usual, methods })
    }

    /// The codecs that the server accepts.
    pub fn codecs(&self) -> CodecSet {
        self.codecs
    }

    /// The same without usual methods ([`Agreement::usual`]): for calls that need more than a
    /// number, such as those to groups, which are routed.
    pub fn without_usual(self) -> Agreement {
        Agreement { usual: 0, ..self }
    }

    /// The number of a unary method whose requests and responses are native because the schemas
    /// are equal.
    #[inline]
    pub fn usual(&self, index: u16) -> Option<u16> {
        (index < self.usual).then(|| self.first + index)
    }

    /// How to call the caller's method with this index.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` if the server lacks the method, `FAILED_PRECONDITION` if the schemas are
    /// incompatible. Nothing is sent in either case.
    pub fn method(&self, index: u16) -> Result<BoundMethod, Status> {
        let found = match &self.methods {
            Methods::Equal(count) => (index < *count).then_some(MethodMatch {
                index,
                same_request: true,
                same_response: true,
            }),
            Methods::Matched(matched) => matched.get(usize::from(index)).copied().flatten(),
            Methods::Incompatible(status) => return Err(status.clone()),
        };
        let found = found.ok_or_else(|| Status::unimplemented("the server has no such method"))?;
        let is_native = self.native != Native::Nothing;
        Ok(BoundMethod {
            number: self.first + found.index,
            native_request: is_native && found.same_request,
            native_response: is_native && found.same_response,
            native_streams: self.native == Native::All,
            codecs: self.codecs,
        })
    }
}

fn incompatible(caller: &CallerSchema, answer: &BindResponse<'_>, what: &str) -> Status {
    let mut text = String::from("schemas are incompatible: the caller's ");
    for (hash, next) in [(caller.hash, ", the server's "), (answer.hash, ": ")] {
        for byte in hash {
            write!(text, "{byte:02x}").expect("a string takes what is written");
        }
        text.push_str(next);
    }
    Status::failed_precondition(text + what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    const CALLER: CallerSchema = CallerSchema { layout: 1, hash: [1; 16], methods: 2 };

    fn answer(layout: u16, hash: u8) -> BindResponse<'static> {
        let codecs = CodecSet::from_bits(2);
        BindResponse { layout, codecs, hash: [hash; 16], first: 10, methods: 3, schema: b"theirs" }
    }

    fn same(answer: &BindResponse<'_>) -> Result<Agreement, Malformed> {
        Agreement::evaluate(&CALLER, answer, |_| panic!("equal schemas are not compared"))
    }

    #[test]
    fn r3_equal_hashes_need_no_comparison() {
        let equal = BindResponse { methods: 2, ..answer(1, 1) };
        let agreement = same(&equal).unwrap();
        let codecs = CodecSet::from_bits(3);
        let expected = BoundMethod {
            number: 11,
            native_request: true,
            native_response: true,
            native_streams: true,
            codecs,
        };
        assert_eq!(agreement.method(1).unwrap(), expected);
        assert_eq!(agreement.codecs(), CodecSet::from_bits(3));
        assert_eq!(agreement.method(2).unwrap_err().code(), Code::Unimplemented);
        assert_eq!(same(&answer(1, 1)).unwrap_err(), Malformed::Bind, "equal but for a method");
    }

    #[test]
    fn r3_compatible_schemas_are_matched_by_name() {
        let matched = |index| {
            Agreement::evaluate(&CALLER, &answer(1, 2), |schema| {
                assert_eq!(schema, b"theirs");
                Ok(vec![
                    None,
                    Some(MethodMatch { index, same_request: true, same_response: false }),
                ])
            })
        };
        let agreement = matched(2).unwrap();
        assert_eq!(agreement.method(0).unwrap_err().code(), Code::Unimplemented);
        let codecs = CodecSet::from_bits(3);
        let expected = BoundMethod {
            number: 12,
            native_request: true,
            native_response: false,
            native_streams: true,
            codecs,
        };
        assert_eq!(agreement.method(1).unwrap(), expected);
        assert_eq!(agreement.method(2).unwrap_err().code(), Code::Unimplemented);
        assert_eq!(matched(3).unwrap_err(), Malformed::Bind);
    }

    #[test]
    fn r3_incompatible_schemas_fail_each_call_with_both_hashes() {
        let agreement = Agreement::evaluate(&CALLER, &answer(1, 2), |_| Err("field a.B.c".into()));
        let status = agreement.unwrap().method(0).unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        for part in ["0101", "0202", "field a.B.c"] {
            assert!(status.message().contains(part), "{status}");
        }
    }

    #[test]
    fn r3_a_caller_without_a_schema_compares() {
        let caller = CallerSchema { hash: Hash::default(), ..CALLER };
        let agreement = Agreement::evaluate(&caller, &answer(1, 0), |_| Ok(vec![None]));
        assert!(agreement.unwrap().method(0).is_err());
    }

    #[test]
    fn r4_native_needs_the_same_layout_on_both_ends() {
        const UNARY: u16 = 1 | UNARY_ONLY;
        for (mine, theirs, native, native_streams) in [
            (1, 1, true, true),
            (1, 2, false, false),
            (0, 0, false, false),
            (1, 0, false, false),
            (1, UNARY, true, false),
            (UNARY, 1, true, false),
            (UNARY, UNARY, true, false),
            (UNARY, 2, false, false),
            (UNARY_ONLY, UNARY_ONLY, false, false),
            (0, UNARY_ONLY, false, false),
        ] {
            let caller = CallerSchema { layout: mine, ..CALLER };
            let answer = BindResponse { methods: 2, ..answer(theirs, 1) };
            let bound = Agreement::evaluate(&caller, &answer, |_| Ok(Vec::new())).unwrap();
            let method = bound.method(0).unwrap();
            assert_eq!((method.native_request, method.native_response), (native, native));
            assert_eq!(bound.usual(0).is_some(), native);
            assert_eq!(bound.clone().without_usual().usual(0), None);
            assert_eq!(bound.clone().without_usual().method(0), bound.method(0));
            let streams = method.of_streams();
            let found = (streams.native_request, streams.native_response);
            assert_eq!(found, (native_streams, native_streams), "{mine} {theirs}");
        }
    }
}
