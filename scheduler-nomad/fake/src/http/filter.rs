//! Filter expressions: the part of the language that is recorded.
//!
//! `and`, `or`, `not`, parentheses, `==`, `!=`, `in`, `not in`, `is empty`, `is not empty`; a selector is a path of names
//! (`Meta.a`) with an index in brackets where a name does not do (`Meta["a.b"]`).

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
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A name, a number, or a word of the language.
    Word(String),
    Quoted(String),
    /// One of the marks `==`, `!=`, `(`, `)`, `.`, `[`, `]`.
    Mark(&'static str),
}

impl Filter {
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let mut parser = Parser { tokens: tokens(text)?, position: 0, length: text.len() };
        let filter = parser.or()?;
        if parser.position < parser.tokens.len() { Err(parser.unknown()) } else { Ok(filter) }
    }

    /// Whether an object of the list is wanted. A selector that names no field of it is an error.
    pub(crate) fn accepts(&self, object: &Value) -> Result<bool, Refusal> {
        Ok(match self {
            Self::And(one, other) => one.accepts(object)? && other.accepts(object)?,
            Self::Or(one, other) => one.accepts(object)? || other.accepts(object)?,
            Self::Not(inner) => !inner.accepts(object)?,
            Self::Equals(selector, wanted) => find(object, selector)?.is_some_and(|value| text(value) == *wanted),
            Self::Has(selector, wanted) => match find(object, selector)? {
                Some(Value::Object(map)) => map.contains_key(wanted),
                Some(Value::Array(list)) => list.iter().any(|item| text(item) == *wanted),
                Some(Value::String(whole)) => whole.contains(wanted.as_str()),
                _ => false,
            },
            Self::IsEmpty(selector) => match find(object, selector)? {
                None | Some(Value::Null) => true,
                Some(Value::String(text)) => text.is_empty(),
                Some(Value::Array(list)) => list.is_empty(),
                Some(Value::Object(map)) => map.is_empty(),
                Some(_) => false,
            },
        })
    }
}

fn find<'a>(object: &'a Value, selector: &[String]) -> Result<Option<&'a Value>, Refusal> {
    let mut names = selector.iter();
    let Some(first) = names.next() else { return Ok(None) };
    let Some(mut value) = object.get(first) else {
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

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, Refusal> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let marks = ["==", "!=", "(", ")", ".", "[", "]"];
        let taken = if let Some(mark) = marks.into_iter().find(|mark| rest.starts_with(mark)) {
            tokens.push(Token::Mark(mark));
            mark.len()
        } else if first == '"' || first == '`' {
            let inner = rest.get(1..).unwrap_or_default();
            let end = inner.find(first).ok_or_else(|| unrecorded(text))?;
            tokens.push(Token::Quoted(inner.get(..end).unwrap_or_default().to_owned()));
            end + 2
        } else {
            let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-' || c == '/';
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(unrecorded(text));
            }
            tokens.push(Token::Word(rest.get(..end).unwrap_or_default().to_owned()));
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
    tokens: Vec<Token>,
    position: usize,
    length: usize,
}

impl Parser {
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
            let filter = self.or()?;
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
            None => {
                let (column, offset) = (self.length + 1, self.length);
                let text = format!(
                    "failed to create result paginator: failed to read filter expression: 1:{column} ({offset}): no \
                     match found, expected: \"-\", \"0\", \"\\\"\", \"`\", [ \\t\\r\\n], [1-9] or [a-zA-Z]"
                );
                Err(Refusal::new(400, text))
            }
            Some(_) => Err(self.unknown()),
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position)
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
