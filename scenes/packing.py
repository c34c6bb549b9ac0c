"""Geometry packed as glTF's compression extensions have it, written with NumPy alone.

Both formats leave an encoder a choice of how hard to try, and the simplest choices are a page each. meshoptimizer's vertices are split
into bytes: differences of neighbouring elements, sixteen at a time in as few bits as they need; its index sequences are differences as
variable-length numbers. A Draco mesh may hold its triangles and attributes as they are. Bytes come out the same on every machine, which
the libraries' own encoders do not promise from release to release.

Format: EXT_meshopt_compression, appendix A; the Draco bitstream specification 2.2, sequential connectivity.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUP, MOST_ELEMENTS, MOST_BYTES = 16, 256, 8192
SENTINEL_BITS = (2, 4)  # bits of a difference in the two packed modes; all ones: the byte follows
ATTRIBUTES_HEADER, INDICES_HEADER = 0xA0, 0xD1
TAIL = 32
DRACO_KINDS = {"POSITION": 0, "NORMAL": 1, "COLOR_0": 2, "TEXCOORD_0": 3}
DRACO_TYPES = {"f4": 9, "u1": 2}


def meshopt_attributes(elements: NDArray[Any]) -> bytes:
    """Elements [n, ...] of a multiple of four bytes each, packed in mode ATTRIBUTES."""
    data = np.ascontiguousarray(elements).view(np.uint8).reshape(len(elements), -1)
    count, stride = data.shape
    block = min(MOST_BYTES // stride // GROUP * GROUP, MOST_ELEMENTS)
    before = np.concatenate([data[:1], data[:-1]])
    change = (data - before).astype(np.int8)
    zigzag = ((change.astype(np.int16) << 1) ^ (change >> 7)).astype(np.uint8)
    out = bytearray([ATTRIBUTES_HEADER])
    for start in range(0, count, block):
        part = zigzag[start : start + block]
        part = np.pad(part, ((0, -len(part) % GROUP), (0, 0)))
        for column in part.T:
            out += _groups(column.reshape(-1, GROUP))
    return bytes(out) + bytes(max(0, TAIL - stride)) + data[0].tobytes()


def _groups(groups: NDArray[np.uint8]) -> bytes:
    """One byte of each element of a block, uint8[g, 16]: two bits a group that say how it is packed, then the groups."""
    modes, body = [], bytearray()
    for group in groups:
        mode, best = 3, group.tobytes()
        for number, bits in enumerate(SENTINEL_BITS, 1):
            full = (1 << bits) - 1
            small = np.minimum(group, full)
            fields = (small[:, None] >> np.arange(bits)[::-1]) & 1  # the first value in the highest bits
            packed = np.packbits(fields.reshape(-1).astype(np.uint8)).tobytes() + group[group >= full].tobytes()
            if len(packed) < len(best):
                mode, best = number, packed
        if not group.any():
            mode, best = 0, b""
        modes.append(mode)
        body += best
    modes += [0] * (-len(modes) % 4)
    header = [a | b << 2 | c << 4 | d << 6 for a, b, c, d in zip(*(modes[k::4] for k in range(4)))]
    return bytes(header) + bytes(body)


def meshopt_indices(order: NDArray[Any]) -> bytes:
    """Vertex numbers [n], packed in mode INDICES."""
    out, last = bytearray([INDICES_HEADER]), 0
    for index in order.tolist():
        change, last = index - last, index
        zigzag = change * 2 if change >= 0 else -change * 2 - 1
        out += varint(zigzag << 1)  # the lowest bit would choose the other of two predecessors
    return bytes(out) + bytes(4)


def draco(faces: NDArray[Any], attributes: Sequence[NDArray[Any]], names: Sequence[str]) -> bytes:
    """A triangle mesh [m, 3] with attributes [n, k], whose ids are their places."""
    count = len(attributes[0])
    out = bytearray(b"DRACO" + struct.pack("<BBBBH", 2, 2, 1, 0, 0))  # version, triangles, sequential, no flags
    out += varint(len(faces)) + varint(count) + b"\1"  # as they are
    if count >= 1 << 16:
        raise ValueError(f"{count} vertices; this writer stores their numbers in 16 bits")
    out += faces.astype("u1" if count < 256 else "<u2").tobytes()
    out += b"\1" + varint(len(attributes))  # one decoder of all attributes
    for number, (values, name) in enumerate(zip(attributes, names)):
        kind = DRACO_TYPES[values.dtype.str[1:]]
        out += bytes([DRACO_KINDS[name], kind, values.shape[1], values.dtype.kind == "u"]) + varint(number)
    out += bytes(len(attributes))  # values as they are
    for values in attributes:
        out += values.tobytes()
    return bytes(out)


def varint(value: int) -> bytes:
    """A number of variable length: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
