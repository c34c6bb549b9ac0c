"""Loads and stores of pixels where a group is a tile of a picture.

The pixels of a tile's row lie side by side: an address `(y * width + x) * channels + channel` grows by `channels` from one column to
the next, and by whatever it may from one row to the next. So a full tile reads and writes a few elements at a time where it would
otherwise gather and scatter lane by lane (60 cycles and more for 16 lanes on some processors):

    lanes       0  1  2  3 | 4  5  6  7 | ...      a tile of 4 x 4 pixels, row by row
    3 channels  r g b r  g b r g  b r g b | r g b r ...

Elements in the order of lanes and channels are `channels` vectors of the group's width, of which every piece that lies in one row is one
access. From there on they are as any other pixels side by side (`llvm_interleave`). Tiles at a picture's edge, and those of which a
lane is masked for another reason, take the general form: which one it is is asked once for all channels.

LOADs of one block that read channels of one pixel are emitted with the first of them; STOREs with the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler.emit.llvm_interleave import merged, separated
from engine.compiler.emit.llvm_ops import memory_type, vector
from engine.graph.dtypes import DType, int32
from engine.graph.uop import ELEMENTWISE, Op, UOp

if TYPE_CHECKING:
    from engine.compiler.emit.llvm import Emitter
    from engine.compiler.emit.llvm_memory import Memory

_MOST = 4  # channels
Pixel = tuple[UOp, UOp, int, int]  # buffer, index without its constant, pixels beyond it, channels


class Tiles:
    """The part of an emitter that knows tiles. `columns`: of a tile."""

    def __init__(self, emitter: Emitter, memory: Memory, columns: int) -> None:
        self.e, self.memory = emitter, memory
        self.columns = columns
        self.steps: dict[UOp, int | None] = {}
        self.together: dict[UOp, dict[int, UOp]] = {}  # LOADs and STOREs of channels of one pixel, by channel, by each of them
        self.loaded: dict[UOp, str] = {}  # of pixels that were loaded, until their LOAD is reached
        for block in emitter.kernel.blocks():
            found: dict[tuple[str, Pixel], dict[int, UOp]] = {}
            for item in block.items:
                if not isinstance(item, UOp) or item.op not in (Op.LOAD, Op.STORE):
                    continue
                if item.op == Op.STORE:
                    found = {key: channels for key, channels in found.items() if key[0] == Op.STORE}
                plain = len(item.src) == 2 if item.op == Op.LOAD else item.arg == "set" and len(item.src) == 3
                step = self.step(item.src[1])
                if plain and step is not None and 1 <= step <= _MOST:
                    rest, pixel, channel = memory.pixel(item.src[1], step)
                    channels = found.setdefault((item.op, (item.src[0], rest, pixel, step)), {})
                    if item.op == Op.STORE:
                        channels.pop(channel, None)  # the last one counts
                    elif channel in channels:
                        continue
                    channels[channel] = item
                    self.together[item] = channels

    def step(self, index: UOp) -> int | None:
        """Elements by which an index grows from one column of a tile to the next; None where that is no constant."""
        if index not in self.steps:
            self.steps[index] = self._step(index)
        return self.steps[index]

    def _step(self, node: UOp) -> int | None:
        e = self.e
        if node.op == Op.LANE:
            return int(node.arg[0] == len(e.kernel.lanes) - 1)
        if not e.uniform.varies(node):
            return 0
        if node.op not in ELEMENTWISE or node.dtype is not int32:
            return None
        steps = [self.step(s) for s in node.src]
        if all(s == 0 for s in steps):
            return 0
        if any(s is None for s in steps):
            return None
        if node.op == Op.ADD:
            return steps[0] + steps[1]  # type: ignore[operator]
        if node.op == Op.SUB:
            return steps[0] - steps[1]  # type: ignore[operator]
        if node.op == Op.MUL and node.src[1].op == Op.CONST:
            return steps[0] * int(node.src[1].arg)  # type: ignore[operator]
        return None

    # ---- loads ----

    def load(self, node: UOp) -> str | None:
        """The register of a LOAD of a tile's pixels, as it lies in memory; None where it is none."""
        if node in self.loaded:
            return self.loaded.pop(node)
        channels = self.together.get(node)
        if channels is None or node in self.e.scalarised:
            return None
        e = self.e
        dtype: DType = node.dtype
        kind, w = memory_type(dtype), e.width
        t = vector(kind, w)
        step, channel = self._where(node)
        others = {c: load for c, load in channels.items() if load not in e.names}

        def full() -> list[str]:
            starts = self._starts(node, channel, kind)
            rows = [self._read(starts, j, 0, w, step, kind, dtype) for j in range(step)]
            if step == 1:
                return rows
            return [separated(rows, c, w, kind, lambda text: self.memory.once(text, lambda: e.emit(text))) for c in others]

        def other() -> list[str]:
            found = []
            for c in others:
                at = e.raw(node.src[1])
                if c != channel:
                    at = e.emit(f"add {vector('i32', w)} {at}, {e.ops.const(int32, w, c - channel)}")
                addresses = e.emit(f"getelementptr {kind}, ptr {e.buffers[node.src[0]]}, {vector('i32', w)} {at}")
                found.append(self.memory.gather(dtype, w, addresses, e.mask))
            return found

        if e.mask is None:
            found = full()
        else:
            yes, no, join = self._parts(e.mask)
            e.start(yes)
            with e.scope():
                whole = full()
            whole_end = e.label
            e.line(f"br label %{join}")
            e.start(no)
            with e.scope():
                single = other()
            single_end = e.label
            e.line(f"br label %{join}")
            e.start(join)
            found = [e.emit(f"phi {t} [ {a}, %{whole_end} ], [ {b}, %{single_end} ]") for a, b in zip(whole, single, strict=True)]
        self.loaded.update(zip(others.values(), found, strict=True))
        return self.loaded.pop(node)

    def _where(self, node: UOp) -> tuple[int, int]:
        """Channels of a pixel, and the channel that a LOAD or STORE means."""
        step = self.step(node.src[1])
        assert step is not None
        return step, self.memory.pixel(node.src[1], step)[2]

    def _parts(self, mask: str) -> tuple[str, str, str]:
        """Parts full tiles from others: the labels of both, and of where they meet."""
        e = self.e
        yes, no, join = e.new_label("tile"), e.new_label("partial"), e.new_label("join")
        bits = e.emit(f"bitcast {e.mask_type} {mask} to i{e.width}")
        e.line(f"br i1 {e.emit(f'icmp eq i{e.width} {bits}, -1')}, label %{yes}, label %{no}")
        return yes, no, join

    def _starts(self, node: UOp, channel: int, kind: str) -> list[str]:
        """Where the pixels of each row of the tile begin."""
        e = self.e
        starts = []
        for lane in range(0, e.width, self.columns):
            at = e.emit(f"extractelement {vector('i32', e.width)} {e.raw(node.src[1])}, i64 {lane}")
            place = e.emit(f"getelementptr {kind}, ptr {e.buffers[node.src[0]]}, i32 {at}")
            starts.append(e.emit(f"getelementptr {kind}, ptr {place}, i64 {-channel}") if channel else place)
        return starts

    def _place(self, starts: list[str], first: int, count: int, step: int, kind: str) -> str | None:
        """Where `count` elements from the tile's element `first` on lie, if in one row."""
        row, offset = divmod(first, self.columns * step)
        if offset + count > self.columns * step:
            return None
        return self.e.emit(f"getelementptr {kind}, ptr {starts[row]}, i64 {offset}") if offset else starts[row]

    def _read(self, starts: list[str], j: int, low: int, count: int, step: int, kind: str, dtype: DType) -> str:
        """Elements [low, low + count) of vector `j`."""
        e = self.e
        place = self._place(starts, j * e.width + low, count, step, kind)
        if place is not None:
            return e.emit(f"load {vector(kind, count)}, ptr {place}, align {dtype.itemsize}")
        half = count // 2
        a = self._read(starts, j, low, half, step, kind, dtype)
        b = self._read(starts, j, low + half, half, step, kind, dtype)
        t = vector(kind, half)
        order = ", ".join(f"i32 {i}" for i in range(count))
        return e.emit(f"shufflevector {t} {a}, {t} {b}, <{count} x i32> <{order}>")

    # ---- stores ----

    def store(self, node: UOp) -> bool:
        """Stores a tile's pixels, with the last STORE of them; False where they are none or not all their channels are stored."""
        channels = self.together.get(node)
        e = self.e
        if channels is None or node in e.scalarised:
            return False
        step, channel = self._where(node)
        if len(channels) != step:
            return False
        stores = list(channels.values())
        if node is not stores[-1]:
            return True
        dtype: DType = node.src[0].dtype
        kind, w = memory_type(dtype), e.width
        data = [self.memory.to_memory(dtype, w, e.operand(channels[c].src[2], w)) for c in range(step)]

        def full() -> None:
            starts = self._starts(node, channel, kind)
            for j, row in enumerate(data if step == 1 else merged(data, w, kind, e.emit)):
                self._write(starts, j, 0, w, row, step, kind, dtype)

        if e.mask is None:
            full()
            return True
        yes, no, join = self._parts(e.mask)
        e.start(yes)
        with e.scope():
            full()
        e.line(f"br label %{join}")
        e.start(no)
        with e.scope():
            for c, store in sorted(channels.items()):
                addresses = e.emit(f"getelementptr {kind}, ptr {e.buffers[store.src[0]]}, {vector('i32', w)} {e.raw(store.src[1])}")
                self.memory.scatter(dtype, data[c], addresses)
        e.line(f"br label %{join}")
        e.start(join)
        return True

    def _write(self, starts: list[str], j: int, low: int, count: int, row: str, step: int, kind: str, dtype: DType) -> None:
        """Stores elements [low, low + count) of vector `j`, which are `row`."""
        e = self.e
        place = self._place(starts, j * e.width + low, count, step, kind)
        if place is not None:
            e.line(f"store {vector(kind, count)} {row}, ptr {place}, align {dtype.itemsize}")
            return
        half = count // 2
        t = vector(kind, count)
        for k in range(2):
            order = ", ".join(f"i32 {k * half + i}" for i in range(half))
            part = e.emit(f"shufflevector {t} {row}, {t} poison, <{half} x i32> <{order}>")
            self._write(starts, j, low + k * half, half, part, step, kind, dtype)
