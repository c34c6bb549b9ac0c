"""An object file into memory, without LLVM: the few things that a linker does for the objects that we make.

LLJIT can load any object, but llvmlite has to be imported for it, which takes longer than everything else that a second
process needs. What `native.compile_ir` makes on Linux for x86-64 is simple: code, constants, and places in the code
that hold the distance to a constant, to another function, or to a function of libm. All sections go one behind the
other into one mapping, so distances within it are known at once; functions outside may be further away than a distance
can say, so calls to them go through a slot of their own at the end (`jmp *[rip]`, then the address). Then the mapping
becomes executable, and no longer writable.

Whatever is not of that kind (another system or processor, a section that is written, a relocation that is not listed
here, a symbol that nobody knows) is not an error: `link` returns None, and LLJIT is asked. Unwind tables are left out:
nothing is thrown through kernels.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Callable

HERE = sys.platform.startswith("linux") and platform.machine().lower() in ("x86_64", "amd64")

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # identification, type, machine, ..., section headers at, ..., number of them, names
_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
_SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_RELOCATION = struct.Struct("<QQq")  # offset, symbol << 32 | type, addend
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _UNWIND = 1, 2, 4, 8, 0x70000001
_WRITE, _ALLOC, _TLS = 0x1, 0x2, 0x400
_PC32, _PLT32 = 2, 4
_UNDEFINED, _RESERVED = 0, 0xFF00  # section numbers of symbols
_SLOT = struct.Struct("<6sQ2x")  # jmp *[rip + 0]; the address
_JUMP = b"\xff\x25\0\0\0\0"


class Image:
    """Machine code in a mapping of its own. `addresses`: of the global symbols. The code goes when this is closed or collected."""

    def __init__(self, memory: mmap.mmap, addresses: dict[str, int]) -> None:
        self._memory, self.addresses = memory, addresses

    def close(self) -> None:
        """Unmaps the code."""
        self.addresses = {}
        self._memory.close()


def link(data: bytes, outside: Callable[[str], int | None]) -> Image | None:
    """The object in memory, ready to be called; None where this is a task for LLJIT. `outside`: addresses of functions that it calls."""
    if not HERE:
        return None
    try:
        return _link(data, outside)
    except (struct.error, ValueError, IndexError, OSError, OverflowError):  # no such object, or no such mapping
        return None


def _link(data: bytes, outside: Callable[[str], int | None]) -> Image | None:
    header = _HEADER.unpack_from(data)
    if header[0][:6] != b"\x7fELF\x02\x01" or header[1:3] != (_RELOCATABLE, _X86_64):
        return None
    sections = [_SECTION.unpack_from(data, header[6] + k * _SECTION.size) for k in range(header[12])]
    places: dict[int, int] = {}  # of the sections that are loaded, in the image
    end = 0
    for number, (_, kind, flags, _, offset, size, _, _, alignment, _) in enumerate(sections):
        if not flags & _ALLOC or kind == _UNWIND or not size:
            continue
        if kind != _PROGBITS or flags & (_WRITE | _TLS) or offset + size > len(data) or alignment > mmap.PAGESIZE:
            return None
        places[number] = end = -(-end // max(1, alignment)) * max(1, alignment)
        end += size
    table = next((s for s in sections if s[1] == _SYMTAB), None)
    if not places or table is None:
        return None
    names = sections[table[6]]
    symbols: list[tuple[str, int | None]] = []  # name, and place in the image where it has one
    exported: dict[str, int] = {}
    for name_at, info, _, section, value, _ in _SYMBOL.iter_unpack(data[table[4] : table[4] + table[5]]):
        at = names[4] + name_at
        name = data[at : data.index(b"\0", at)].decode()
        place = places[section] + value if section in places else None
        if section >= _RESERVED and info & 15 != 4:  # absolute and common symbols; the file's own name is one too
            return None
        symbols.append((name, place))
        if info >> 4 == 1 and place is not None:
            exported[name] = place

    fixes: list[tuple[int, int, int]] = []  # where, symbol, addend
    slots: dict[int, int] = {}
    end = -(-end // 16) * 16
    for section in sections:
        if section[1] != _RELA or section[7] not in places:
            continue
        for offset, info, addend in _RELOCATION.iter_unpack(data[section[4] : section[4] + section[5]]):
            if info & 0xFFFFFFFF not in (_PC32, _PLT32) or offset + 4 > sections[section[7]][5]:
                return None
            number = info >> 32
            if symbols[number][1] is None and number not in slots:
                if info & 0xFFFFFFFF != _PLT32:
                    return None
                slots[number] = end
                end += _SLOT.size
            fixes.append((places[section[7]] + offset, number, addend))

    memory = mmap.mmap(-1, end, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    for number, place in places.items():
        memory[place : place + sections[number][5]] = data[sections[number][4] : sections[number][4] + sections[number][5]]
    for number, place in slots.items():
        address = outside(symbols[number][0])
        if address is None:
            return None
        _SLOT.pack_into(memory, place, _JUMP, address)
    distance = struct.Struct("<i")
    for where, number, addend in fixes:
        place = symbols[number][1]
        distance.pack_into(memory, where, (slots[number] if place is None else place) + addend - where)
    view = (ctypes.c_char * end).from_buffer(memory)
    base = ctypes.addressof(view)
    del view  # it would keep the mapping from being closed
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(base), ctypes.c_size_t(end), mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    return Image(memory, {name: base + place for name, place in exported.items()})
