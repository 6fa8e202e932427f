//! What single calls cost.

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};

use super::{Estimate, Node, PATTERN, Path, Size, TRAVERSAL, Ty, UNKNOWN, scaled, sizes};

/// The length of the longest pattern of a named format.
const FORMAT_PATTERN: f64 = 128.0;
/// The length of the longest name of a format.
const FORMAT_NAME: u64 = 64;
/// The bytes of an address.
const ADDRESS: Size = Size { min: 4, max: 16 };

/// What a call costs besides its operands, and how large its result is, if that is told.
type Priced = (u64, Option<Size>);

impl Estimate<'_> {
    /// One way to call a function.
    pub(super) fn way(
        &mut self,
        expr: &IdedExpr,
        name: &str,
        way: &[Ty],
        target: Option<&Node<'_>>,
        args: &[Node<'_>],
    ) -> Priced {
        let found = self.sets(name, args).or_else(|| match target {
            Some(target) => self.on_target(name, way, target, args),
            None => self.on_args(name, args),
        });
        found.or_else(|| self.plain(expr, name, way, target, args)).unwrap_or((1, None))
    }

    /// The size of an operand, by what is known of it or by where it is from.
    fn sized(&self, node: &Node<'_>) -> Size {
        node.size.or_else(|| sizes::at(self.root, &node.path)).unwrap_or(UNKNOWN)
    }

    fn sets(&self, name: &str, args: &[Node<'_>]) -> Option<Priced> {
        let factor = match name {
            "sets.contains" | "sets.intersects" => 1.0,
            "sets.equivalent" => 2.0,
            _ => return None,
        };
        let [a, b] = args else { return None };
        Some((self.sized(a).times(self.sized(b)).cost(factor).saturating_add(1), None))
    }

    fn on_args(&self, name: &str, args: &[Node<'_>]) -> Option<Priced> {
        if name == operators::EQUALS {
            return same_type(args);
        }
        if name == "sign" {
            return Some((1, None));
        }
        let first = args.first()?;
        let size = self.sized(first);
        Some(match name {
            "url" => (size.cost(TRAVERSAL), Some(size)),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                (size.cost(TRAVERSAL), None)
            }
            "ip.isCanonical" => (size.cost(2.0 * TRAVERSAL), None),
            _ => return None,
        })
    }

    fn on_target(&self, name: &str, way: &[Ty], target: &Node<'_>, args: &[Node<'_>]) -> Option<Priced> {
        let size = self.sized(target);
        Some(match (name, args) {
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", _) => (self.compared(target), None),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", _) => (size.cost(TRAVERSAL), Some(size)),
            ("replace", [from, to, ..]) => {
                (size.cost(2.0 * TRAVERSAL), Some(replaced(size, self.sized(from), self.sized(to))))
            }
            ("split", _) => {
                let limit = args.get(1).and_then(|limit| literal_int(limit.expr));
                (size.cost(2.0 * TRAVERSAL), Some(Size { min: 0, max: limit.unwrap_or(size.max) }))
            }
            ("join", _) => {
                let joined = self.joined(target, size, args);
                (joined.cost(TRAVERSAL), Some(joined))
            }
            ("find" | "findAll", [pattern, ..]) => {
                let text = size.plus(Size::exactly(1)).cost(TRAVERSAL);
                let cost = text.saturating_mul(self.sized(pattern).cost(PATTERN));
                (cost, Some(Size { min: 0, max: size.max }))
            }
            ("containsIP" | "containsCIDR", [other]) => {
                let mut cost = ADDRESS.plus(ADDRESS).cost(TRAVERSAL);
                if name == "containsCIDR" {
                    cost += ADDRESS.cost(TRAVERSAL) + 1;
                }
                if matches!(way, [_, Ty::Text]) {
                    cost = cost.saturating_add(self.sized(other).cost(TRAVERSAL));
                }
                (cost, None)
            }
            ("validate", [text]) => (scaled(self.sized(text).cost(TRAVERSAL), FORMAT_PATTERN * PATTERN), None),
            _ => return None,
        })
    }

    /// Comparing all items of a list, or going through a string.
    fn compared(&self, target: &Node<'_>) -> u64 {
        let size = self.sized(target);
        let Some(item) = item_type(&target.ty) else { return size.cost(TRAVERSAL) };
        let text = matches!(item, Ty::Text | Ty::Bytes);
        let each = if text { 1_u64.saturating_add(self.item_size(target).cost(TRAVERSAL)) } else { 1 };
        size.max.saturating_mul(each)
    }

    fn item_size(&self, list: &Node<'_>) -> Size {
        if list.path.is_empty() {
            return UNKNOWN;
        }
        let path = list.path.iter().cloned().chain(["@items".to_owned()]).collect::<Path>();
        sizes::at(self.root, &path).unwrap_or(UNKNOWN)
    }

    fn joined(&self, list: &Node<'_>, count: Size, args: &[Node<'_>]) -> Size {
        let texts = count.times(self.item_size(list));
        let Some(separator) = args.first() else { return texts };
        let between = Size { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        texts.plus(self.sized(separator).times(between))
    }

    /// What the language itself has.
    fn plain(
        &mut self,
        expr: &IdedExpr,
        name: &str,
        way: &[Ty],
        target: Option<&Node<'_>>,
        args: &[Node<'_>],
    ) -> Option<Priced> {
        let of = |node: &Node<'_>| node.size.unwrap_or(UNKNOWN);
        let text = matches!(way.first(), Some(Ty::Text | Ty::Bytes));
        Some(match (name, target, args) {
            ("format", Some(target), _) => (of(target).cost(TRAVERSAL), None),
            ("bytes", None, [arg]) if matches!(way, [Ty::Text]) => {
                let size = of(arg);
                (size.cost(TRAVERSAL), Some(Size { min: size.min, max: size.max.wrapping_mul(4) }))
            }
            ("string", None, [arg]) if matches!(way, [Ty::Bytes]) => {
                let size = of(arg);
                (size.cost(TRAVERSAL), Some(Size { min: size.min / 4, max: size.max }))
            }
            ("strings.quote", None, [arg]) => {
                let size = of(arg);
                let longest = size.max.wrapping_mul(2).wrapping_add(2);
                (size.cost(TRAVERSAL), Some(Size { min: size.min.wrapping_add(2), max: longest }))
            }
            ("startsWith" | "endsWith", _, [arg]) => (of(arg).cost(TRAVERSAL), None),
            (operators::IN, _, [_, list]) if matches!(way, [_, Ty::List(_)]) => (of(list).cost(1.0), None),
            ("matches", Some(target), [pattern]) => {
                let through = of(target).plus(Size::exactly(1)).cost(TRAVERSAL);
                (through.saturating_mul(of(pattern).cost(PATTERN)), None)
            }
            ("contains", Some(target), [part]) => {
                (of(target).cost(TRAVERSAL).saturating_mul(of(part).cost(TRAVERSAL)), None)
            }
            (operators::ADD, _, [a, b]) if text || matches!(way.first(), Some(Ty::List(_))) => {
                let size = of(a).plus(of(b));
                let entry = self.entry(a.expr).zip(self.entry(b.expr)).map(|(a, b)| a.or(b));
                self.keep(expr, None, entry);
                (if text { size.cost(TRAVERSAL) } else { 1 }, Some(size))
            }
            (operators::EQUALS | operators::NOT_EQUALS, _, [a, b]) => (smaller(of(a), of(b)), None),
            (operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS, _, [a, b])
                if text =>
            {
                (smaller(of(a), of(b)), None)
            }
            _ => return None,
        })
    }
}

/// Comparing stops at the end of the shorter.
fn smaller(a: Size, b: Size) -> u64 {
    scaled(a.max.min(b.max), TRAVERSAL)
}

/// Values of a library's type have a price of their own when compared.
fn same_type(args: &[Node<'_>]) -> Option<Priced> {
    let [Node { ty: Ty::Opaque(a), .. }, Node { ty: Ty::Opaque(b), size, .. }] = args else { return None };
    if a != b {
        return None;
    }
    let longest = match *a {
        "format" => FORMAT_NAME,
        "url" => size.map_or(1, |size| size.max),
        _ => return Some((1, None)),
    };
    Some((scaled(longest, TRAVERSAL), None))
}

fn item_type(ty: &Ty) -> Option<&Ty> {
    match ty {
        Ty::List(item) | Ty::Optional(item) => Some(item),
        Ty::Map(key, _) => Some(key),
        _ => None,
    }
}

/// A limit that is written out; a negative one is none.
fn literal_int(expr: &IdedExpr) -> Option<u64> {
    match &expr.expr {
        Expr::Literal(LiteralValue::Int(value)) => Some(u64::try_from(*value.inner()).unwrap_or(u64::MAX)),
        _ => None,
    }
}

/// How long a text can be after replacing.
fn replaced(text: Size, from: Size, to: Size) -> Size {
    let longest = if from.min == 0 {
        text.max.saturating_add(1).saturating_mul(to.max).saturating_add(text.max)
    } else if to.max <= from.min {
        text.max
    } else {
        text.max.div_ceil(from.min).saturating_mul(to.max)
    };
    let shortest = if from.max == 0 {
        text.min.saturating_add(1).saturating_mul(to.min).saturating_add(text.min)
    } else if from.max <= to.min {
        text.min
    } else {
        text.min.div_ceil(from.max).saturating_mul(to.min)
    };
    Size { min: shortest, max: longest }
}
