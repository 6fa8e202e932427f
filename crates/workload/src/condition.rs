//! The condition of `when`: govaluate's grammar, in which a bare word is a text.

mod evaluate;
mod parse;
#[cfg(test)]
mod tests;

/// A condition that cannot be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// It is not a condition.
    #[error("Invalid 'when' expression '{0}': {1}")]
    Syntax(String, String),
    /// It contains a sign that is none; quotes often help.
    #[error("Invalid 'when' expression '{0}': {1} (hint: try wrapping the affected expression in quotes (\"))")]
    Token(String, String),
    /// It fails.
    #[error("Failed to evaluate 'when' expresion '{0}': {1}")]
    Failed(String, String),
    /// It is no truth value.
    #[error("Expected boolean evaluation for '{0}'. Got {1}")]
    NoBool(String, String),
}

/// Whether a condition holds, once its variables have been replaced. An empty one does.
pub fn holds(when: &str) -> Result<bool, ConditionError> {
    if when.is_empty() {
        return Ok(true);
    }
    let parsed = parse::parse(when).map_err(|error| match error {
        parse::SyntaxError::Token(reason) => ConditionError::Token(when.to_owned(), reason),
        parse::SyntaxError::Other(reason) => ConditionError::Syntax(when.to_owned(), reason),
    })?;
    match evaluate::evaluate(&parsed) {
        Ok(evaluate::Value::Bool(truth)) => Ok(truth),
        Ok(value) => Err(ConditionError::NoBool(when.to_owned(), value.to_string())),
        Err(reason) => Err(ConditionError::Failed(when.to_owned(), reason)),
    }
}
