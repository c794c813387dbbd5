//! The service KV.

use petasos::{Code, Msg, Request, Response, Status};
use petasos_quorum::etcd::{
    EtcdCommand, EtcdQuery, Item, Keys, OperationResult, RangeAnswer, RangeQuery, Txn, TxnResult,
};

use crate::api::request_op::Request as Part;
use crate::api::{self, ResponseOp, TxnResponseMut};
use crate::convert;
use crate::failure::malformed;
use crate::group::{Answered, Group};
use crate::sorting::{read_max, write_item, write_range};

/// The most bytes of a range's answer.
const RANGE_BYTES_MAX: usize = 64 << 20;

pub(crate) struct Store(pub Group);

impl Store {
    async fn one(&self, read: bool, query: &EtcdQuery<'_>) -> Result<Answered, Status> {
        if read { self.0.read_own(query).await } else { self.0.read(query).await }
    }

    /// Reads a range, piece by piece, as of one revision: that of the first piece. Also how many
    /// keys it has.
    async fn read(&self, range: &api::RangeRequest) -> Result<(i64, Vec<Answered>, u64), Status> {
        let all = convert::keys(range.key(), range.range_end())?;
        let limit = match range.count_only() {
            true => 0,
            false => read_max(range)?.unwrap_or(u64::MAX),
        };
        let (mut at, mut left) = (range.revision().max(0), limit);
        let (mut revision, mut pieces, mut count, mut bytes) = (None, Vec::new(), 0, 0);
        let mut next: Option<Vec<u8>> = None;
        let mut place = None;
        loop {
            let keys = Keys { from: next.as_deref().unwrap_or(all.from), end: all.end };
            let query =
                RangeQuery { keys, revision: at, limit: left, keys_only: range.keys_only() };
            let answered = self.one(range.serializable(), &EtcdQuery::Range(query)).await?;
            let (store, mut body) = answered.found()?;
            let piece = RangeAnswer::read(&mut body).ok_or_else(malformed)?;
            (at, count, left) =
                (piece.revision, count + piece.count, left - piece.items.len() as u64);
            revision.get_or_insert(store);
            next = piece.next.map(<[u8]>::to_vec);
            bytes += answered.bytes_len();
            pieces.push(answered);
            if bytes > RANGE_BYTES_MAX {
                let what = "petasos: the range is too long: ask for it in parts, with a limit";
                return Err(Status::new(Code::ResourceExhausted, what));
            }
            if next.is_none() {
                return Ok((revision.unwrap_or(at), pieces, count));
            }
            if place.is_none() {
                place = Some(self.0.long_place().await?);
            }
        }
    }

    async fn change(&self, txn: Txn<'_>) -> Result<Answered, Status> {
        self.0.command(&EtcdCommand::Txn(txn)).await
    }
}

fn txn_result(answered: &Answered) -> Result<(i64, TxnResult<'_>), Status> {
    let (revision, mut body) = answered.found()?;
    Ok((revision, TxnResult::read(&mut body).ok_or_else(malformed)?))
}

/// What the only operation of a transaction has done.
fn only_result(answered: &Answered) -> Result<(i64, OperationResult<'_>), Status> {
    let (revision, mut result) = txn_result(answered)?;
    Ok((revision, result.results.pop().ok_or_else(malformed)?))
}

impl api::KV for Store {
    async fn range(
        &self,
        request: Request<api::RangeRequest>,
    ) -> Result<Response<api::RangeResponse>, Status> {
        let request = request.into_message();
        let (revision, pieces, count) = self.read(&request).await?;
        let mut items: Vec<Item<'_>> = Vec::new();
        for piece in &pieces {
            let (_, mut body) = piece.found()?;
            items.extend(RangeAnswer::read(&mut body).ok_or_else(malformed)?.items);
        }
        let mut response = api::RangeResponse::new();
        let mut edit = response.edit();
        self.0.head(edit.header_mut(), revision);
        write_range(&mut edit, &request, items, count);
        Ok(Response::new(response))
    }

    async fn put(
        &self,
        request: Request<api::PutRequest>,
    ) -> Result<Response<api::PutResponse>, Status> {
        let request = request.into_message();
        let answered = self.change(Txn::of(convert::put(&request)?)).await?;
        let (revision, result) = only_result(&answered)?;
        let mut response = api::PutResponse::new();
        let mut edit = response.edit();
        self.0.head(edit.header_mut(), revision);
        if let OperationResult::Put(Some(previous)) = result {
            write_item(edit.prev_kv_mut(), &previous);
        }
        Ok(Response::new(response))
    }

    async fn delete_range(
        &self,
        request: Request<api::DeleteRangeRequest>,
    ) -> Result<Response<api::DeleteRangeResponse>, Status> {
        let request = request.into_message();
        let answered = self.change(Txn::of(convert::delete(&request)?)).await?;
        let (revision, result) = only_result(&answered)?;
        let mut response = api::DeleteRangeResponse::new();
        let mut edit = response.edit();
        self.0.head(edit.header_mut(), revision);
        if let OperationResult::Delete { deleted, items, .. } = result {
            edit.set_deleted(deleted.cast_signed());
            let mut previous = edit.prev_kvs_mut();
            items.iter().for_each(|item| write_item(previous.add(), item));
        }
        Ok(Response::new(response))
    }

    async fn txn(
        &self,
        request: Request<api::TxnRequest>,
    ) -> Result<Response<api::TxnResponse>, Status> {
        let request = request.into_message();
        let answered = self.change(convert::txn(&request)?).await?;
        let (revision, result) = txn_result(&answered)?;
        let mut response: Msg<api::TxnResponse> = api::TxnResponse::new();
        let mut edit = response.edit();
        self.0.head(edit.header_mut(), revision);
        write_txn(&mut edit, &request, result, revision)?;
        Ok(Response::new(response))
    }

    async fn compact(
        &self,
        request: Request<api::CompactionRequest>,
    ) -> Result<Response<api::CompactionResponse>, Status> {
        let answered = self.0.command(&EtcdCommand::Compact(request.revision())).await?;
        let (revision, _) = answered.found()?;
        let mut response = api::CompactionResponse::new();
        self.0.head(response.edit().header_mut(), revision);
        Ok(Response::new(response))
    }
}

/// Writes what a transaction has done, and what it was asked for, as far as that is done here.
fn write_txn(
    to: &mut TxnResponseMut<'_>,
    request: &api::TxnRequest,
    result: TxnResult<'_>,
    revision: i64,
) -> Result<(), Status> {
    to.set_succeeded(result.succeeded);
    let parts = if result.succeeded { request.success() } else { request.failure() };
    let mut responses = to.responses_mut();
    for (part, result) in parts.iter().zip(result.results) {
        let mut response: Msg<ResponseOp> = ResponseOp::new();
        let mut edit = response.edit();
        match (part.request(), result) {
            (
                Some(Part::RequestRange(range)),
                OperationResult::Range { revision, count, items },
            ) => {
                let mut to = edit.response_range_mut();
                to.header_mut().set_revision(revision);
                write_range(&mut to, range, items, count);
            }
            (Some(Part::RequestPut(_)), OperationResult::Put(previous)) => {
                let mut to = edit.response_put_mut();
                to.header_mut().set_revision(revision);
                if let Some(previous) = previous {
                    write_item(to.prev_kv_mut(), &previous);
                }
            }
            (
                Some(Part::RequestDeleteRange(_)),
                OperationResult::Delete { revision, deleted, items },
            ) => {
                let mut to = edit.response_delete_range_mut();
                to.header_mut().set_revision(revision);
                to.set_deleted(deleted.cast_signed());
                let mut previous = to.prev_kvs_mut();
                items.iter().for_each(|item| write_item(previous.add(), item));
            }
            (Some(Part::RequestTxn(txn)), OperationResult::Txn(result)) => {
                let mut to = edit.response_txn_mut();
                // It is there and says nothing, as etcd's.
                let _ = to.header_mut();
                write_txn(&mut to, txn, result, revision)?;
            }
            _ => return Err(malformed()),
        }
        responses.push(&response);
    }
    Ok(())
}
