//! Texts that reach the container byte for byte.
//!
//! The node replaces `${…}` in environment variables by a pattern, once; in a driver's settings it reads every text as an
//! HCL template, where `%{…}` means something too. JSON has no escape that both understand. So each `$` that leads to a
//! brace is taken from a variable that holds just that: the task's own `Meta`, which both know as `NOMAD_META_…`.

/// What is put in `Meta`, so that texts can refer to it.
pub(super) const META: [(&str, &str); 2] = [("scheduler_dollar", "$"), ("scheduler_percent", "%")];

/// An environment variable's text.
pub(super) fn in_env(text: &str) -> String {
    escape(text, &META[..1])
}

/// A text in the driver's settings.
pub(super) fn in_config(text: &str) -> String {
    escape(text, &META)
}

/// Whether a text was written with the help of `Meta`.
pub(super) fn needs_meta(text: &str) -> bool {
    text.contains("${NOMAD_META_scheduler_")
}

/// Replaces each mark of a run of them that ends at a brace: in `$${` the first one would make an escape of HCL's own.
fn escape(text: &str, marks: &[(&str, &str)]) -> String {
    let is_mark = |c: char| marks.iter().any(|(_, mark)| mark.starts_with(c));
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match marks.iter().find(|(_, mark)| rest.starts_with(*mark)) {
            Some((name, _)) if rest.trim_start_matches(is_mark).starts_with('{') => {
                out.push_str("${NOMAD_META_");
                out.push_str(name);
                out.push('}');
            }
            _ => out.push(c),
        }
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the node does with an environment variable: each `${name}`, with letters, digits and `_-.` in the name, is
    /// replaced once if it is known and stays otherwise.
    fn expand_env(text: &str, known: impl Fn(&str) -> Option<String>) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find("${") {
            let after = &rest[at + 2..];
            let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)));
            match end.filter(|end| *end > 0 && after[*end..].starts_with('}')) {
                Some(end) => {
                    out.push_str(&rest[..at]);
                    let name = &after[..end];
                    out.push_str(&known(name).unwrap_or_else(|| format!("${{{name}}}")));
                    rest = &after[end + 1..];
                }
                None => {
                    out.push_str(&rest[..at + 2]);
                    rest = after;
                }
            }
        }
        out + rest
    }

    /// What the node does with a driver's setting: an HCL template, in which `$${` and `%%{` are escapes, `${name}` is a
    /// value, and anything else behind `${` or `%{` is an error.
    fn expand_config(text: &str, known: impl Fn(&str) -> Option<String>) -> Option<String> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("$${") {
                out.push_str("${");
                rest = after;
            } else if let Some(after) = rest.strip_prefix("%%{") {
                out.push_str("%{");
                rest = after;
            } else if let Some(after) = rest.strip_prefix("${") {
                let (name, behind) = after.split_once('}')?;
                out.push_str(&known(name)?);
                rest = behind;
            } else if rest.starts_with("%{") {
                return None;
            } else {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        Some(out)
    }

    fn known(name: &str) -> Option<String> {
        let own = META.iter().find(|(key, _)| name.strip_prefix("NOMAD_META_") == Some(*key));
        own.map(|(_, mark)| (*mark).to_owned()).or_else(|| (name == "HOME").then(|| "/root".to_owned()))
    }

    #[test]
    fn the_references_expand() {
        assert_eq!(expand_env("a${HOME}b ${NOPE} ${} $HOME $${HOME}", known), "a/rootb ${NOPE} ${} $HOME $/root");
        assert_eq!(expand_config("a${HOME}b $${HOME} %%{if} 5%", known).unwrap(), "a/rootb ${HOME} %{if} 5%");
        assert_eq!(expand_config("%{if}", known), None);
    }

    #[test]
    fn only_what_would_be_replaced_is_escaped() {
        for plain in ["", "$HOME", "$$", "5% {x}", "a$b{c}"] {
            assert_eq!((in_env(plain), in_config(plain)), (plain.to_owned(), plain.to_owned()));
        }
        assert_eq!(in_env("x${HOME}%{y"), "x${NOMAD_META_scheduler_dollar}{HOME}%{y");
        assert!(needs_meta(&in_config("%{if true}")));
    }

    proptest! {
        #[test]
        fn the_program_sees_the_text_byte_for_byte(text in "([${}%]|HOME|[A-C.]|\\PC){0,40}") {
            prop_assert_eq!(expand_env(&in_env(&text), known), text.clone());
            prop_assert_eq!(expand_config(&in_config(&text), known), Some(text));
        }
    }
}
