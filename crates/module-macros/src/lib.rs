//! The attribute `operation` of `pario-module-sdk`, which explains it.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use proc_macro2::{Ident, Span, TokenStream as Code};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Error, FnArg, ImplItem, Item, ItemFn, ItemImpl, Pat, Type};

/// Makes a function or an implementation of `Task` the operation of a module.
#[proc_macro_attribute]
pub fn operation(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = match (arguments.is_empty(), syn::parse(item)) {
        (false, _) => Err(Error::new(Span::call_site(), "the attribute takes no arguments")),
        (true, Ok(Item::Fn(function))) => of_function(&function),
        (true, Ok(Item::Impl(task))) => of_task(&task),
        (true, Ok(other)) => {
            Err(Error::new(other.span(), "write it before a function or an `impl Task for …`"))
        }
        (true, Err(error)) => Err(error),
    };
    expanded.unwrap_or_else(|error| error.into_compile_error()).into()
}

/// A function of an extent and parameters: one output per extent.
fn of_function(function: &ItemFn) -> Result<Code, Error> {
    let name = &function.sig.ident;
    if let Some(generics) = function.sig.generics.type_params().next() {
        return Err(Error::new(generics.span(), "an operation has no type parameters"));
    }
    let mut inputs = function.sig.inputs.iter();
    if inputs.next().is_none() {
        return Err(Error::new(name.span(), "the first argument is the extent: &Extent<'_>"));
    }
    let (mut names, mut types) = (Vec::new(), Vec::new());
    for input in inputs {
        let FnArg::Typed(parameter) = input else {
            return Err(Error::new(input.span(), "an operation is a free function"));
        };
        let Pat::Ident(pattern) = &*parameter.pat else {
            return Err(Error::new(parameter.pat.span(), "a parameter has a name"));
        };
        names.push(&pattern.ident);
        types.push(&*parameter.ty);
    }
    let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
    let exports = exports(&quote!(OperationOfFunction), &["pario_prepare", "pario_process"]);
    Ok(quote! {
        #function

        const _: () = {
            struct OperationOfFunction { #(#names: #types,)* }

            impl ::pario_module_sdk::Task for OperationOfFunction {
                fn prepare(
                    parameters: &::pario_module_sdk::Parameters<'_>,
                ) -> ::core::result::Result<Self, ::std::string::String> {
                    Ok(Self { #(#names: parameters.get(#texts)?,)* })
                }

                fn process(
                    &mut self,
                    extent: &::pario_module_sdk::Extent<'_>,
                ) -> ::core::result::Result<
                    ::pario_module_sdk::Output,
                    ::std::string::String,
                > {
                    let output = #name(extent, #(::core::clone::Clone::clone(&self.#names),)*);
                    ::pario_module_sdk::IntoOutput::into_output(output)
                }
            }

            #exports
        };
    })
}

/// An implementation of `Task`: the module exports the functions that it has.
fn of_task(task: &ItemImpl) -> Result<Code, Error> {
    if task.trait_.is_none() {
        return Err(Error::new(task.span(), "write it before `impl Task for …`"));
    }
    let has = |name: &str| {
        task.items.iter().any(|item| matches!(item, ImplItem::Fn(item) if item.sig.ident == name))
    };
    let optional = ["process_absent", "neighbours", "cut", "finish", "merge"];
    let mut functions = vec!["pario_prepare".to_owned(), "pario_process".to_owned()];
    functions.extend(optional.iter().filter(|name| has(name)).map(|name| format!("pario_{name}")));
    let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
    let kind: &Type = &task.self_ty;
    let exports = exports(&quote!(#kind), &functions);
    Ok(quote! {
        #task

        const _: () = { #exports };
    })
}

/// The exported functions of a module whose task has a type.
fn exports(kind: &Code, functions: &[&str]) -> Code {
    let functions = functions.iter().map(|name| {
        let name = Ident::new(name, Span::call_site());
        quote! {
            #[unsafe(no_mangle)]
            extern "C" fn #name(input: u32) -> u32 {
                // SAFETY: only a node calls this, with the address of an input record.
                unsafe { ::pario_module_sdk::export::#name(&TASK, input) }
            }
        }
    });
    quote! {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            static TASK: ::pario_module_sdk::export::TaskSlot<#kind> =
                ::pario_module_sdk::export::TaskSlot::new();

            #[unsafe(no_mangle)]
            extern "C" fn pario_abi() -> i32 {
                ::pario_module_sdk::export::VERSION
            }

            #[unsafe(no_mangle)]
            extern "C" fn pario_alloc(length: u32) -> u32 {
                ::pario_module_sdk::export::pario_alloc(length)
            }

            #(#functions)*
        };
    }
}
