"""From LLVM IR to machine code in memory: compile to an object file, load it, find its symbols.

Everything goes through llvmlite and ctypes; no C compiler is needed, and nothing is bound to one system.

Compiling: one short pass list, one code generation, one object file as bytes, which the disk cache can hold. Each
compile has a context, a module and a TargetMachine of its own: a TargetMachine shared by two engines crashes, and so
may a module that is emitted twice. LLVM ends the process where it meets something that it cannot select; what it
reports instead becomes a `CompileError`, with the IR saved to a file.

Loading: position-independent code in the small code model, so that constants are addressed relative to the program
counter. Functions of libm and libc resolve by name. Where the system and the object are of the usual kind,
`native_image` links it; LLJIT with JITLink does everywhere else. So llvmlite, which takes longer to load than most
programs run, is imported when something is to be compiled, and not before.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from engine.runtime.devices import native_image
from engine.runtime.devices.native_host import Host, host

# O2 turns chosen branches into selects and takes ten times as long.
PASSES = ("instcombine", "simplifycfg")

_PASS_METHODS = {
    "always-inline": "add_always_inliner_pass",
    "dce": "add_dead_code_elimination_pass",
    "globaldce": "add_global_dead_code_eliminate_pass",
    "instcombine": "add_instruction_combine_pass",
    "simplifycfg": "add_simplify_cfg_pass",
    "sroa": "add_sroa_pass",
}


class CompileError(RuntimeError):
    """LLVM refused a module: `name` is the module's, `message` LLVM's words, `path` where its IR was saved."""

    def __init__(self, name: str, message: str, path: str) -> None:
        super().__init__(f"{name} does not compile: {message.strip()} (its IR is in {path})")
        self.name, self.message, self.path = name, message, path


class LoadError(RuntimeError):
    """An object file could not be linked into the process, or lacks a symbol that was asked for."""


# --- compiling ----------------------------------------------------------------------------------------------


def compile_ir(
    text: str,
    *,
    name: str,
    optimise: bool = True,
    passes: Sequence[str] = PASSES,
    target: Host | None = None,
) -> bytes:
    """Compile LLVM IR text to the bytes of an object file for the host.

    name: what the module is called in errors. optimise: False runs no pass and generates code at level 0 (`NOOPT=1`).
    passes: names of `_PASS_METHODS`, in order. target: the host as `host()` describes it (default: `host()`).
    Raises CompileError when LLVM cannot parse, verify or emit the module.
    """
    data: bytes = _emit(text, name, optimise, passes, target or host(), "emit_object")
    return data


def assembly(
    text: str,
    *,
    name: str = "module",
    optimise: bool = True,
    passes: Sequence[str] = PASSES,
    target: Host | None = None,
) -> str:
    """The assembly that `compile_ir` with the same arguments generates (for `DEBUG=6`). Raises CompileError."""
    listing: str = _emit(text, name, optimise, passes, target or host(), "emit_assembly")
    return listing


def _emit(text: str, name: str, optimise: bool, passes: Sequence[str], target: Host, form: str) -> Any:
    """The module through the passes and one of the TargetMachine's two emitters."""
    llvm = _llvm()
    context = llvm.create_context()
    try:
        with llvm.parse_assembly(text, context=context) as module:
            module.name = name
            with _target_machine(target, 2 if optimise else 0) as machine:
                module.triple = machine.triple
                module.data_layout = str(machine.target_data)
                module.verify()
                if optimise:
                    _run_passes(module, machine, passes)
                return getattr(machine, form)(module)
    except RuntimeError as error:
        raise CompileError(name, str(error), _save_reproducer(name, text)) from error


def _run_passes(module: Any, machine: Any, passes: Iterable[str]) -> None:
    llvm = _llvm()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    manager = llvm.create_new_module_pass_manager()
    for each in passes:
        getattr(manager, _PASS_METHODS[each])()
    manager.run(module, builder)


def _target_machine(target: Host, level: int) -> Any:
    model = "jitdefault" if sys.platform == "win32" else "small"  # Windows: ELF objects, which need the JIT's own model
    return _llvm().Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel=model
    )


def _save_reproducer(name: str, text: str) -> str:
    import tempfile

    safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:60]
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix=f"rayfuse-{safe}-", suffix=".ll", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
            return file.name
    except OSError as error:
        return f"no file: {error}"


@lru_cache(maxsize=1)
def _llvm() -> Any:
    """llvmlite's binding, ready for this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


# --- loading ------------------------------------------------------------------------------------------------

# each for float64, and with an f appended for float32
_MATH = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
    "expm1", "log", "log2", "log10", "log1p", "cbrt", "floor", "ceil", "rint", "round", "roundeven", "trunc",
    "nearbyint", "sqrt", "fabs", "pow", "fmod", "atan2", "hypot", "fma", "fmin", "fmax", "ldexp", "copysign",
    "remainder",
)  # fmt: skip
_OTHERS = (
    "memcpy", "memmove", "memset", "memcmp", "syscall", "clock_gettime", "pthread_mutex_lock", "pthread_mutex_unlock",
    "pthread_cond_wait", "pthread_cond_broadcast", "sched_getcpu", "sched_getaffinity", "sched_setaffinity",
    "WaitOnAddress", "WakeByAddressAll", "QueryPerformanceCounter", "__chkstk",
    "__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__extendhfdf2",
)  # fmt: skip
_KNOWN = dict.fromkeys((*_MATH, *(f"{name}f" for name in _MATH), *_OTHERS))
_LIBRARIES = {
    "win32": ("ucrtbase", "kernel32", "kernelbase", "ntdll", "vcruntime140"),
    "darwin": ("libSystem.dylib",),
}
_SYSTEM = "rayfuse.system"


@lru_cache(maxsize=1)
def _jit() -> Any:
    """The process's one LLJIT, with a library of the system's functions in it. It lives as long as the process."""
    llvm = _llvm()
    jit = llvm.create_lljit_compiler(use_jit_link=sys.platform != "win32")
    builder = llvm.JITLibraryBuilder()
    for name, address in _system_symbols().items():
        builder.import_symbol(name, address)
    builder.link(jit, _SYSTEM).detach()
    return jit


@lru_cache(maxsize=1)
def _system_libraries() -> list[ctypes.CDLL]:
    libraries = []
    for name in (None, *_LIBRARIES.get(sys.platform, ("libm.so.6", "libgcc_s.so.1"))):
        try:
            libraries.append(ctypes.CDLL(name))
        except (OSError, TypeError):  # not on this system; Windows has no library without a name
            continue
    return libraries


def _system_symbol(symbol: str) -> int | None:
    """The address of a C function that generated code may call, None where this system does not have it."""
    if symbol not in _KNOWN:
        return None
    for library in _system_libraries():
        function = getattr(library, symbol, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value
    return None


def _system_symbols() -> dict[str, int]:
    """The addresses of all of them."""
    found = ((symbol, _system_symbol(symbol)) for symbol in _KNOWN)
    return {symbol: address for symbol, address in found if address is not None}


_library_names = (f"rayfuse.{number}" for number in itertools.count())


class Library:
    """Machine code in memory. Addresses hold until `close()` or until the Library is collected, whichever is first.

    Whoever keeps an address keeps the Library: a `LaunchTable` does so for its launches through `keep`.
    """

    def __init__(self, name: str, tracker: Any, addresses: dict[str, int] | None = None) -> None:
        self._name = name
        self._trackers = [tracker]  # what holds the memory: LLJIT's, or an image
        self._addresses = addresses or {}  # of an image, which has no name: all that it has

    def address(self, symbol: str) -> int:
        """The address of a function or constant that the object defines. Raises LoadError for one that it does not."""
        known = self._addresses.get(symbol)
        if known is not None:
            return known
        if not self._trackers:
            raise LoadError(f"{symbol} was asked of a library that is closed")
        if not self._name:
            raise LoadError(f"{symbol} cannot be loaded: the object does not define it")
        try:
            tracker = _jit().lookup(self._name, symbol)
        except RuntimeError as error:
            raise LoadError(f"{symbol} cannot be loaded: {str(error).strip()}") from error
        self._trackers.append(tracker)
        self._addresses[symbol] = int(tracker[symbol])
        return self._addresses[symbol]

    def close(self) -> None:
        """Free the code. No thread may be in it, and no address of it may be used again."""
        self._addresses.clear()
        while self._trackers:
            self._trackers.pop().close()


def load_object(data: bytes, symbols: Mapping[str, int] | None = None) -> Library:
    """Load an object file that `compile_ir` made, on this machine or one with the same features.

    symbols: addresses of functions beyond libm's and libc's that the object calls; the caller keeps them alive.
    Raises LoadError when the object is malformed. A symbol that is missing is found out at `Library.address`.
    """
    image = native_image.link(data, lambda symbol: (symbols or {}).get(symbol) or _system_symbol(symbol))
    if image is not None:
        return Library("", image, image.addresses)
    llvm = _llvm()
    name = next(_library_names)
    builder = llvm.JITLibraryBuilder().add_object_img(data).add_jit_library(_SYSTEM)
    for symbol, address in (symbols or {}).items():
        builder.import_symbol(symbol, address)
    try:
        return Library(name, builder.link(_jit(), name))
    except RuntimeError as error:
        raise LoadError(f"the object file cannot be loaded: {str(error).strip()}") from error
