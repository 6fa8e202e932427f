//! What a policy may not call, found in its text before it is read.

/// The line of the first call of `http.send`, comments and strings left aside.
pub(super) fn http_call(source: &str) -> Option<usize> {
    let code = code_only(source);
    let at = code.match_indices("http").find(|(at, _)| {
        let before = code[..*at].chars().next_back();
        let starts = !before.is_some_and(|it| it.is_alphanumeric() || it == '_' || it == '.');
        let rest = code[at + "http".len()..].trim_start();
        let after = rest.strip_prefix('.').map(str::trim_start).and_then(|rest| rest.strip_prefix("send"));
        let is_named = after.is_some_and(|after| !after.starts_with(|it: char| it.is_alphanumeric() || it == '_'));
        // A name in quotes may be written in many ways, and nothing else of that package exists.
        let is_quoted = rest.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with('"'));
        starts && (is_named || is_quoted)
    });
    at.map(|(at, _)| code[..at].matches('\n').count() + 1)
}

/// The text with comments and the insides of strings blanked; lines stay where they are.
fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut characters = source.chars();
    while let Some(next) = characters.next() {
        match next {
            '#' => {
                for skipped in characters.by_ref() {
                    if skipped == '\n' {
                        code.push('\n');
                        break;
                    }
                }
            }
            '"' | '`' => {
                code.push('"');
                while let Some(inside) = characters.next() {
                    match inside {
                        '\n' => code.push('\n'),
                        '\\' if next == '"' => {
                            characters.next();
                        }
                        end if end == next => break,
                        _ => {}
                    }
                }
                code.push('"');
            }
            other => code.push(other),
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::http_call;

    #[test]
    fn calls_are_found_and_words_are_not() {
        let table = [
            ("package p\nx := http.send({})\n", Some(2)),
            ("package p\n\nx := http . send({})\n", Some(3)),
            ("package p\n# http.send\nx := \"http.send\"\n", None),
            ("package p\nx := `http.send`\ny := data.http.send\n", None),
            ("package p\nx := \"a\\\"\"; y := http.send({})", Some(2)),
            ("package p\nmy_http.sender := 1", None),
            ("package p\nx := http[\"send\"]({})", Some(2)),
            ("package p\nx := http [\n`send`]({})", Some(2)),
            ("package p\nx := http[\"s\\u0065nd\"]({})", Some(2)),
            ("package p\nx := data.http[\"send\"]; y := https[\"send\"]; z := http[i]", None),
            ("http.sending", None),
            ("\"never closed http.send", None),
        ];
        for (source, line) in table {
            assert_eq!(http_call(source), line, "{source}");
        }
    }
}
