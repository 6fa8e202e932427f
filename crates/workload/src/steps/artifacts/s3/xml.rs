//! The few elements of S3's answers that matter.

/// The texts of all elements of that name, in order.
pub(super) fn texts<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut found = Vec::new();
    let mut rest = xml;
    while let Some((_, after)) = rest.split_once(open.as_str()) {
        let Some((text, after)) = after.split_once(close.as_str()) else { break };
        found.push(text);
        rest = after;
    }
    found
}

/// The text of the first element of that name.
pub(super) fn text(xml: &str, name: &str) -> Option<String> {
    texts(xml, name).first().map(|text| plain(text))
}

/// Text without its entities.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let Some((entity, after)) = after.split_once(';').filter(|(entity, _)| is_entity(entity)) else {
            out.push('&');
            rest = after;
            continue;
        };
        let number = entity.strip_prefix('#').and_then(|number| match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => number.parse().ok(),
        });
        match entity {
            "amp" => out.push('&'),
            "lt" => out.push('<'),
            "gt" => out.push('>'),
            "quot" => out.push('"'),
            "apos" => out.push('\''),
            _ => out.extend(number.and_then(char::from_u32)),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn is_entity(text: &str) -> bool {
    text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'#')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_are_found() {
        let xml = "<L><Contents><Key>a&amp;b</Key></Contents><Contents><Key>c&#x41;&#66;</Key></Contents><N>1</N></L>";
        let keys: Vec<String> = texts(xml, "Key").into_iter().map(plain).collect();
        assert_eq!(keys, ["a&b", "cAB"]);
        assert_eq!(text(xml, "N").as_deref(), Some("1"));
        assert_eq!(text("<N>", "N"), None);
        assert_eq!(plain("a & b &nope; &amp"), "a & b  &amp");
    }

    proptest! {
        #[test]
        fn nothing_panics(xml in ".*") {
            let _ = (text(&xml, "Key"), plain(&xml));
        }
    }
}
