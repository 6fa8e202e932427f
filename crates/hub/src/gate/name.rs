//! Names of agents.

/// Letters of a DNS label.
const LABEL_MAX: usize = 63;

/// Whether a name is a DNS label as RFC 1123 has it.
pub(super) fn is_label(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (first, last) = (name.bytes().next(), name.bytes().last());
    name.len() <= LABEL_MAX
        && first.is_some_and(plain)
        && last.is_some_and(plain)
        && name.bytes().all(|byte| plain(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        let (longest, longer) = ("a".repeat(63), "a".repeat(64));
        for good in ["a", "agent-1", "1", &longest] {
            assert!(is_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä", "a b", "a/b", &longer] {
            assert!(!is_label(bad), "{bad}");
        }
    }
}
