"""Mutants of a module: one small change each, made by the operators of Cosmic Ray.

Left out, because no behaviour is behind them: annotations, texts of messages (f-strings), calls of a logger,
`__repr__`, arguments of `@dataclass`. One operator is our own, since Cosmic Ray has none like it: to drop a statement.
"""

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from parso.python.tree import Keyword
from parso.tree import NodeOrLeaf

Place = tuple[int, int]
"""Line from 1 and column from 0."""

_BINARY = "Add_Sub Sub_Add Mul_FloorDiv FloorDiv_Mul Mod_Mul Pow_Mul RShift_LShift LShift_RShift"
_BITS = "BitOr_BitAnd BitAnd_BitOr BitXor_BitOr"
_COMPARISONS = (
    "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
)
_UNARY = "Delete_Not Delete_USub Delete_Invert"
_OTHERS = (
    "AddNot ExceptionReplacer NumberReplacer ReplaceAndWithOr"
    " ReplaceBreakWithContinue ReplaceContinueWithBreak ReplaceFalseWithTrue ReplaceOrWithAnd"
    " ReplaceTrueWithFalse ZeroIterationForLoop"
)
OPERATORS = (
    *(f"core/ReplaceBinaryOperator_{change}" for change in f"{_BINARY} {_BITS}".split()),
    *(f"core/ReplaceComparisonOperator_{change}" for change in _COMPARISONS.split()),
    *(f"core/ReplaceUnaryOperator_{change}" for change in _UNARY.split()),
    *(f"core/{name}" for name in _OTHERS.split()),
    "DropStatement",
)


class DropStatement(Operator):
    """Replaces a call, a raise, a deletion or a change of an attribute with `pass`."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[Place, Place]]:
        if node.type != "simple_stmt" or len(node.children) != 2:
            return
        first = node.children[0]
        kind = first.type
        if kind == "expr_stmt":
            target, sign = first.children[:2]
            is_dropped = target.type in ("atom_expr", "power") or (
                sign.type == "operator" and sign.value != "="
            )
        else:
            is_dropped = kind in ("atom_expr", "power", "raise_stmt", "del_stmt")
        if is_dropped:
            yield first.start_pos, first.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        assert index == 0
        first, newline = node.children
        lines = first.end_pos[0] - first.start_pos[0] + 1
        prefix = first.get_first_leaf().prefix
        node.children[0] = Keyword("pass", first.start_pos, prefix=prefix)
        newline.value = "\n" * lines  # later functions stay on their lines
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        path: of the module, from the root of the repository.
        operator, occurrence: what Cosmic Ray is told.
        start: place of the change.
        lines: lines of the changed statement, without those inside it.
        function: qualified name of the outermost function; empty at the level of a module or class.
        first_line: line of the function's code object.
    """

    path: str
    operator: str
    occurrence: int
    start: Place
    lines: range
    function: str
    first_line: int

    @property
    def id(self) -> str:
        return f"{self.path}:{self.start[0]}:{self.start[1]}:{self.operator}:{self.occurrence}"

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").replace("/", ".")

    def source(self, original: str) -> str:
        """The module's source with the change; the original where Cosmic Ray fails."""
        try:
            changed = mutate_code(original, operator_of(self.operator), self.occurrence)
        except AttributeError:  # an exception with a dot in its name
            return original
        assert changed is not None, self.id
        return str(changed)


def operator_of(name: str) -> Operator:
    made = DropStatement if name == "DropStatement" else cosmic_ray.plugins.get_operator(name)
    return made()


def mutants_of(root: Path, path: str) -> list[Mutant]:
    """All mutants of a module by place."""
    source = (root / path).read_text()
    shape = _Shape(ast.parse(source))
    nodes = list(ast_nodes(get_ast(source)))
    found = []
    for name in OPERATORS:
        operator = operator_of(name)
        places = (place for node in nodes for place in operator.mutation_positions(node))
        for occurrence, (start, _) in enumerate(places):
            if not shape.is_left_out(start):
                function, first_line = shape.function_at(start)
                lines = shape.lines_at(start)
                found.append(Mutant(path, name, occurrence, start, lines, function, first_line))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.operator, mutant.occurrence))


def change(original: str, changed: str) -> tuple[str, str]:
    """The lines that differ, before and after, each as one line."""
    before, after = original.splitlines(), changed.splitlines()
    pairs = itertools.zip_longest(before, after)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    before, after = before[same:], after[same:]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    joined = (" ".join(" ".join(lines).split()) for lines in (before, after))
    return next(joined), next(joined)


def code_objects(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_objects(constant)


class _Shape:
    """Where the functions and statements of a module are, and what is left out."""

    def __init__(self, tree: ast.Module) -> None:
        self._left_out: list[tuple[Place, Place]] = []
        self._functions: list[tuple[Place, Place, str, int]] = []
        self._statements: list[tuple[Place, Place, range]] = []
        self._visit(tree, "", is_inside=False)

    def is_left_out(self, place: Place) -> bool:
        return any(start <= place < end for start, end in self._left_out)

    def function_at(self, place: Place) -> tuple[str, int]:
        for start, end, name, first_line in self._functions:
            if start <= place < end:
                return name, first_line
        return "", 0

    def lines_at(self, place: Place) -> range:
        fits = [(start, lines) for start, end, lines in self._statements if start <= place < end]
        alone = (place, range(place[0], place[0] + 1))  # a decorator
        return max(fits, key=lambda fit: fit[0], default=alone)[1]

    def _visit(self, node: ast.AST, outer: str, *, is_inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            name, inside = outer, is_inside
            self._note(child)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                name, inside = f"{outer}{child.name}", True
                if not is_inside:
                    first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                    body = child.body[0]
                    end = _span(child)[1]
                    self._functions.append((_span(body)[0], end, name, first))
            elif isinstance(child, ast.ClassDef):
                name = f"{outer}{child.name}."
                self._left_out += map(_span, child.decorator_list)
            self._visit(child, name, is_inside=inside)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef(name="__repr__") | ast.JoinedStr():
                self._left_out.append(_span(node))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"))):
                self._left_out.append(_span(node))
            case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
                self._left_out.append(_span(node))
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=ast.AST() as annotation):
                self._left_out.append(_span(annotation))
            case ast.FunctionDef(returns=ast.AST() as returns):
                self._left_out.append(_span(returns))
        if isinstance(node, ast.stmt):
            start, end = _span(node)
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            self._statements.append((start, end, range(node.lineno, max(last, node.lineno) + 1)))


def _span(node: ast.expr | ast.stmt) -> tuple[Place, Place]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
