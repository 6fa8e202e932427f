//! A tree against what rows have: selectors exist, operators fit, values convert.

use std::sync::Arc;

use regex::RegexBuilder;

use super::fields::{self, Field, Type};
use super::{Expression, Match, Operand, Operator, literal};

/// What a compiled pattern may take.
const PATTERN_SIZE_MAX: usize = 1 << 20;

pub(super) fn expression(parsed: Arc<Expression>, fields: &'static [Field]) -> Result<Arc<Expression>, String> {
    let checked = match Arc::try_unwrap(parsed) {
        Ok(Expression::Not(inner)) => Expression::Not(expression(inner, fields)?),
        Ok(Expression::And(left, right)) => Expression::And(expression(left, fields)?, expression(right, fields)?),
        Ok(Expression::Or(left, right)) => Expression::Or(expression(left, fields)?, expression(right, fields)?),
        Ok(Expression::Match(found)) => Expression::Match(comparison(found, fields)?),
        // The parser keeps nothing of what it gave out.
        Err(shared) => return Ok(shared),
    };
    Ok(Arc::new(checked))
}

fn comparison(found: Match, fields: &'static [Field]) -> Result<Match, String> {
    let kind = resolve(&found.selector, fields)?;
    let selector = found.selector.join(".");
    if !kind.takes(found.operator) {
        return Err(format!("Invalid match operator {:?} for selector {selector:?}", found.operator.name()));
    }
    let value = match found.value {
        Operand::Raw(raw) => convert(raw, kind, found.operator, &selector)?,
        other => other,
    };
    Ok(Match { selector: found.selector, operator: found.operator, value })
}

fn resolve(selector: &[String], fields: &'static [Field]) -> Result<&'static Type, String> {
    let mut within: &'static Type = &Type::One(&[]);
    for (depth, step) in selector.iter().enumerate() {
        let found = match (depth, within) {
            (0, _) => fields::find(fields, step).map(|field| &field.kind),
            (_, Type::One(fields) | Type::Many(fields)) => fields::find(fields, step).map(|field| &field.kind),
            (_, Type::Map(inner)) => Some(*inner),
            _ => None,
        };
        within = found.ok_or_else(|| format!("Selector {:?} is not valid", selector[..=depth].join(".")))?;
    }
    Ok(within)
}

fn convert(raw: String, kind: &Type, operator: Operator, selector: &str) -> Result<Operand, String> {
    let failed = |why| format!("Failed to coerce value {raw:?} for selector {selector:?}: {why}");
    match kind {
        Type::Number => literal::integer(&raw).map(Operand::Number).map_err(failed),
        Type::Bool => literal::boolean(&raw).map(Operand::Bool).map_err(failed),
        _ if matches!(operator, Operator::Matches | Operator::NotMatches) => {
            let built = RegexBuilder::new(&raw).size_limit(PATTERN_SIZE_MAX).dfa_size_limit(PATTERN_SIZE_MAX).build();
            built.map(Operand::Pattern).map_err(|error| {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!("Failed to compile regular expression {raw:?}: error parsing regexp: {why}")
            })
        }
        _ => Ok(Operand::Raw(raw)),
    }
}
