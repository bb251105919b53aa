//! Loads and stores of global and shared memory: check, then access. The two spaces differ in their `check`.

/// The accessors of a space, from the `check` in scope: bodies of the functions of these names in the public face.
macro_rules! accessors {
    (loads { $($load:ident<$load_bound:ident> -> $loaded:ty;)* } stores { $($store:ident<$store_bound:ident>($stored:ty);)* }) => {
        /// [`check`] for an access to a `V` of 1, 2, 4, 8 or 16 bytes.
        #[inline(always)]
        fn check_value<V>(address: usize, access: Access, source: Source) {
            match size_of::<V>() {
                1 => check::<1>(address, access, source),
                2 => check::<2>(address, access, source),
                4 => check::<4>(address, access, source),
                8 => check::<8>(address, access, source),
                _ => check::<16>(address, access, source),
            }
        }

        $(
            /// Host body of the accessor of this name.
            ///
            /// # Safety
            /// Nothing races with the access; range and alignment are checked.
            #[inline(always)]
            #[track_caller]
            pub(crate) unsafe fn $load<T: $load_bound>(p: *const T) -> $loaded {
                check_value::<$loaded>(p as usize, Access::Read, Location::caller());
                // SAFETY: checked to be within the space's memory and aligned to its own size.
                unsafe { p.cast::<$loaded>().read() }
            }
        )*

        $(
            /// Host body of the accessor of this name.
            ///
            /// # Safety
            /// Nothing races with the access; range and alignment are checked.
            #[inline(always)]
            #[track_caller]
            pub(crate) unsafe fn $store<T: $store_bound>(p: *mut T, v: $stored) {
                check_value::<$stored>(p as usize, Access::Write, Location::caller());
                // SAFETY: checked to be within the space's memory and aligned to its own size.
                unsafe { p.cast::<$stored>().write(v) }
            }
        )*
    };
}

pub(super) use accessors;
