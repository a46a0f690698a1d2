//! Filters that are put into a template before it is compiled, found by its syntax tree.
//!
//! - `__text` where text that the template put together (the result of a macro, of a `set` block or of an `include`) is
//!   compared, tested, or given to a filter: such text holds placeholders, and a condition is about the data.
//!   A list or a mapping with such text in it becomes one with the data. `__alone` does the same of a text and leaves lists and mappings
//!   as they are: it is put where their members only change places.
//! - `__own` where a list or a mapping may be kept: `append` and `update` change what it returns, and minijinja's own
//!   containers cannot be changed.
//!
//! A filter binds stronger than every operator, so one that stands behind a name, a call or a literal is about that alone.
//! The tree's ends of such expressions are exact; its beginnings are not, so nothing is put before an expression.

use minijinja::machinery::ast::{
    BinOpKind, Call, CallArg, CallType, Expr, Filter, ForLoop, Macro, Stmt,
};
use minijinja::machinery::parse;

use crate::edits::{Edit, Edited};

/// Filters to which the text of a template is more than its data: they know placeholders, or leave them alone.
const KEEP_TEXT: [&str; 7] = [
    "__load_yaml",
    "load_yaml",
    "load_json",
    "indent",
    "trim",
    "default",
    "d",
];

/// Filters that give members of a list or a mapping another place, and read none of them.
const REARRANGE: [&str; 9] = [
    "batch", "count", "first", "last", "length", "list", "random", "reverse", "slice",
];

/// Methods of lists and mappings that compare their first argument with what is there.
const COMPARE: [&str; 6] = ["count", "get", "index", "pop", "remove", "setdefault"];

/// Tests that look at the text of a value.
const READING_TESTS: [&str; 22] = [
    "eq",
    "equalto",
    "==",
    "ne",
    "!=",
    "lt",
    "lessthan",
    "<",
    "le",
    "<=",
    "gt",
    "greaterthan",
    ">",
    "ge",
    ">=",
    "in",
    "startingwith",
    "endingwith",
    "lower",
    "upper",
    "sameas",
    "match",
];

/// What a template consists of.
pub(crate) struct Syntax {
    /// The template with the filters.
    pub edited: Edited,
    /// The names that it uses.
    pub names: Vec<Named>,
}

/// A name that a template uses.
pub(crate) struct Named {
    pub kind: NameKind,
    pub name: String,
    /// Where it stands in the template, in bytes.
    pub at: usize,
}

/// What a name is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKind {
    Filter,
    Test,
    /// A function of the object `salt`.
    SaltFunction,
    /// A grain that has a default where a minion does not have it.
    GrainWithDefault,
    /// A text of the template before `%`, which formats in Python.
    FormattedText,
}

/// Returns the template with these filters, and the names that it uses.
///
/// # Errors
/// When the template is malformed.
pub(crate) fn read(name: &str, source: &str) -> Result<Syntax, minijinja::Error> {
    let tree = parse(source, name, minijinja::syntax::SyntaxConfig::default())?;
    let mut walk = Walk::default();
    walk.statement(&tree);
    Ok(Syntax {
        edited: Edited::new(source, walk.edits),
        names: walk.names,
    })
}

/// The use of the value of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The value is printed or passed on: text of the template stays text of the template.
    Passed,
    /// The value is kept, and may be changed later.
    Kept,
    /// The text of the value is read, also within a list or a mapping.
    Read,
    /// The text of the value is read, if it is one.
    ReadAlone,
}

impl Use {
    /// Returns the filter that has the data of a value that is used in this way; none where text of the template stays that.
    fn reads(self) -> Option<&'static str> {
        match self {
            Self::Read => Some("__text"),
            Self::ReadAlone => Some("__alone"),
            Self::Passed | Self::Kept => None,
        }
    }
}

#[derive(Default)]
struct Walk {
    edits: Vec<Edit>,
    names: Vec<Named>,
}

impl Walk {
    fn name(&mut self, kind: NameKind, name: impl Into<String>, at: usize) {
        let name = name.into();
        self.names.push(Named { kind, name, at });
    }

    fn insert(&mut self, after: &Expr<'_>, filter: &str) {
        self.edits.push(Edit {
            at: after.span().end_offset as usize,
            removed: 0,
            inserted: format!("|{filter}"),
        });
    }

    fn statements(&mut self, statements: &[Stmt<'_>]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt<'_>) {
        match statement {
            Stmt::Template(it) => self.statements(&it.children),
            Stmt::EmitExpr(it) => self.expression(&it.expr, Use::Passed),
            Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => {}
            Stmt::ForLoop(it) => self.for_loop(it),
            Stmt::IfCond(it) => {
                self.expression(&it.expr, Use::Passed);
                self.statements(&it.true_body);
                self.statements(&it.false_body);
            }
            Stmt::WithBlock(it) => {
                for (_, value) in &it.assignments {
                    self.expression(value, Use::Kept);
                }
                self.statements(&it.body);
            }
            Stmt::Set(it) => self.expression(&it.expr, Use::Kept),
            Stmt::SetBlock(it) => {
                if let Some(filter) = &it.filter {
                    self.expression(filter, Use::Passed);
                }
                self.statements(&it.body);
            }
            Stmt::AutoEscape(it) => self.statements(&it.body),
            Stmt::FilterBlock(it) => {
                self.expression(&it.filter, Use::Passed);
                self.statements(&it.body);
            }
            Stmt::Block(it) => self.statements(&it.body),
            Stmt::Import(it) => self.expression(&it.expr, Use::Read),
            Stmt::FromImport(it) => self.expression(&it.expr, Use::Read),
            Stmt::Extends(it) => self.expression(&it.name, Use::Read),
            Stmt::Include(it) => self.expression(&it.name, Use::Read),
            Stmt::Macro(it) => self.declared(it),
            Stmt::CallBlock(it) => {
                self.call(&it.call);
                self.declared(&it.macro_decl);
            }
            Stmt::Do(it) => self.call(&it.call),
        }
    }

    fn for_loop(&mut self, it: &ForLoop<'_>) {
        self.expression(&it.iter, Use::Passed);
        if let Some(condition) = &it.filter_expr {
            self.expression(condition, Use::Passed);
        }
        self.statements(&it.body);
        self.statements(&it.else_body);
    }

    fn declared(&mut self, it: &Macro<'_>) {
        for default in &it.defaults {
            self.expression(default, Use::Kept);
        }
        self.statements(&it.body);
    }

    fn arguments(&mut self, arguments: &[CallArg<'_>], used: Use) {
        for argument in arguments {
            match argument {
                CallArg::Pos(value) | CallArg::Kwarg(_, value) => self.expression(value, used),
                // A filter would be about the asterisk's operand, which is a container.
                CallArg::PosSplat(value) | CallArg::KwargSplat(value) => {
                    self.expression(value, Use::Passed);
                }
            }
        }
    }

    fn call(&mut self, call: &Call<'_>) {
        match call.identify_call() {
            CallType::Function(_) | CallType::Block(_) => {}
            CallType::Method(..) | CallType::Object(_) => self.base(&call.expr),
        }
        self.grain(call);
        let compares = match call.identify_call() {
            CallType::Method(_, name) => COMPARE.contains(&name),
            CallType::Function(_) | CallType::Block(_) | CallType::Object(_) => false,
        };
        let (first, others) = call
            .args
            .split_at(usize::from(compares).min(call.args.len()));
        self.arguments(first, Use::Read);
        self.arguments(others, Use::Kept);
    }

    /// Notes the grain that a call asks for, if it is a constant: `grains.get` and `grains.filter_by` have defaults.
    fn grain(&mut self, call: &Call<'_>) {
        let Some((function, at)) = grain_function(&call.expr) else {
            return;
        };
        let (place, keyword, otherwise) = match function.as_str() {
            "grains.get" => (0, "key", None),
            "grains.filter_by" => (1, "grain", Some("os_family")),
            _ => return,
        };
        let named = call.args.iter().find_map(|argument| match argument {
            CallArg::Kwarg(name, value) if *name == keyword => Some(value),
            _ => None,
        });
        let given = named.or_else(|| match call.args.get(place) {
            Some(CallArg::Pos(value)) => Some(value),
            _ => None,
        });
        let name = match given {
            Some(Expr::Const(value)) => value.value.as_str(),
            Some(_) => None,
            None => otherwise,
        };
        if let Some(name) = name {
            let name = name.split(':').next().unwrap_or_default();
            self.name(NameKind::GrainWithDefault, name, at);
        }
    }

    fn filter(&mut self, filter: &Filter<'_>, begins: usize) {
        let reads = match KEEP_TEXT.contains(&filter.name) {
            true => Use::Passed,
            false if REARRANGE.contains(&filter.name) => Use::ReadAlone,
            false => Use::Read,
        };
        self.name(NameKind::Filter, filter.name, begins);
        match &filter.expr {
            Some(input) => self.expression(input, reads),
            // The text of a block. The beginning of a filter without an input is its name.
            None if reads != Use::Passed => self.edits.push(Edit {
                at: begins,
                removed: 0,
                inserted: "__text|".to_owned(),
            }),
            None => {}
        }
        let arguments = match filter.name {
            "default" | "d" => Use::Kept,
            _ => reads,
        };
        self.arguments(&filter.args, arguments);
    }

    /// Visits an expression that `.name`, `[key]` or `(arguments)` follows: no filter can stand behind it.
    fn base(&mut self, expression: &Expr<'_>) {
        match expression {
            Expr::GetAttr(it) => {
                if let Expr::GetAttr(module) = &it.expr
                    && let Some(at) = salt_at(&module.expr)
                {
                    let name = format!("{}.{}", module.name, it.name);
                    self.name(NameKind::SaltFunction, name, at);
                }
                self.base(&it.expr);
            }
            Expr::GetItem(it) => {
                if let (Some(at), Expr::Const(name)) = (salt_at(&it.expr), &it.subscript_expr)
                    && let Some(name) = name.value.as_str()
                {
                    self.name(NameKind::SaltFunction, name, at);
                }
                match &it.subscript_expr {
                    Expr::Const(key) if key.value.as_str().is_some() => self.base(&it.expr),
                    // It may be the number of a letter.
                    _ => self.sliced(&it.expr),
                }
                self.expression(&it.subscript_expr, Use::Read);
            }
            Expr::Slice(it) => self.sliced(&it.expr),
            Expr::Call(it) => self.call(it),
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::List(it) => it
                .items
                .iter()
                .for_each(|item| self.expression(item, Use::Kept)),
            Expr::Tuple(it) => it
                .items
                .iter()
                .for_each(|item| self.expression(item, Use::Kept)),
            Expr::Map(it) => {
                for key in &it.keys {
                    self.expression(key, Use::Read);
                }
                for value in &it.values {
                    self.expression(value, Use::Kept);
                }
            }
            // It stands in brackets.
            other => self.expression(other, Use::Passed),
        }
    }

    /// Visits an expression of which a part is taken. A part of a text is one of its data.
    fn sliced(&mut self, expression: &Expr<'_>) {
        match begin(expression) {
            Some(at) => {
                self.edits.push(Edit {
                    at,
                    removed: 0,
                    inserted: "(".to_owned(),
                });
                self.base(expression);
                self.insert(expression, "__alone)");
            }
            // It stands in brackets.
            None if matches!(expression, Expr::List(_) | Expr::Tuple(_) | Expr::Map(_)) => {
                self.base(expression);
            }
            None => self.expression(expression, Use::ReadAlone),
        }
    }

    fn expression(&mut self, expression: &Expr<'_>, used: Use) {
        match expression {
            Expr::Const(_) => {}
            Expr::Var(_) => {
                if let Some(filter) = used.reads() {
                    self.insert(expression, filter);
                }
            }
            Expr::GetAttr(_) | Expr::GetItem(_) | Expr::Slice(_) | Expr::Call(_) => {
                self.base(expression);
                match used.reads() {
                    Some(filter) => self.insert(expression, filter),
                    None if used == Use::Kept => self.insert(expression, "__own"),
                    None => {}
                }
            }
            Expr::List(_) | Expr::Tuple(_) | Expr::Map(_) => {
                self.base(expression);
                match used {
                    Use::Kept if !matches!(expression, Expr::Tuple(_)) => {
                        self.insert(expression, "__own");
                    }
                    // A list of words needs nothing.
                    Use::Read if !is_constant(expression) => self.insert(expression, "__text"),
                    _ => {}
                }
            }
            Expr::Filter(it) => {
                self.filter(it, expression.span().start_offset as usize);
                let keeps = KEEP_TEXT.contains(&it.name) || REARRANGE.contains(&it.name);
                match used.reads() {
                    Some(filter) if keeps => self.insert(expression, filter),
                    None if used == Use::Kept => self.insert(expression, "__own"),
                    _ => {}
                }
            }
            Expr::Test(it) => {
                let at = expression.span().start_offset as usize;
                self.name(NameKind::Test, it.name, at);
                let reads = match READING_TESTS.contains(&it.name) {
                    true => Use::Read,
                    false => Use::Passed,
                };
                self.expression(&it.expr, reads);
                self.arguments(&it.args, reads);
            }
            Expr::UnaryOp(it) => self.expression(&it.expr, Use::Passed),
            Expr::BinOp(it) => {
                if let (BinOpKind::Rem, Expr::Const(text)) = (it.op, &it.left)
                    && let (Some(name), Some(at)) = (text.value.as_str(), begin(&it.left))
                {
                    self.name(NameKind::FormattedText, name, at);
                }
                let inner = match it.op {
                    BinOpKind::ScAnd | BinOpKind::ScOr | BinOpKind::Concat | BinOpKind::Add => used,
                    _ => Use::Read,
                };
                self.expression(&it.left, inner);
                self.expression(&it.right, inner);
            }
            Expr::Compare(it) => {
                self.expression(&it.expr, Use::Read);
                for operator in &it.ops {
                    self.expression(&operator.expr, Use::Read);
                }
            }
            Expr::IfExpr(it) => {
                self.expression(&it.test_expr, Use::Passed);
                self.expression(&it.true_expr, used);
                if let Some(otherwise) = &it.false_expr {
                    self.expression(otherwise, used);
                }
            }
        }
    }
}

/// Returns the name of a function about grains, and where it stands: `grains.get`, `salt.grains.get` or `salt['grains.get']`.
fn grain_function(called: &Expr<'_>) -> Option<(String, usize)> {
    let name = match called {
        Expr::GetItem(it) => match &it.subscript_expr {
            Expr::Const(name) if salt_at(&it.expr).is_some() => name.value.as_str()?.to_owned(),
            _ => return None,
        },
        Expr::GetAttr(it) => match &it.expr {
            Expr::Var(object) if object.id == "grains" && it.name == "get" => {
                "grains.get".to_owned()
            }
            Expr::GetAttr(module) if salt_at(&module.expr).is_some() => {
                format!("{}.{}", module.name, it.name)
            }
            _ => return None,
        },
        _ => return None,
    };
    Some((name, begin(called)?))
}

/// Returns where an expression begins, which is exact for names and constants, and for what follows them.
fn begin(expression: &Expr<'_>) -> Option<usize> {
    match expression {
        Expr::Var(it) => Some(it.span().start_offset as usize),
        Expr::Const(it) => Some(it.span().start_offset as usize),
        Expr::GetAttr(it) => begin(&it.expr),
        Expr::GetItem(it) => begin(&it.expr),
        Expr::Slice(it) => begin(&it.expr),
        Expr::Call(it) => begin(&it.expr),
        _ => None,
    }
}

/// Whether a list or a mapping has constants alone.
fn is_constant(expression: &Expr<'_>) -> bool {
    match expression {
        Expr::Const(_) => true,
        Expr::List(it) => it.items.iter().all(is_constant),
        Expr::Tuple(it) => it.items.iter().all(is_constant),
        Expr::Map(it) => it.keys.iter().chain(&it.values).all(is_constant),
        _ => false,
    }
}

/// Returns where the object `salt` stands, if this is it.
fn salt_at(expression: &Expr<'_>) -> Option<usize> {
    match expression {
        Expr::Var(it) if it.id == "salt" => Some(it.span().start_offset as usize),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(source: &str) -> String {
        read("a template", source).unwrap().edited.text
    }

    #[test]
    fn text_is_read_where_it_is_compared_or_filtered_and_passed_on_where_it_is_printed() {
        for (source, expected) in [
            ("{{ x ~ f(y) }}", "{{ x ~ f(y) }}"),
            (
                "{% if ( x ) == f(1) %}{% endif %}",
                "{% if ( x|__text ) == f(1)|__text %}{% endif %}",
            ),
            ("{{ (a ~ b) == 'c' }}", "{{ (a|__text ~ b|__text) == 'c' }}"),
            ("{{ x|upper|indent(2) }}", "{{ x|__text|upper|indent(2) }}"),
            ("{{ x|indent|upper }}", "{{ x|indent|__text|upper }}"),
            ("{{ -x + 1 }}", "{{ -x + 1 }}"),
            (
                "{{ a[x].b(y)[1:2] }}",
                "{{ ((a|__alone)[x|__text].b(y)|__alone)[1:2] }}",
            ),
            (
                "{{ x[1:][:2] }}{{ (a ~ b)[1:] }}",
                "{{ ((x|__alone)[1:]|__alone)[:2] }}{{ (a|__alone ~ b|__alone)[1:] }}",
            ),
            (
                "{{ [x] == [1] }}{{ {x: y}|length }}",
                "{{ [x]|__text == [1] }}{{ {x|__text: y}|length }}",
            ),
            (
                "{{ x|list|first|upper }}{{ l.index(x) }}",
                "{{ x|__alone|list|__alone|first|__text|upper }}{{ l.index(x|__text) }}",
            ),
            (
                "{{ x is defined and y is eq z }}",
                "{{ x is defined and y|__text is eq z|__text }}",
            ),
            ("{% include x ~ 'y' %}", "{% include x|__text ~ 'y' %}"),
            (
                "{% set x = a if b == c else [] %}",
                "{% set x = a if b|__text == c|__text else []|__own %}",
            ),
            (
                "{% do x.update({'a': [1]}) %}",
                "{% do x.update({'a': [1]|__own}|__own) %}",
            ),
            ("{{ {'a': 1}[x] }}", "{{ {'a': 1}[x|__text] }}"),
            ("{{ x|default({}) }}", "{{ x|default({}|__own) }}"),
            (
                "{% filter upper|lower %}{% endfilter %}",
                "{% filter __text|upper|lower %}{% endfilter %}",
            ),
            (
                "{% set x | upper %}{% endset %}",
                "{% set x | __text|upper %}{% endset %}",
            ),
            ("{{ f(*a, **b) }}", "{{ f(*a, **b) }}"),
        ] {
            assert_eq!(rewritten(source), expected);
            // It is a template, too.
            read("a template", expected).unwrap();
        }
    }
}
