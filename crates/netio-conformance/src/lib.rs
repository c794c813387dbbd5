//! The suite that every packet I/O backend must pass before it counts as finished.
//!
//! A backend's tests implement [`BackendFactory`] and call [`conformance_tests!`], which makes one
//! test of each property in [`delivery`], [`routes`], [`failures`], [`random`] and
//! [`trains`].
//!
//! The suite relies only on the contract of [`petasos_netio::PacketIo`]. It never sleeps and never
//! waits without a bound: every polling loop gives up in the end ([`turns`]). It keeps few packets
//! in flight, because a backend may drop packets for which its receiver has no room.
//!
//! Boundary rule: for tests only; depends on no backend.

pub mod delivery;
mod factory;
pub mod failures;
mod harness;
pub mod random;
pub mod routes;
pub mod trains;
mod watchdog;

pub use factory::BackendFactory;
pub use watchdog::turns;

/// Calls `$each!` with the list of all properties, as paths from this crate's root.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_property {
    ($each:ident, $($context:tt)*) => {
        $crate::$each! { $($context)* =>
            delivery::delivers_every_length,
            delivery::delivers_heads_and_bodies_split_anywhere,
            delivery::keeps_the_order_of_a_batch,
            delivery::delivers_mixed_lengths_in_order,
            delivery::delivers_interleaved_peers_in_order,
            delivery::delivers_many_packets,
            delivery::delivers_batches_of_any_size,
            delivery::delivers_in_both_directions,
            delivery::has_nothing_before_the_first_and_after_the_last,
            delivery::counts_what_it_moves,
            routes::gives_one_route_per_address,
            routes::keeps_a_route_until_its_last_release,
            routes::takes_a_released_address_again,
            routes::refuses_the_wrong_family,
            routes::names_a_useful_limit,
            routes::tells_where_frames_come_from,
            failures::drops_oversized_packets_alone,
            failures::drops_empty_packets_alone,
            failures::survives_the_loss_of_a_peer,
            random::delivers_random_batches,
            trains::delivers_trains_of_every_shape,
            trains::keeps_the_order_of_trains_and_packets,
            trains::sends_all_of_a_batch_at_its_end,
            trains::drops_oversized_trains_alone,
            trains::sends_nothing_for_an_empty_train,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! property_tests {
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

#[doc(hidden)]
#[macro_export]
macro_rules! property_calls {
    ($factory:expr => $($file:ident::$property:ident,)*) => {
        $($crate::$file::$property($factory);)*
    };
}

/// Makes one `#[test]` of each property, in the module where it is called. The argument is an
/// expression of type `Option<F>` for a [`BackendFactory`] `F`. On a host that cannot run the
/// backend, it calls `petasos_skips::skip`, which records the skipped test, and evaluates to
/// `None`.
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr) => {
        $crate::for_each_property! { property_tests, $factory }
    };
}

/// Checks all properties, one after another, with fresh ports for each.
///
/// # Panics
/// At the first property that the backend does not have.
pub fn run_all<F: BackendFactory>(factory: &F) {
    for_each_property! { property_calls, factory }
}
