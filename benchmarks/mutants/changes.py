"""Small changes of a module's source: an operator, a number, a condition, a term, an argument or a statement is
another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Change:
    """Another text for some bytes of a module's source."""

    line: int
    begin: int
    end: int
    was: str
    text: str

    def made_in(self, source: str) -> str:
        """The module with the change."""
        data = source.encode()
        return (data[: self.begin] + self.text.encode() + data[self.end :]).decode()

    def __str__(self) -> str:
        return f"{' '.join(self.was.split())}  ->  {self.text}"


def changes_of(source: str) -> list[Change]:
    """All changes, in the order of the source. Annotations, docstrings and the texts of messages stay as they are."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in _nodes(ast.parse(source)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        was = source.encode()[begin:end].decode()
        if isinstance(node, ast.stmt):
            texts = ["pass"] if _can_go(node) else []
        else:
            texts = [f"({ast.unparse(other)})" for other in _others(node)]
        found += [Change(node.lineno, begin, end, was, text) for text in texts]
    return sorted(found, key=lambda change: (change.begin, change.end, change.text))


def _nodes(node: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """The statements and expressions below a node that do something when the module runs."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_comment"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or _is_text(child):
                continue
            if isinstance(child, ast.stmt | ast.expr):
                yield child
            yield from _nodes(child)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _can_go(node: ast.stmt) -> bool:
    """Without others, such as assignments of new names and returns, a module often does not even begin to work."""
    return isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break)


def _others(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left=left, ops=[how, *more], comparators=right) if type(how) in COMPARISONS:
            yield ast.Compare(left, [COMPARISONS[type(how)](), *more], right)
        case ast.BinOp(left=left, op=how, right=right) if type(how) in OPERATORS:
            yield ast.BinOp(left, OPERATORS[type(how)](), right)
            yield left
            yield right
        case ast.BoolOp(op=how, values=values):
            yield ast.BoolOp(ast.And() if isinstance(how, ast.Or) else ast.Or(), values)
            yield from values
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in FUNCTIONS:
            yield ast.Call(ast.Name(FUNCTIONS[name]), args, keywords)
        case ast.Call(func=func, args=[first, second, *more], keywords=keywords) if not _is_starred(first, second):
            yield ast.Call(func, [second, first, *more], keywords)
        case ast.ListComp(elt=elt, generators=[ast.comprehension(target, iterated, [_, *_], is_async)]):
            yield ast.ListComp(elt, [ast.comprehension(target, iterated, [], is_async)])


def _is_starred(*nodes: ast.expr) -> bool:
    return any(isinstance(node, ast.Starred) for node in nodes)
