//! Making the indices.

use std::thread;

use tantivy::directory::RamDirectory;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{TextAnalyzer, TokenizerManager};
use tantivy::{Index, ReloadPolicy, Searcher, TantivyDocument, TantivyError};

use super::statistics::Statistics;
use super::{Engine, EngineError};
use crate::corpus::Corpus;
use crate::words::Words;

/// The name of what splits texts.
const WORDS: &str = "words";
/// How much memory an index is told to begin with.
const PART_BYTES: usize = 32 << 20;

impl Engine {
    /// Makes so many indices, on all processors.
    ///
    /// # Errors
    /// The engine's.
    pub fn build(corpus: Corpus, parts: usize) -> Result<Engine, EngineError> {
        let (schema, body) = schema();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(parts);
        let of_thread = |thread: usize| {
            let own = (thread..parts).step_by(threads);
            let part = |part| Ok((part, build_part(&corpus, &schema, body, part, parts)?));
            own.map(part).collect::<Result<Vec<_>, TantivyError>>()
        };
        let mut built = thread::scope(|scope| {
            let running: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || of_thread(thread))).collect();
            let built = running.into_iter().map(|it| it.join().expect("indexing does not panic"));
            built.collect::<Result<Vec<_>, _>>().map(|built| built.concat())
        })?;
        built.sort_by_key(|(part, _)| *part);
        let parts: Vec<Searcher> = built.into_iter().map(|(_, searcher)| searcher).collect();
        let statistics = Statistics::of_all(&parts, body)?;
        Ok(Engine { corpus, body, parts, statistics })
    }
}

fn schema() -> (Schema, Field) {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(WORDS)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let mut schema = Schema::builder();
    let body = schema.add_text_field("body", TextOptions::default().set_indexing_options(indexing));
    (schema.build(), body)
}

/// The index of every `parts`-th entry from `part` on.
fn build_part(
    corpus: &Corpus,
    schema: &Schema,
    body: Field,
    part: usize,
    parts: usize,
) -> Result<Searcher, TantivyError> {
    let tokenizers = TokenizerManager::new();
    tokenizers.register(WORDS, TextAnalyzer::from(Words::default()));
    let index = Index::builder().schema(schema.clone()).tokenizers(tokenizers);
    // One segment, whose documents keep their order.
    let mut writer = index.single_segment_index_writer(RamDirectory::create(), PART_BYTES)?;
    for entry in (part..corpus.len()).step_by(parts) {
        let mut document = TantivyDocument::new();
        document.add_text(body, corpus.text(entry));
        writer.add_document(document)?;
    }
    let reader = writer.finalize()?.reader_builder().reload_policy(ReloadPolicy::Manual);
    Ok(reader.try_into()?.searcher())
}
