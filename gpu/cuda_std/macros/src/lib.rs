//! The `#[kernel]` attribute: one function becomes a PTX entry, an emulator entry and a typed handle.
//!
//! Use it through `cuda_std`, whose items the expansion names.

use proc_macro::TokenStream;
use quote::quote;

mod check;
mod expand;

/// Makes a GPU kernel of an `unsafe fn` with one by-value parameter.
///
/// ```text
/// #[kernel]                  // or #[kernel(sm = 80)], #[kernel(sm = 90)]: the least architecture, 75 if left out;
///                            // #[kernel(sm = 90, cluster = 2)]: two neighbouring blocks start together, near each other
/// #[launch_bounds(BOUNDS)]   // a const expression of type cuda_std::launch::Bounds
/// pub unsafe fn name(p: Params) { .. }
/// ```
///
/// For `nvptx64` it emits the entry `name` and its launch bounds for the builder; a kernel that needs more than the module's
/// architecture is left out. For the host it emits the function itself and `NAME`, its
/// `cuda_std::launch::Kernel<Params>`.
///
/// `Params` must be `Copy`, with an alignment of at most 16: both are compile errors otherwise, as are generics, a return
/// type, any other number of parameters, and missing launch bounds.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = check::kernel(arguments.into(), item.into()).map(|kernel| expand::expand(&kernel));
    expanded.unwrap_or_else(|error| error.into_compile_error()).into()
}

/// Launch bounds of a kernel, below `#[kernel]`, which takes this attribute away.
#[proc_macro_attribute]
pub fn launch_bounds(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    let message = "write #[launch_bounds(..)] below #[kernel], on the same function";
    let error = syn::Error::new(proc_macro2::Span::call_site(), message).into_compile_error();
    let item = proc_macro2::TokenStream::from(item);
    quote!(#error #item).into()
}
