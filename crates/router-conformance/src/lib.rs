//! The suite that a router's plane must pass over each packet I/O that it may have
//! (`docs/spec/route.md`, RT3, RT19 to RT28).
//!
//! The tests of a packet I/O implement [`BackendFactory`], as for the suite of packet I/Os, and
//! [`PlaneFactory`], which may put a tier before the plane, and
//! call [`plane_tests!`], which makes one test of each property. Clients and workers are ports that
//! a test reads and writes packet by packet ([`World`]), but for [`calls`], where they are
//! endpoints ([`group`]).
//!
//! Nothing depends on time: the plane is told what time it is, and what is under way to it is
//! received before it takes its turn, as one batch ([`Gathered`]). What it has sent is counted, so
//! that a test knows when all of it has arrived.
//!
//! Boundary rule: for tests only; depends on no packet I/O.

#![forbid(unsafe_code)]

pub mod bounds;
pub mod calls;
mod factory;
pub mod feedback;
pub mod first;
mod gathered;
pub mod group;
pub mod hostile;
pub mod members;
pub mod queue;
pub mod rejections;
pub mod sealed;
mod world;

pub use factory::{PlaneFactory, TestedTier, TierCounts};
pub use gathered::Gathered;
pub use petasos_netio_conformance::BackendFactory;
pub use world::{GivenPacket, PAYLOAD, Worker, World, config};

/// Makes one `#[test]` of each property, in the module where it is called. The argument is an
/// expression of type `Option<F>` for a [`PlaneFactory`] `F`, whose packet I/O an endpoint can
/// have. On a host that cannot run it, it calls `petasos_skips::skip`, and evaluates to `None`.
#[macro_export]
macro_rules! plane_tests {
    ($factory:expr) => {
        $crate::plane_tests! { $factory =>
            first::first_packets_go_to_workers_with_their_names_and_numbers,
            first::rt3_numbers_are_taken_in_any_order_once_each,
            first::rt26_first_packets_come_from_where_their_client_has_attached,
            first::packets_of_a_batch_go_to_each_worker_as_trains,
            first::packets_wait_for_packet_io_that_is_full,
            feedback::rt20_feedback_is_heard_before_first_packets_of_the_same_batch,
            feedback::rt20_feedback_with_more_than_its_header_is_void,
            feedback::rt22_feedback_of_strangers_frees_nothing,
            feedback::rt22_feedback_that_is_not_newer_or_cannot_be_is_void,
            feedback::rt22_a_worker_that_says_nothing_is_probed,
            feedback::rt22_nobody_is_given_more_than_it_has_announced,
            feedback::a_router_that_paused_asks_nobody_whose_feedback_waits,
            feedback::rt22_a_worker_that_announces_anything_takes_nothing_from_others,
            feedback::rt23_a_worker_that_stops_delays_what_it_has_and_nothing_else,
            feedback::rt23_a_worker_that_fails_much_is_given_nothing_for_a_while,
            feedback::rt22_forged_counts_are_set_right_by_the_worker_itself,
            queue::rt6_what_waits_goes_when_a_worker_has_settled,
            queue::rt24_the_most_urgent_goes_first_and_within_that_who_came_first,
            queue::rt24_a_full_queue_drops_the_newest_of_the_least_urgent,
            queue::rt24_one_client_leaves_room_for_others,
            queue::rt24_what_is_for_the_primary_has_half_of_the_queue,
            queue::rt24_nothing_waits_for_longer_than_it_may,
            queue::rt24_what_waits_is_rejected_when_the_last_worker_drains,
            rejections::rt25_rejections_say_why_and_go_to_the_reply_address,
            sealed::rt27_first_packets_pass_sealed_and_open_at_the_worker,
            sealed::rt27_what_is_not_sealed_is_void,
            sealed::rt25_rt30_rejections_are_sealed_in_the_epoch_of_what_they_reject,
            sealed::rt28_a_client_that_comes_later_has_its_own_link,
            members::a_worker_that_has_gone_is_given_nothing,
            members::a_client_that_is_gone_leaves_nothing_to_the_next_with_its_number,
            bounds::tables_have_bounds_and_numbers_are_held_back,
            hostile::short_long_and_unknown_packets_are_counted_and_cost_nothing,
            hostile::altered_packets_do_no_harm,
            hostile::rt24_a_client_that_floods_keeps_others_waiting_for_its_share_at_most,
            hostile::time_that_jumps_loses_no_slot,
            calls::calls_of_all_kinds_go_through_a_router,
        }
    };
    ($factory:expr => $($file:ident::$property:ident,)*) => {
        $(
            #[test]
            fn $property() {
                if let Some(factory) = $factory {
                    $crate::$file::$property(&factory);
                }
            }
        )*
    };
}
