//! What a template waits for. It is never executed.

/// A variable that a template cannot do without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) path: String,
    /// It is asked for only when this variable lacks this item.
    pub(crate) unless: Option<(String, String)>,
}

/// Where an action stands.
enum Block {
    With(String),
    /// `if .Keys | contains "<item>"`
    Has(String),
    Lacks(String),
    Other,
}

/// The variables that a template names with `with nomadVar "<path>"`, also where an item of the variable around is missing:
/// `if .Keys | contains "<item>" … else`. Of everything else in the language nothing is understood.
pub(crate) fn waits(text: &str) -> Vec<Wait> {
    let mut waits = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    for action in text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
        let action = action.trim().trim_matches('-').trim();
        let quoted = || action.split('"').nth(1).unwrap_or_default().to_owned();
        if action.starts_with("with nomadVar ") {
            let lacking = blocks.iter().rev().find_map(|block| match block {
                Block::Lacks(item) => Some(item.clone()),
                _ => None,
            });
            let around = blocks.iter().rev().find_map(|block| match block {
                Block::With(path) => Some(path.clone()),
                _ => None,
            });
            waits.push(Wait { path: quoted(), unless: around.zip(lacking) });
            blocks.push(Block::With(quoted()));
        } else if action.starts_with("if .Keys | contains ") {
            blocks.push(Block::Has(quoted()));
        } else if ["if ", "with ", "range "].iter().any(|word| action.starts_with(word)) {
            blocks.push(Block::Other);
        } else if action == "else" {
            if let Some(Block::Has(item)) = blocks.pop() {
                blocks.push(Block::Lacks(item));
            } else {
                blocks.push(Block::Other);
            }
        } else if action == "end" {
            blocks.pop();
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_waits_for_variables_and_for_what_stands_for_their_items() {
        let wait = |path: &str, unless: Option<(&str, &str)>| {
            let unless = unless.map(|(variable, item)| (variable.to_owned(), item.to_owned()));
            Wait { path: path.to_owned(), unless }
        };
        assert_eq!(waits("plain {{ env \"A\" }}"), []);
        let one = "{{ with nomadVar \"a\" }}{{ .x }}{{ end }}{{with nomadVar \"b\"}}{{end}}";
        assert_eq!(waits(one), [wait("a", None), wait("b", None)]);
        let never = "{{ with nomadVar \"a/t\" }}{{ end }}";
        let item = format!("{{{{ if .Keys | contains \"k\" }}}}x{{{{ else }}}}{never}{{{{ end }}}}");
        let nested =
            format!("{{{{ with nomadVar \"a\" }}}}{item}{{{{ end }}}}{{{{ with nomadVar \"b\" }}}}{{{{ end }}}}");
        assert_eq!(waits(&nested), [wait("a", None), wait("a/t", Some(("a", "k"))), wait("b", None)]);
    }
}
