//! What a checked kernel becomes.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::check::Kernel;

/// The items for both targets.
pub fn expand(kernel: &Kernel) -> TokenStream {
    let checks = parameter_checks(kernel);
    let device = device(kernel);
    let host = host(kernel);
    quote!(#checks #device #host)
}

/// Compile errors for a parameter type that cannot cross a launch.
fn parameter_checks(kernel: &Kernel) -> TokenStream {
    let params = &kernel.params;
    let name = &kernel.function.sig.ident;
    let message = format!(
        "kernel `{name}`: the parameter struct has an alignment above 16, which the device compiler cannot pass; align it to at most 16"
    );
    quote_spanned! {params.span()=>
        const _: () = {
            ::core::assert!(::core::mem::align_of::<#params>() <= 16, #message);
            const fn kernel_parameters_are_copy<T: ::core::marker::Copy + 'static>() {}
            kernel_parameters_are_copy::<#params>()
        };
    }
}

fn device(kernel: &Kernel) -> TokenStream {
    let function = &kernel.function;
    let (attrs, vis, sig, block) = (&function.attrs, &function.vis, &function.sig, &function.block);
    let (name, inputs, bounds) = (&sig.ident, &sig.inputs, &kernel.bounds);
    let bounds_name = format_ident!("__launch_bounds_{}", name);
    let module = match kernel.sm {
        75 => quote!(target_arch = "nvptx64"),
        80 => quote!(all(target_arch = "nvptx64", cuda_sm = "80")),
        _ => quote!(all(target_arch = "nvptx64", cuda_sm = "90a")),
    };
    let cluster = (kernel.cluster > 1).then(|| {
        let (cluster_name, blocks) = (format_ident!("__cluster_{}", name), kernel.cluster);
        quote! {
            // As the bounds below.
            #[cfg(#module)]
            #[used]
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, missing_docs)]
            pub static #cluster_name: u32 = #blocks;
        }
    });
    quote! {
        #cluster

        #[cfg(#module)]
        #(#attrs)*
        #[unsafe(no_mangle)]
        #vis unsafe extern "ptx-kernel" fn #name(#inputs) #block

        // The builder reads this from the bitcode, makes function attributes of it, and deletes it.
        #[cfg(#module)]
        #[used]
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals, missing_docs)]
        pub static #bounds_name: [u32; 2] = {
            let bounds: ::cuda_std::launch::Bounds = #bounds;
            [bounds.threads, bounds.min_blocks]
        };
    }
}

fn host(kernel: &Kernel) -> TokenStream {
    let function = &kernel.function;
    let (attrs, vis, sig, block) = (&function.attrs, &function.vis, &function.sig, &function.block);
    let (params, bounds, sm, cluster) = (&kernel.params, &kernel.bounds, kernel.sm, kernel.cluster);
    let name = &sig.ident;
    let symbol = name.to_string();
    let handle = format_ident!("{}", symbol.to_uppercase(), span = name.span());
    let handle_doc = format!("Launch handle of the kernel `{symbol}`.");
    let params_text = quote!(#params).to_string().replace(' ', "");
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #(#attrs)*
        #[inline(always)]
        #vis #sig #block

        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #handle_doc]
        #vis static #handle: ::cuda_std::launch::Kernel<#params> = {
            // The same body, compiled for CPUs on which a fused multiply-add is one instruction.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(unsafe_op_in_unsafe_fn)]
            unsafe fn wide(p: #params) {
                #name(p)
            }
            #[allow(unsafe_op_in_unsafe_fn)]
            unsafe fn entry(p: #params) {
                #[cfg(target_arch = "x86_64")]
                if ::cuda_std::emulator::wide_cpu() {
                    return wide(p);
                }
                #name(p)
            }
            ::cuda_std::launch::Kernel::from_macro(
                ::cuda_std::launch::KernelInfo {
                    symbol: #symbol,
                    bounds: #bounds,
                    sm: #sm,
                    cluster: #cluster,
                    params: #params_text,
                    params_bytes: ::core::mem::size_of::<#params>(),
                    file: ::core::file!(),
                    line: ::core::line!(),
                },
                entry,
            )
        };
    }
}
