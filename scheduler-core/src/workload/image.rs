//! Image references, by the grammar of the OCI distribution specification.

/// What is wrong with an image reference, if anything.
pub(super) fn fault(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("the image is empty".to_owned());
    }
    if let Some(c) = text.chars().find(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        return Some(format!("an image reference has no {c:?}"));
    }
    let (rest, digest) = text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(digest)));
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Some("its digest is not <algorithm>:<at least 32 hex digits>".to_owned());
    }
    // A colon after the last slash leads the tag; one before it leads the registry's port.
    let name_at = rest.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match rest.get(name_at..).and_then(|name| name.find(':')) {
        Some(colon) => (rest.get(..name_at + colon).unwrap_or(rest), rest.get(name_at + colon + 1..)),
        None => (rest, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Some(
            "its tag has 1 to 128 letters, digits, underscores, dots and dashes, and starts with none of the last two"
                .to_owned(),
        );
    }
    let path = match path.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => {
            if !is_host(host) {
                return Some(format!("{host:?} is not a registry's host and port"));
            }
            path
        }
        _ => path,
    };
    if let Some(part) = path.split('/').find(|part| !is_component(part)) {
        return Some(format!(
            "{part:?} is no part of a repository's path (lower-case letters and digits, separated by ., _, __ or dashes)"
        ));
    }
    (path.len() > 255).then(|| "its path has more than 255 characters".to_owned())
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    !algorithm.is_empty()
        && algorithm.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '_' | '-'))
        && hex.len() >= 32
        && hex.chars().all(|c| c.is_ascii_hexdigit())
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=128).contains(&text.len()) && text.starts_with(word) && text.chars().all(|c| word(c) || matches!(c, '.' | '-'))
}

fn is_host(text: &str) -> bool {
    let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
    let label = |l: &str| {
        !l.is_empty()
            && l.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    name.split('.').all(label) && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_component(text: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut separator = String::new();
    for c in text.chars() {
        if word(c) {
            let dashes = !separator.is_empty() && separator.chars().all(|c| c == '-');
            if !(matches!(separator.as_str(), "" | "." | "_" | "__") || dashes) {
                return false;
            }
            separator.clear();
        } else {
            separator.push(c);
        }
    }
    text.starts_with(word) && separator.is_empty()
}

#[cfg(test)]
mod tests {
    use super::fault;
    use proptest::prelude::*;

    #[test]
    fn references_of_registries_are_read() {
        let digest = format!("web@sha256:{}", "0f".repeat(32));
        for good in [
            "web",
            "web:1",
            "shop/web:1.4.2",
            "localhost/web",
            "host:5000/a/b:1",
            "h.example/a__b/c-d.e:x_y",
            &digest,
            &format!("h:1/{digest}"),
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in [
            "",
            " ",
            "web:",
            ":1",
            "Web",
            "web:1:2",
            "a//b",
            "/web",
            "web/",
            "h:99999/a",
            "web@sha256:ab",
            "a___b",
            "-a",
            "a..b",
            "web\n",
            "wéb",
        ] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = fault(&text);
        }

        #[test]
        fn reference_like_text_does_not_panic(text in "[a-z0-9:/@._é-]{0,40}") {
            let _ = fault(&text);
        }
    }
}
