//! The attribute `function`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::{Error, FnArg, Ident, ItemFn, LitInt, Pat, Result, ReturnType, Type};

use crate::documentation;
use crate::parameter::{Parameter, descriptors};

/// The options of the attribute.
#[derive(Default)]
struct Options {
    nonblocking: bool,
    changes: bool,
    acts_once: bool,
    own_process: bool,
    in_minion: bool,
    seconds: Option<LitInt>,
}

impl Options {
    fn read(tokens: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let read = syn::meta::parser(|meta| {
            let name = meta.path.get_ident().map(Ident::to_string);
            match name.as_deref().unwrap_or_default() {
                "nonblocking" => options.nonblocking = true,
                "changes" => options.changes = true,
                "acts_once" => options.acts_once = true,
                "own_process" => options.own_process = true,
                "in_minion" => options.in_minion = true,
                "seconds" => options.seconds = Some(meta.value()?.parse()?),
                _ => {
                    return Err(meta.error(
                        "unknown option: there are nonblocking, changes, acts_once, own_process, in_minion and seconds = N",
                    ));
                }
            }
            Ok(())
        });
        read.parse2(tokens)?;
        Ok(options)
    }
}

/// Writes the descriptor of a function beside it.
pub(crate) fn expand(options: TokenStream, mut function: ItemFn) -> Result<TokenStream> {
    let options = Options::read(options)?;
    let name = function.sig.ident.clone();
    let documentation = documentation::take(&mut function.attrs);
    if documentation.trim().is_empty() {
        return Err(Error::new_spanned(
            &name,
            "a function has a documentation comment, which operators read",
        ));
    }
    if !function.sig.generics.params.is_empty() {
        let generics = &function.sig.generics;
        return Err(Error::new_spanned(generics, "a function is not generic"));
    }
    let (context, parameters) = split(&mut function)?;
    let has_test = parameters.iter().any(Parameter::is_test);
    let is_shared = parameters.iter().any(|one| one.shared().is_some());
    if options.changes != has_test && !is_shared {
        return Err(Error::new_spanned(
            &name,
            "a function that `changes` something, and no other, has a parameter `#[default(false)] test: bool`, with \
             which it returns what it would change",
        ));
    }
    if options.own_process && (options.in_minion || options.nonblocking) {
        return Err(Error::new_spanned(
            &name,
            "a function with an `own_process` may wait, and does not act `in_minion`",
        ));
    }
    let descriptors = descriptors(&parameters)?;
    let static_name = format_ident!(
        "{}",
        name.unraw().to_string().to_uppercase(),
        span = name.span()
    );
    let shown_name = name.unraw().to_string();
    let code = code(&function, &name, &context, &parameters);
    let visibility = &function.vis;
    let (blocks, changes, acts_once) = (!options.nonblocking, options.changes, options.acts_once);
    let runs_in = match (options.in_minion, options.own_process || changes) {
        (true, _) => quote!(::saline_functions::RunsIn::MinionsProcess),
        (false, true) => quote!(::saline_functions::RunsIn::OwnProcess),
        (false, false) => quote!(::saline_functions::RunsIn::AnyProcess),
    };
    let time = match options.seconds {
        Some(seconds) => quote!(Some(::std::time::Duration::from_secs(#seconds))),
        None => quote!(None),
    };
    // As `sys.doc` prints it: its indented command lines are no tests of rustdoc.
    let verbatim = format!("```text\n{documentation}\n```");
    let configured = function
        .attrs
        .iter()
        .filter(|one| one.path().is_ident("cfg"));
    Ok(quote! {
        #function

        #(#configured)*
        #[doc = #verbatim]
        #visibility static #static_name: ::saline_functions::Function<#context> = {
            const PARAMETERS: &[::saline_functions::Parameter] = #descriptors;
            ::saline_functions::Function {
                name: ::std::borrow::Cow::Borrowed(#shown_name),
                documentation: ::std::borrow::Cow::Borrowed(#documentation),
                parameters: ::std::borrow::Cow::Borrowed(PARAMETERS),
                blocks: #blocks,
                changes: #changes,
                acts_once: #acts_once,
                runs_in: #runs_in,
                time: #time,
                code: #code,
            }
        };
    })
}

/// Returns the type of the context, and the parameters of the operator, without their attributes.
fn split(function: &mut ItemFn) -> Result<(Type, Vec<Parameter>)> {
    let no_context = Error::new_spanned(
        &function.sig.ident,
        "the first parameter of a function is a reference to its context, such as `job: &JobContext<'_>`",
    );
    let mut inputs = function.sig.inputs.iter_mut();
    let context = match inputs.next() {
        Some(FnArg::Typed(first)) => match &*first.ty {
            Type::Reference(reference) => (*reference.elem).clone(),
            _ => return Err(no_context),
        },
        _ => return Err(no_context),
    };
    let mut parameters = Vec::new();
    for input in inputs {
        let FnArg::Typed(input) = input else {
            return Err(no_context);
        };
        let Pat::Ident(name) = &*input.pat else {
            let mistake = "an operator's parameter has a name";
            return Err(Error::new_spanned(&input.pat, mistake));
        };
        parameters.push(Parameter::take(&mut input.attrs, &name.ident, &input.ty)?);
    }
    Ok((context, parameters))
}

/// Returns the closure that takes the arguments and calls the function.
fn code(function: &ItemFn, name: &Ident, context: &Type, parameters: &[Parameter]) -> TokenStream {
    let taken = parameters.iter().map(Parameter::taken);
    let mut call = quote!(#name(context, #(#taken),*));
    if function.sig.asyncness.is_some() {
        call = quote!(#call.await);
    }
    if returns_result(&function.sig.output) {
        call = quote!(#call?);
    }
    let arguments = match parameters.is_empty() {
        true => Ident::new("_", Span::call_site()),
        false => Ident::new("arguments", Span::call_site()),
    };
    let body = quote! {
        let returned: <#context as ::saline_functions::Context>::Returned =
            ::std::convert::Into::into(#call);
        ::std::result::Result::<_, ::saline_functions::Failure>::Ok(returned)
    };
    let mutable = (!parameters.is_empty()).then(|| quote!(mut));
    match function.sig.asyncness {
        Some(_) => {
            quote!(|context, #mutable #arguments| ::std::boxed::Box::pin(async move { #body }))
        }
        None => quote!(|context, #mutable #arguments| { #body }),
    }
}

fn returns_result(output: &ReturnType) -> bool {
    match output {
        ReturnType::Type(_, ty) => match &**ty {
            Type::Path(path) => path
                .path
                .segments
                .last()
                .is_some_and(|last| last.ident == "Result"),
            _ => false,
        },
        ReturnType::Default => false,
    }
}
