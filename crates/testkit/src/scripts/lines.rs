//! Which lines differ, for people.

/// The lines only one of two texts has, `-` before the first one's and `+` before the second one's, with one line of
/// context where a difference begins.
pub(super) fn differing(left: &str, right: &str) -> String {
    let (left, right): (Vec<&str>, Vec<&str>) = (left.lines().collect(), right.lines().collect());
    // common[i][j]: the longest common subsequence of what follows line i and line j.
    let mut common = vec![vec![0_usize; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            common[i][j] =
                if left[i] == right[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut told) = (0, 0, true);
    let mut out = Vec::new();
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left[i] == right[j] {
            told = false;
            i += 1;
            j += 1;
            continue;
        }
        if !told {
            out.push(format!(" {}", left[i - 1]));
            told = true;
        }
        if j == right.len() || i < left.len() && common[i + 1][j] >= common[i][j + 1] {
            out.push(format!("-{}", left[i]));
            i += 1;
        } else {
            out.push(format!("+{}", right[j]));
            j += 1;
        }
    }
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_differs() {
        let check = |left: &str, right: &str, expected: &str| assert_eq!(differing(left, right), expected);
        check("a\nb\nc", "a\nb\nc", "");
        check("a\nb\nc", "a\nx\nc", " a\n-b\n+x");
        check("a", "a\nb", " a\n+b");
        check("", "a", "+a");
    }
}
