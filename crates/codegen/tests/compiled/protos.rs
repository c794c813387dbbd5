//! The golden files, in modules as their packages are.

/// `package notes`
pub mod notes {
    include!("../golden/notes.rs");
}

/// `package routeguide`
pub mod routeguide {
    include!("../golden/routeguide.rs");
}

/// Files with and without packages, as [`include_file`](petasos_codegen::Builder::include_file)
/// puts them together.
pub mod packages {
    include!("../golden/packages.rs");
}

/// Packages within `torture`.
pub mod torture {
    /// Comments.
    pub mod comments {
        include!("../golden/torture.comments.rs");
    }
    /// Names of fields.
    pub mod fields {
        include!("../golden/torture.fields.rs");
    }
    /// Fields without presence.
    pub mod implicit {
        include!("../golden/torture.implicit.rs");
    }
    /// Lists and maps.
    pub mod many {
        include!("../golden/torture.many.rs");
    }
    /// Oneofs.
    pub mod oneofs {
        include!("../golden/torture.oneofs.rs");
    }
    /// Plain structs.
    pub mod owned {
        include!("../golden/torture.owned.rs");
    }
    /// Fields with presence.
    pub mod optional {
        include!("../golden/torture.optional.rs");
    }
    /// Names of the prelude.
    pub mod prelude {
        include!("../golden/torture.prelude.rs");
    }
    /// Names of traits.
    pub mod traits {
        include!("../golden/torture.traits.rs");
    }
    /// Names of types.
    pub mod types {
        include!("../golden/torture.types.rs");
    }
    /// Well-known types.
    pub mod well_known {
        include!("../golden/torture.well_known.rs");
    }
}
