//! Takes an annotated function apart, and says what is wrong with it.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, FnArg, ItemFn, Lit, MetaNameValue, Pat, Result, ReturnType, Token, Type};

/// A kernel as its source says it, checked.
pub struct Kernel {
    /// The function, without the attributes that `#[kernel]` takes.
    pub function: ItemFn,
    /// Type of the one parameter.
    pub params: Type,
    /// Launch bounds, a const expression.
    pub bounds: Expr,
    /// Least architecture: 75, 80 or 90.
    pub sm: u32,
    /// Blocks of a cluster; 1 without one.
    pub cluster: u32,
}

/// Parses the arguments of `#[kernel(..)]` and its item.
pub fn kernel(arguments: TokenStream, item: TokenStream) -> Result<Kernel> {
    let (sm, cluster) = architecture(arguments)?;
    let item_span = item.clone().into_iter().next().map_or_else(proc_macro2::Span::call_site, |t| t.span());
    let mut function: ItemFn =
        syn::parse2(item).map_err(|_| Error::new(item_span, "#[kernel] stands on a function with a body"))?;
    let bounds = launch_bounds(&mut function)?;
    let params = signature(&function)?;
    Ok(Kernel { function, params, bounds, sm, cluster })
}

/// Least architecture, and blocks of a cluster.
fn architecture(arguments: TokenStream) -> Result<(u32, u32)> {
    const FORM: &str = "#[kernel] takes nothing, or sm = 75, sm = 80 or sm = 90: the least architecture; \
                        with sm = 90 also cluster = 2, 4 or 8: neighbouring blocks that start together";
    let span = arguments.clone();
    let wrong = || Error::new_spanned(&span, FORM);
    let named = Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(arguments).map_err(|_| wrong())?;
    let (mut sm, mut cluster) = (None, None);
    for argument in &named {
        let Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) = &argument.value else { return Err(wrong()) };
        let number: u32 = number.base10_parse().map_err(|_| wrong())?;
        let (place, known) = match () {
            () if argument.path.is_ident("sm") => (&mut sm, [75, 80, 90]),
            () if argument.path.is_ident("cluster") => (&mut cluster, [2, 4, 8]),
            () => return Err(wrong()),
        };
        if !known.contains(&number) || place.replace(number).is_some() {
            return Err(wrong());
        }
    }
    if cluster.is_some() && sm != Some(90) {
        return Err(wrong());
    }
    Ok((sm.unwrap_or(75), cluster.unwrap_or(1)))
}

fn launch_bounds(function: &mut ItemFn) -> Result<Expr> {
    let is_bounds = |a: &Attribute| a.path().segments.last().is_some_and(|s| s.ident == "launch_bounds");
    let (taken, kept) = std::mem::take(&mut function.attrs).into_iter().partition::<Vec<_>, _>(is_bounds);
    function.attrs = kept;
    match taken.as_slice() {
        [] => Err(Error::new(
            function.sig.ident.span(),
            "a kernel needs #[launch_bounds(BOUNDS)] below #[kernel], with a const of type cuda_std::launch::Bounds",
        )),
        [attribute] => attribute.parse_args().map_err(|_| {
            Error::new_spanned(
                attribute,
                "#[launch_bounds(..)] takes one const expression of type cuda_std::launch::Bounds",
            )
        }),
        [_, second, ..] => Err(Error::new_spanned(second, "a kernel has one #[launch_bounds(..)]")),
    }
}

fn signature(function: &ItemFn) -> Result<Type> {
    let sig = &function.sig;
    let refuse = |span: proc_macro2::Span, message: &str| Err(Error::new(span, message));
    if let Some(token) = &sig.constness {
        return refuse(token.span(), "a kernel is not const");
    }
    if let Some(token) = &sig.asyncness {
        return refuse(token.span(), "a kernel is not async");
    }
    if let Some(abi) = &sig.abi {
        return refuse(abi.span(), "#[kernel] chooses the ABI; leave `extern` out");
    }
    if !sig.generics.params.is_empty() || sig.generics.where_clause.is_some() {
        let message = "a kernel has no generic parameters: write a line for each instance, calling a generic body";
        return refuse(sig.generics.span(), message);
    }
    if sig.unsafety.is_none() {
        return refuse(sig.fn_token.span(), "a kernel is an `unsafe fn`: its callers vouch for pointers and extents");
    }
    if let ReturnType::Type(_, returned) = &sig.output {
        return refuse(returned.span(), "a kernel returns nothing: write results through pointers of its parameters");
    }
    let one = "a kernel has exactly one parameter, by value: a #[repr(C)] Copy struct that the host fills too";
    match sig.inputs.first() {
        Some(FnArg::Typed(parameter)) if sig.inputs.len() == 1 && sig.variadic.is_none() => {
            if !matches!(*parameter.pat, Pat::Ident(_) | Pat::Wild(_)) {
                return refuse(parameter.pat.span(), "a kernel's parameter is a plain name");
            }
            if matches!(*parameter.ty, Type::Reference(_)) {
                return refuse(parameter.ty.span(), one);
            }
            Ok((*parameter.ty).clone())
        }
        Some(_) => refuse(sig.inputs.span(), one),
        None => refuse(sig.paren_token.span.span(), one),
    }
}
