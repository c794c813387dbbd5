//! What is done to the keys of a range after they were read: etcd's order and filters.

use petasos::Status;
use petasos_quorum::etcd::Item;

use crate::api::range_request::{SortOrder, SortTarget};
use crate::api::{KeyValueMut, RangeRequest, RangeResponseMut};
use crate::failure::invalid_sort;

/// How many keys have to be read before the limit counts; [`None`] for all. Otherwise it is one
/// more than the limit, which tells whether there are more. Without an order, keys are taken in
/// their own, and only those that were taken are sorted, as at etcd.
///
/// # Errors
/// If the order is none of etcd's.
pub(crate) fn read_max(range: &RangeRequest) -> Result<Option<u64>, Status> {
    let order = range.sort_order();
    let orders = [SortOrder::NONE, SortOrder::ASCEND, SortOrder::DESCEND];
    let targets = [
        SortTarget::KEY,
        SortTarget::VERSION,
        SortTarget::CREATE,
        SortTarget::MOD,
        SortTarget::VALUE,
    ];
    if !orders.contains(&order) || !targets.contains(&range.sort_target()) {
        return Err(invalid_sort());
    }
    let filters = [
        range.min_mod_revision(),
        range.max_mod_revision(),
        range.min_create_revision(),
        range.max_create_revision(),
    ];
    let wants_all = order != SortOrder::NONE || filters.iter().any(|filter| *filter != 0);
    let limit = range.limit().max(0).unsigned_abs();
    Ok((!wants_all && limit > 0).then_some(limit.saturating_add(1)))
}

/// Keys of a range in the wanted order, those that are wanted, at most as many as are wanted; and
/// whether there are more.
pub(crate) fn arrange(range: &RangeRequest, items: &mut Vec<Item<'_>>) -> bool {
    let is_within = |revision: i64, first: i64, last: i64| {
        (first == 0 || revision >= first) && (last == 0 || revision <= last)
    };
    items.retain(|item| {
        is_within(item.modified, range.min_mod_revision(), range.max_mod_revision())
            && is_within(item.created, range.min_create_revision(), range.max_create_revision())
    });
    match range.sort_target() {
        SortTarget::VERSION => items.sort_by_key(|item| item.version),
        SortTarget::CREATE => items.sort_by_key(|item| item.created),
        SortTarget::MOD => items.sort_by_key(|item| item.modified),
        SortTarget::VALUE => items.sort_by_key(|item| item.value),
        _ => {}
    }
    if range.sort_order() == SortOrder::DESCEND {
        items.reverse();
    }
    let limit = usize::try_from(range.limit()).unwrap_or(0);
    let has_more = limit > 0 && items.len() > limit;
    if has_more {
        items.truncate(limit);
    }
    has_more
}

/// Writes a key and its value.
pub(crate) fn write_item(mut to: KeyValueMut<'_>, item: &Item<'_>) {
    to.set_key(item.key).set_value(item.value).set_lease(item.lease).set_version(item.version);
    to.set_create_revision(item.created).set_mod_revision(item.modified);
}

/// Writes what a range has. `count` is how many keys it has.
pub(crate) fn write_range(
    to: &mut RangeResponseMut<'_>,
    range: &RangeRequest,
    mut items: Vec<Item<'_>>,
    count: u64,
) {
    let has_more = arrange(range, &mut items);
    to.set_count(count.cast_signed()).set_more(has_more);
    let mut kvs = to.kvs_mut();
    for item in &items {
        write_item(kvs.add(), item);
    }
}
