"""`--where`: a condition on records, in a small grammar of its own kind.

    label == 'fear' and valid.eeg > 0.9
    subject in ['P01', 'P02'] or not (duration_s < 1)
    streams.gsr and labels.arousal >= 5

Rules
-----
- A name is a field of the record, else one of its labels, else a field of your own; `labels.x`,
  `valid.x`, `bound_s.x` and `streams.x` (whether it is there) say which. What a record lacks is
  null.
- Values are 'text', numbers, true, false and null; comparisons `== != < <= > >= in not in`, joined
  by `and or not` and parentheses. A comparison by size with null is false.
- Text is not compared with a number by size; `==` of both is false.
- The text is parsed into a tree, of which only these nodes are known; nothing is ever evaluated by
  the interpreter.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mmprep.errors import UsageError
from mmprep.manifest.model import Record

OPTION = "--where"
MAX_CHARS, MAX_DEPTH = 10_000, 100

Value: TypeAlias = Any
_Look: TypeAlias = Callable[[Record], Value]

_CONSTANTS = {"true": True, "false": False, "null": None}
_SCALARS = (
    *("id", "session", "subject", "split", "fold", "begin_s", "duration_s"),
    *("label", "text", "source"),
)
_SIZES: Mapping[type, Callable[[Value, Value], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(slots=True)
class Where:
    """A condition, and which of its names were ever known."""

    text: str
    _holds: _Look
    names: tuple[str, ...] = ()
    _seen: set[str] = field(default_factory=set)

    def holds(self, record: Record) -> bool:
        """Say whether it holds for a record.

        Raises
        ------
        UsageError
            Text is compared with a number by size.
        """
        return bool(self._holds(record))

    def chosen(self, records: Iterable[Record]) -> list[Record]:
        """Give the records for which it holds.

        Raises
        ------
        UsageError
            As `holds`; no record has a field that it names.
        """
        known = list(records)
        found = [record for record in known if self.holds(record)]
        for name in self.names:
            if known and all(value_of(record, name) is None for record in known):
                raise UsageError(f"no record has {name!r}", where=OPTION, hint=_hint(known))
        return found


def parse(text: str) -> Where:
    """Read a condition.

    Raises
    ------
    UsageError
        It is none; says where.
    """
    if len(text) > MAX_CHARS:
        raise UsageError(f"{len(text)} characters, at most {MAX_CHARS}", where=OPTION)
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        column = getattr(error, "offset", None) or 1
        raise UsageError(
            f"{text!r} can't be read from character {column} on",
            where=OPTION,
            hint="label == 'fear' and valid.eeg > 0.9",
        ) from error
    if _depth(tree) > MAX_DEPTH:
        raise UsageError(f"nested more than {MAX_DEPTH} deep", where=OPTION)
    names: dict[str, None] = {}
    holds = _node(tree.body, names)
    return Where(text, holds, tuple(names))


def _depth(tree: ast.AST) -> int:
    """Count the levels of a tree, without recursion."""
    level, depth = [tree], 0
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth


def _node(node: ast.expr, names: dict[str, None]) -> _Look:
    """Turn a node of the tree into a function of a record."""
    if isinstance(node, ast.BoolOp):
        parts = [_node(value, names) for value in node.values]
        quantifier = all if isinstance(node.op, ast.And) else any
        return lambda record: quantifier(part(record) for part in parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _node(node.operand, names)
        return lambda record: not inner(record)
    if isinstance(node, ast.Compare):
        return _comparison(node, names)
    return _value(node, names)


def _comparison(node: ast.Compare, names: dict[str, None]) -> _Look:
    """Turn `a < b < c` into its comparisons, all of which must hold."""
    looks = [_value(one, names) for one in (node.left, *node.comparators)]
    steps = list(zip(node.ops, looks, looks[1:], strict=False))

    def holds(record: Record) -> bool:
        return all(_compared(op, left(record), right(record), node) for op, left, right in steps)

    return holds


def _compared(op: ast.cmpop, left: Value, right: Value, node: ast.Compare) -> bool:
    if isinstance(op, ast.Eq | ast.NotEq):
        return _same(left, right) == isinstance(op, ast.Eq)
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(right, list | tuple):
            raise _unknown(node, "`in` needs a list")
        return any(_same(left, one) for one in right) == isinstance(op, ast.In)
    if type(op) not in _SIZES:
        raise _unknown(node, "`is` is not known: ==")
    if left is None or right is None:
        return False
    if _is_number(left) != _is_number(right) or isinstance(left, list | tuple):
        raise _unknown(node, f"{left!r} and {right!r} have no order")
    return _SIZES[type(op)](left, right)


def _same(left: Value, right: Value) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(node: ast.expr, names: dict[str, None]) -> _Look:
    constant, is_constant = _constant(node)
    if is_constant:
        return lambda record: constant
    if isinstance(node, ast.List | ast.Tuple):
        parts = [_value(one, names) for one in node.elts]
        return lambda record: [part(record) for part in parts]
    name = _name(node)
    if name is None:
        if isinstance(node, ast.BoolOp | ast.UnaryOp | ast.Compare):
            return _node(node, names)
        raise _unknown(node, f"{ast.unparse(node)!r} is no part of the grammar")
    names.setdefault(name)
    return lambda record: value_of(record, name)


def _constant(node: ast.expr) -> tuple[Value, bool]:
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id], True
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
        return node.value, True
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number, known = _constant(node.operand)
        if known and _is_number(number):
            return (-number if isinstance(node.op, ast.USub) else number), True
    return None, False


def _name(node: ast.expr) -> str | None:
    """Give the name of a field: `a` or `a.b`, and `a['b c']` for names that are no words."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _name(node.value)) is not None:
        return f"{before}.{node.attr}"
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        key, known = _constant(node.slice)
        return f"{node.value.id}.{key}" if known and isinstance(key, str) else None
    return None


def value_of(record: Record, name: str) -> Value:
    """Look a name of a condition up; None if the record lacks it."""
    if name in _SCALARS:
        return getattr(record, name)
    owner, dot, key = name.partition(".")
    if dot and owner in {"labels", "valid", "bound_s"}:
        return (getattr(record, owner) or {}).get(key)
    if dot and owner == "streams":
        return True if key in record.streams else None
    if name in record.labels:
        return record.labels[name]
    found: Value = record.extra
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _unknown(node: ast.expr, what: str) -> UsageError:
    where = f"{OPTION}, character {node.col_offset + 1}"
    return UsageError(what, where=where, hint="label == 'fear' and valid.eeg > 0.9")


def _hint(records: Iterable[Record]) -> str:
    known = dict.fromkeys(name for record in records for name in (*record.labels, *record.extra))
    return f"fields: {', '.join([*_SCALARS, *known])}, valid.*, bound_s.*, streams.*"
