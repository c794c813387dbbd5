//! The packages of the `.proto` files, for both generators' code.

/// Gives a macro all packages: the module that each becomes, and its name.
macro_rules! every_package {
    ($declared:ident) => {
        $declared! {
            geo "hotel.geo"
            profile "hotel.profile"
            rate "hotel.rate"
            recommendation "hotel.recommendation"
            reservation "hotel.reservation"
            search "hotel.search"
            user "hotel.user"
        }
    };
}

pub(crate) use every_package;
