//! Names of nodes within their boundary and in loops, as Argo makes them.

/// What a node is called within its boundary.
pub fn display_name(name: &str, boundary: &str) -> String {
    let rest = name.strip_prefix(boundary).unwrap_or(name);
    separated(rest).unwrap_or(rest).to_owned()
}

/// Without a leading `[N].` or `.`.
fn separated(name: &str) -> Option<&str> {
    if let Some(rest) = name.strip_prefix('.') {
        return Some(rest);
    }
    let (number, rest) = name.strip_prefix('[')?.split_once(']')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    rest.strip_prefix('.').filter(|_| digits)
}

/// The index in `name(INDEX:item)`, or in `name(INDEX)`.
pub fn loop_index(name: &str) -> Option<usize> {
    let inner = name.rsplit('(').next()?;
    let digits = inner.split(':').next()?.trim_end_matches(')');
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_lose_the_boundary() {
        for (name, boundary, shown) in [
            ("wf[0].step", "wf", "step"),
            ("wf[0]", "wf", "[0]"),
            ("wf.task(0:x)", "wf", "task(0:x)"),
            ("wf.task(0)", "wf", "task(0)"),
            ("wf.a.onExit", "wf", "a.onExit"),
            ("wf(0)", "wf", "(0)"),
        ] {
            assert_eq!(display_name(name, boundary), shown);
        }
    }

    #[test]
    fn an_index_is_found_in_a_name() {
        for (name, index) in [("a(3:x)", Some(3)), ("a(12)", Some(12)), ("a", None), ("a(x)", None)] {
            assert_eq!(loop_index(name), index, "{name}");
        }
    }
}
