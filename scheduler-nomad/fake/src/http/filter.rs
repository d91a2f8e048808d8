//! Filter expressions: the part of the language that is recorded.
//!
//! `and`, `or`, `not`, parentheses, `==`, `!=`, `in`, `not in`, `is empty`, `is not empty`; a selector is a path of names
//! (`Meta.a`) with an index in brackets where a name does not do (`Meta["a.b"]`). `any <list> as <name> { … }` stands alone,
//! or in parentheses.

use serde_json::Value;

use crate::cluster::Refusal;

#[derive(Debug)]
pub(crate) enum Filter {
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Not(Box<Self>),
    Equals(Vec<String>, String),
    /// A key in a map, an item in a list, or a part of a text.
    Has(Vec<String>, String),
    IsEmpty(Vec<String>),
    /// Some item of a list, under this name.
    Any(Vec<String>, String, Box<Self>),
}

/// What names stand for: an object, and items of its lists.
#[derive(Clone, Copy)]
struct Scope<'a> {
    object: &'a Value,
    item: Option<(&'a str, &'a Value, &'a Self)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A name, a number, or a word of the language.
    Word(String),
    Quoted(String),
    /// One of the marks `==`, `!=`, `(`, `)`, `.`, `[`, `]`, `{`, `}`.
    Mark(&'static str),
}

impl Filter {
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let mut parser = Parser { tokens: tokens(text)?, position: 0, length: text.len() };
        let filter = parser.expression("EOF")?;
        if parser.position < parser.tokens.len() { Err(parser.unknown()) } else { Ok(filter) }
    }

    /// Whether an object of the list is wanted. A selector that names no field of it is an error.
    pub(crate) fn accepts(&self, object: &Value) -> Result<bool, Refusal> {
        self.holds(Scope { object, item: None })
    }

    fn holds(&self, scope: Scope<'_>) -> Result<bool, Refusal> {
        Ok(match self {
            Self::And(one, other) => one.holds(scope)? && other.holds(scope)?,
            Self::Or(one, other) => one.holds(scope)? || other.holds(scope)?,
            Self::Not(inner) => !inner.holds(scope)?,
            Self::Equals(selector, wanted) => find(scope, selector)?.is_some_and(|value| text(value) == *wanted),
            Self::Has(selector, wanted) => match find(scope, selector)? {
                Some(Value::Object(map)) => map.contains_key(wanted),
                Some(Value::Array(list)) => list.iter().any(|item| text(item) == *wanted),
                Some(Value::String(whole)) => whole.contains(wanted.as_str()),
                _ => false,
            },
            Self::IsEmpty(selector) => match find(scope, selector)? {
                None | Some(Value::Null) => true,
                Some(Value::String(text)) => text.is_empty(),
                Some(Value::Array(list)) => list.is_empty(),
                Some(Value::Object(map)) => map.is_empty(),
                Some(_) => false,
            },
            Self::Any(selector, name, inner) => {
                for item in find(scope, selector)?.and_then(Value::as_array).into_iter().flatten() {
                    if inner.holds(Scope { object: scope.object, item: Some((name, item, &scope)) })? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }
}

fn find<'a>(scope: Scope<'a>, selector: &[String]) -> Result<Option<&'a Value>, Refusal> {
    let mut names = selector.iter();
    let Some(first) = names.next() else { return Ok(None) };
    let Some(mut value) = scope.named(first).or_else(|| scope.object.get(first)) else {
        let text = format!(
            "failed to read result page: error finding value in datum: /{first} at part 0: couldn't find key: struct \
             field with name {first:?}"
        );
        return Err(Refusal::new(400, text));
    };
    for name in names {
        match value.get(name) {
            Some(inner) => value = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

impl<'a> Scope<'a> {
    /// What an item of a list is called.
    fn named(&self, wanted: &str) -> Option<&'a Value> {
        let (name, item, outer) = self.item?;
        if name == wanted { Some(item) } else { outer.named(wanted) }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The words of an expression, with where they begin.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Refusal> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let at = text.len() - rest.len();
        let marks = ["==", "!=", "(", ")", ".", "[", "]", "{", "}"];
        let taken = if let Some(mark) = marks.into_iter().find(|mark| rest.starts_with(mark)) {
            tokens.push((at, Token::Mark(mark)));
            mark.len()
        } else if first == '"' || first == '`' {
            let inner = rest.get(1..).unwrap_or_default();
            let end = inner.find(first).ok_or_else(|| unrecorded(text))?;
            tokens.push((at, Token::Quoted(inner.get(..end).unwrap_or_default().to_owned())));
            end + 2
        } else {
            let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-' || c == '/';
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(unrecorded(text));
            }
            tokens.push((at, Token::Word(rest.get(..end).unwrap_or_default().to_owned())));
            end
        };
        rest = rest.get(taken..).unwrap_or_default().trim_start();
    }
    Ok(tokens)
}

fn unrecorded(what: &str) -> Refusal {
    Refusal::unrecorded(format!("the filter {what:?}"))
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    position: usize,
    length: usize,
}

impl Parser {
    /// Conditions that are joined, or a single one about the items of a list. `end` is what follows it.
    fn expression(&mut self, end: &str) -> Result<Filter, Refusal> {
        let items = matches!(self.tokens.get(self.position..), Some([(_, Token::Word(any)), (_, Token::Word(_)), ..])
            if any == "any");
        if !items {
            return self.or();
        }
        self.position += 1;
        let selector = self.selector()?;
        let name = if self.word("as") { self.peek().cloned() } else { None };
        let Some(Token::Word(name)) = name else { return Err(self.unknown()) };
        self.position += 1;
        if !self.mark("{") {
            return Err(self.unknown());
        }
        let inner = self.expression("\"}\"")?;
        if !self.mark("}") {
            return Err(self.unknown());
        }
        let joined = matches!(self.peek(), Some(Token::Word(_)));
        if joined {
            let expected = if end == "EOF" { "[ \\t\\r\\n] or EOF" } else { "\"}\" or [ \\t\\r\\n]" };
            return Err(self.expected(expected));
        }
        Ok(Filter::Any(selector, name, inner.into()))
    }

    /// The server's words for what cannot stand here.
    fn expected(&self, what: &str) -> Refusal {
        let offset = self.tokens.get(self.position).map_or(self.length, |(at, _)| *at);
        let at = format!("1:{} ({offset}): no match found, expected: {what}", offset + 1);
        Refusal::new(400, format!("failed to create result paginator: failed to read filter expression: {at}"))
    }

    fn or(&mut self) -> Result<Filter, Refusal> {
        let mut filter = self.and()?;
        while self.word("or") {
            filter = Filter::Or(filter.into(), self.and()?.into());
        }
        Ok(filter)
    }

    fn and(&mut self) -> Result<Filter, Refusal> {
        let mut filter = self.not()?;
        while self.word("and") {
            filter = Filter::And(filter.into(), self.not()?.into());
        }
        Ok(filter)
    }

    fn not(&mut self) -> Result<Filter, Refusal> {
        if self.word("not") {
            return Ok(Filter::Not(self.not()?.into()));
        }
        if self.mark("(") {
            let filter = self.expression("\")\"")?;
            return if self.mark(")") { Ok(filter) } else { Err(self.unknown()) };
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Filter, Refusal> {
        if let Some(Token::Quoted(value)) = self.peek().cloned() {
            self.position += 1;
            let negated = self.word("not");
            if !self.word("in") {
                return Err(self.unknown());
            }
            return Ok(negate(negated, Filter::Has(self.selector()?, value)));
        }
        let selector = self.selector()?;
        if self.mark("==") {
            return Ok(Filter::Equals(selector, self.value()?));
        }
        if self.mark("!=") {
            return Ok(negate(true, Filter::Equals(selector, self.value()?)));
        }
        if self.word("contains") {
            return Ok(Filter::Has(selector, self.value()?));
        }
        if self.word("is") {
            let negated = self.word("not");
            if self.word("empty") {
                return Ok(negate(negated, Filter::IsEmpty(selector)));
            }
        }
        if selector == ["any"] {
            let operators = r#""!=", "==", "contains", "in", "is", "matches", "not" or [ \t\r\n]"#;
            return Err(self.expected(operators));
        }
        Err(self.unknown())
    }

    fn selector(&mut self) -> Result<Vec<String>, Refusal> {
        let Some(Token::Word(first)) = self.peek().cloned() else { return Err(self.unknown()) };
        self.position += 1;
        let mut names = vec![first];
        loop {
            let bracket = self.mark("[");
            if !bracket && !self.mark(".") {
                return Ok(names);
            }
            match self.peek().cloned() {
                Some(Token::Word(name)) if !bracket => names.push(name),
                Some(Token::Quoted(name)) if bracket => names.push(name),
                _ => return Err(self.unknown()),
            }
            self.position += 1;
            if bracket && !self.mark("]") {
                return Err(self.unknown());
            }
        }
    }

    fn value(&mut self) -> Result<String, Refusal> {
        match self.peek().cloned() {
            Some(Token::Word(value) | Token::Quoted(value)) => {
                self.position += 1;
                Ok(value)
            }
            None => Err(self.expected(r#""-", "0", "\"", "`", [ \t\r\n], [1-9] or [a-zA-Z]"#)),
            Some(_) => Err(self.unknown()),
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position).map(|(_, token)| token)
    }

    fn word(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(word)) if word == wanted);
        self.position += usize::from(found);
        found
    }

    fn mark(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Mark(mark)) if *mark == wanted);
        self.position += usize::from(found);
        found
    }

    fn unknown(&self) -> Refusal {
        Refusal::unrecorded(format!("a filter expression of this form (at its word {})", self.position + 1))
    }
}

fn negate(negated: bool, filter: Filter) -> Filter {
    if negated { Filter::Not(filter.into()) } else { filter }
}
