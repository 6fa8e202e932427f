//! What the kernel has to be for what is asked of it.

/// A version of Linux, as far as it matters.
pub(super) type Version = (u32, u32);

/// Layers can be given one by one.
pub(super) const SINGLE_LAYERS: Version = (6, 7);
/// Layers can be mounts that are nowhere in the tree, and so have mapped owners.
pub(super) const DETACHED_LAYERS: Version = (6, 15);

/// What was being done, and what it takes if this kernel is older than that.
pub(super) fn needing(what: &str, least: Version) -> String {
    told(what, least, &rustix::system::uname().release().to_string_lossy())
}

fn told(what: &str, least: Version, release: &str) -> String {
    match version(release) {
        Some(present) if present < least => {
            format!("{what} (this takes Linux {}.{} or later, and this machine has {release})", least.0, least.1)
        }
        _ => what.to_owned(),
    }
}

fn version(release: &str) -> Option<Version> {
    let mut numbers = release.split(|sign: char| !sign.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_is_named() {
        for release in ["6.8.0-31-generic", "6.8", "5.15.1", "6.6.9+"] {
            let said = told("the layer /x", DETACHED_LAYERS, release);
            assert!(said.contains("Linux 6.15") && said.contains(release), "{said}");
        }
        for release in ["6.15.0", "6.16.3-rc1", "7.0", "strange"] {
            assert_eq!(told("the layer /x", DETACHED_LAYERS, release), "the layer /x");
        }
        assert_eq!(told("x", SINGLE_LAYERS, "6.7.0"), "x");
    }
}
