"""Graphs and kernels as text: what DEBUG=5 shows, and what two kernels are compared by.

The text depends on nothing but the kernel: values are numbered in their order, buffers by their place in the kernel's list,
regions by their depth in the page. So two traces of one program give the same text, in any process.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.compiler.kernel import Block, BranchItem, Kernel, LoopItem
from engine.graph.uop import EFFECTS, BufferArg, Op, UOp, toposort

_INFIX = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.IDIV: "//"}
_NUMBERED = EFFECTS | {Op.ARRAY, Op.LOAD, Op.RESULT, Op.LOOPVAR, Op.IOTA, Op.GATHER}  # their `arg` holds numbers of regions


def size_text(size: object) -> str:
    """A size as people write it: "720", "height", "height * 3"."""
    if not isinstance(size, UOp):
        return str(size)
    if size.op in (Op.CONST, Op.DIM):
        return str(size.arg)
    parts = [f"({size_text(s)})" if s.op in _INFIX and s.op != size.op else size_text(s) for s in size.src]
    return f" {_INFIX.get(size.op, size.op)} ".join(parts)


def shape_text(shape: Iterable[object]) -> str:
    """A shape as people write it: "[height, width, 3]"."""
    return f"[{', '.join(map(size_text, shape))}]"


def graph_text(roots: Iterable[UOp]) -> str:
    """A tensor graph, one node a line, sources first."""
    names: dict[UOp, str] = {}
    lines: list[str] = []
    for node in toposort(roots):
        if node.op in (Op.CONST, Op.DIM):
            names[node] = repr(node.arg) if node.op == Op.CONST else str(node.arg)
            continue
        names[node] = f"v{len(lines)}"
        arg = "" if node.arg is None else f" {_arg_text(node.arg)}"
        dtype = "" if node.dtype is None else f" : {node.dtype}{shape_text(node.shape) if node.shape else ''}"
        lines.append(f"  {names[node]} = {node.op}{arg} {' '.join(names[s] for s in node.src)}{dtype}")
    return "\n".join(lines) + "\n"


def _arg_text(arg: object) -> str:
    if isinstance(arg, BufferArg):
        return arg.kind
    if isinstance(arg, tuple):
        return f"({', '.join(map(_arg_text, arg))})"
    return size_text(arg) if isinstance(arg, UOp) else str(arg)


class _Printer:
    """Writes one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names: dict[UOp, str] = {}
        for k, buffer in enumerate(kernel.buffers):
            self.names[buffer.leaf] = f"{'parameter' if buffer.is_parameter else 'buffer'}{k}"
        self.count = 0
        self.lines: list[str] = []

    def name(self, node: UOp) -> str:
        if node.op == Op.CONST:
            return repr(node.arg)
        if node.op == Op.DIM:
            return str(node.arg)
        if node not in self.names:
            self.names[node] = f"v{self.count}"
            self.count += 1
        return self.names[node]

    def names_of(self, nodes: Iterable[UOp | None]) -> str:
        return ", ".join("_" if node is None else self.name(node) for node in nodes)

    def value(self, node: UOp) -> str:
        kind = f" {node.arg[0]}" if node.op == Op.VOTE else f" {node.arg[0]!r}" if node.op == Op.PRINT else ""
        if node.op == Op.LANE:
            kind = f" {node.arg[0]} of {size_text(node.arg[1])}"
        elif node.arg is not None and node.op not in _NUMBERED:
            kind = f" {_arg_text(node.arg)}"
        sources = " ".join(self.name(s) for s in node.src)
        if node.op in (Op.STORE, Op.PRINT):
            return f"{node.op}{kind} {sources}"
        return f"{self.name(node)} = {node.op}{kind} {sources} : {node.dtype}"

    def block(self, block: Block, indent: str) -> None:
        inner = indent + "    "
        for item in block.items:
            if isinstance(item, UOp):
                self.lines.append(indent + self.value(item))
            elif isinstance(item, LoopItem):
                state = ", ".join(f"{self.name(v.var)} = {self.name(v.init)}" for v in item.vars)
                self.lines.append(f"{indent}loop {state}:")
                self.block(item.test, inner)
                self.lines.append(f"{indent}  while {self.name(item.condition)}:")
                self.block(item.body, inner)
                self.lines.append(f"{indent}  next {self.names_of(v.next for v in item.vars)}")
                self.lines.append(f"{indent}  results {self.names_of(v.result for v in item.vars)}")
            elif isinstance(item, BranchItem):
                self.lines.append(f"{indent}{item.kind} {self.name(item.selector)}:")
                for k, arm in enumerate(item.arms):
                    self.lines.append(f"{indent}  arm {k}:")
                    self.block(arm, inner)
                    self.lines.append(f"{inner}gives {self.names_of(values[k] for _, values in item.results)}")
                self.lines.append(f"{indent}  results {self.names_of(r for r, _ in item.results)}")
            else:
                self.lines.append(f"{indent}serial:")
                self.block(item.body, inner)
                self.lines.append(f"{inner}gives {self.names_of(v for _, v in item.results)}")
                self.lines.append(f"{indent}  results {self.names_of(r for r, _ in item.results)}")


def text(kernel: Kernel) -> str:
    """The kernel's buffers and blocks, values numbered in order."""
    printer = _Printer(kernel)
    order = ", ordered" if kernel.ordered else ""
    head = f"kernel {kernel.name} over {shape_text(kernel.lanes)}, walk {kernel.walk}, workgroup {kernel.workgroup}{order}"
    printer.lines.append(head)
    for buffer in kernel.buffers:
        use = "read and written" if buffer.read and buffer.written else "written" if buffer.written else "read"
        printer.lines.append(f"{printer.name(buffer.leaf)}: {buffer.dtype}{shape_text(buffer.shape)}, {use}")
    printer.lines.append("prelude:")
    printer.block(kernel.prelude, "  ")
    printer.lines.append("body (the lane loop):")
    printer.block(kernel.body, "  ")
    return "\n".join(printer.lines) + "\n"
