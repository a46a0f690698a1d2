//! One parameter: of a function, or a field of parameters that functions share.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, ExprUnary, Fields, Ident, Lit, Result,
    Type, UnOp,
};

/// What an attribute of a parameter says.
enum Kind {
    Required,
    Optional(TokenStream),
    Args,
    Kwargs,
    Shared,
}

/// One parameter.
pub(crate) struct Parameter {
    name: Ident,
    ty: Type,
    kind: Kind,
}

impl Parameter {
    /// Reads a parameter, and removes the attributes that are about it.
    pub(crate) fn take(attributes: &mut Vec<Attribute>, name: &Ident, ty: &Type) -> Result<Self> {
        let mut kind = None;
        let mut second = None;
        let mut mistake = None;
        attributes.retain(|attribute| match kind_of(attribute) {
            Ok(None) => true,
            Ok(Some(found)) => {
                second = kind.replace(found).map(|_| attribute.clone());
                false
            }
            Err(error) => {
                mistake = Some(error);
                false
            }
        });
        if let Some(error) = mistake {
            return Err(error);
        }
        if let Some(second) = second {
            return Err(Error::new_spanned(second, "a parameter is of one kind"));
        }
        let or_none = match is_option(ty) {
            true => Kind::Optional(quote!(::saline_functions::Literal::None)),
            false => Kind::Required,
        };
        Ok(Self {
            name: name.clone(),
            ty: ty.clone(),
            kind: kind.unwrap_or(or_none),
        })
    }

    /// Whether this is the parameter `test` of a function that changes something.
    pub(crate) fn is_test(&self) -> bool {
        self.name == "test" && matches!(self.kind, Kind::Optional(_))
    }

    /// Returns the shared parameters, if the parameter stands for them.
    pub(crate) fn shared(&self) -> Option<&Type> {
        matches!(self.kind, Kind::Shared).then_some(&self.ty)
    }

    /// Returns its descriptor.
    fn descriptor(&self) -> TokenStream {
        let name = self.name.unraw().to_string();
        let ty = &self.ty;
        let (kind, ty) = match &self.kind {
            Kind::Required | Kind::Shared => (quote!(Required), quote!(#ty)),
            Kind::Optional(default) => (quote!(Optional(#default)), quote!(#ty)),
            Kind::Args => (quote!(Args), quote!(#ty)),
            Kind::Kwargs => (quote!(Kwargs), quote!(::saline_functions::Mapping)),
        };
        quote! {
            ::saline_functions::Parameter {
                name: ::std::borrow::Cow::Borrowed(#name),
                takes: ::std::borrow::Cow::Borrowed(<#ty as ::saline_functions::FromValue>::TAKES),
                secret: <#ty as ::saline_functions::FromValue>::SECRET,
                kind: ::saline_functions::ParameterKind::#kind,
            }
        }
    }

    /// Returns the expression that takes its value out of the bound arguments `arguments`.
    pub(crate) fn taken(&self) -> TokenStream {
        let name = self.name.unraw().to_string();
        match self.kind {
            Kind::Required | Kind::Optional(_) => quote!(arguments.take(#name)?),
            Kind::Args => quote!(arguments.take_args()?),
            Kind::Kwargs => quote!(arguments.take_kwargs()),
            Kind::Shared => quote!(::saline_functions::Parameters::take(&mut arguments)?),
        }
    }
}

/// Returns the descriptors of parameters, as a slice.
///
/// # Errors
/// When an operator could not fill them in their order.
pub(crate) fn descriptors(parameters: &[Parameter]) -> Result<TokenStream> {
    if let [one] = parameters
        && let Some(shared) = one.shared()
    {
        return Ok(quote!(<#shared as ::saline_functions::Parameters>::PARAMETERS));
    }
    let mut last = 0;
    for parameter in parameters {
        let (rank, mistake) = match parameter.kind {
            Kind::Required => (0, "a required parameter stands before those with defaults"),
            // Behind args it is given by name alone.
            Kind::Optional(_) if last == 2 => (2, ""),
            Kind::Optional(_) => (1, "a parameter with a default stands before kwargs"),
            Kind::Args => (2, "args stands once, before kwargs"),
            Kind::Kwargs => (3, "kwargs stands once, at the end"),
            Kind::Shared => (0, "shared parameters stand alone"),
        };
        let is_second = match parameter.kind {
            Kind::Args | Kind::Kwargs => rank == last,
            Kind::Shared => true,
            _ => false,
        };
        if rank < last || is_second {
            return Err(Error::new_spanned(&parameter.name, mistake));
        }
        last = rank;
    }
    let descriptors = parameters.iter().map(Parameter::descriptor);
    Ok(quote!(&[#(#descriptors),*]))
}

/// Writes the trait `Parameters` for a struct.
pub(crate) fn expand(options: &TokenStream, mut item: DeriveInput) -> Result<TokenStream> {
    if !options.is_empty() {
        return Err(Error::new_spanned(options, "`parameters` has no options"));
    }
    let name = &item.ident;
    let fields = match &mut item.data {
        Data::Struct(data) => match &mut data.fields {
            Fields::Named(fields) => &mut fields.named,
            _ => return Err(Error::new_spanned(name, "every parameter has a name")),
        },
        _ => return Err(Error::new_spanned(name, "parameters are a struct")),
    };
    let mut parameters = Vec::new();
    for field in fields {
        if let Some(name) = &field.ident {
            parameters.push(Parameter::take(&mut field.attrs, name, &field.ty)?);
        }
    }
    let descriptors = descriptors(&parameters)?;
    let names = parameters.iter().map(|parameter| &parameter.name);
    let taken = parameters.iter().map(Parameter::taken);
    Ok(quote! {
        #item

        impl ::saline_functions::Parameters for #name {
            const PARAMETERS: &'static [::saline_functions::Parameter] = #descriptors;

            fn take(
                arguments: &mut ::saline_functions::BoundArguments,
            ) -> ::std::result::Result<Self, ::saline_functions::ArgumentError> {
                ::std::result::Result::Ok(Self { #(#names: #taken),* })
            }
        }
    })
}

/// Returns the kind of parameter that an attribute declares; none if it is about something else.
fn kind_of(attribute: &Attribute) -> Result<Option<Kind>> {
    let path = attribute.path();
    Ok(Some(if path.is_ident("default") {
        Kind::Optional(literal(&attribute.parse_args()?)?)
    } else if path.is_ident("args") {
        Kind::Args
    } else if path.is_ident("kwargs") {
        Kind::Kwargs
    } else if path.is_ident("parameters") {
        Kind::Shared
    } else {
        return Ok(None);
    }))
}

/// Returns a default as a `Literal`.
fn literal(default: &Expr) -> Result<TokenStream> {
    let number = match default {
        Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr,
            ..
        }) => expr,
        other => other,
    };
    let variant = match number {
        Expr::Path(path) if path.path.is_ident("None") => {
            return Ok(quote!(::saline_functions::Literal::None));
        }
        Expr::Lit(ExprLit { lit, .. }) => match lit {
            Lit::Bool(_) => quote!(Bool(#default)),
            Lit::Int(_) => quote!(Int(#default)),
            Lit::Float(_) => quote!(Float(#default)),
            Lit::Str(_) => quote!(Text(::std::borrow::Cow::Borrowed(#default))),
            _ => return Err(no_literal(default)),
        },
        _ => return Err(no_literal(default)),
    };
    Ok(quote!(::saline_functions::Literal::#variant))
}

fn no_literal(default: &Expr) -> Error {
    Error::new_spanned(
        default,
        "a default is None, a truth value, a number or a text",
    )
}

fn is_option(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == "Option"),
        _ => false,
    }
}
