"""The command `rayfuse`: arguments in, exit code out.

    0   done
    1   an internal error, or compare's threshold exceeded
    2   bad input: the arguments, a scene, a record, a place that cannot be written
    3   no device that can be used
    4   out of memory
    130 interrupted

Standard output carries the result and nothing else. An error is one line on standard error: what, which file or
argument, what to do; a traceback only with RAYFUSE_TRACEBACK=1. What can be found wrong in the arguments is found
before any work.

Every command's modules are imported inside its function: `rayfuse bench` is timed from the start of the process, and
nobody waits for NumPy to read a help text. For the same reason the arguments are argparse's (10 ms); typer would cost
110 ms a start.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from renderer.app.opening import PICTURES, FrameOptions, UsageError, check_output
from renderer.app.terminal import say

BACKENDS = ("auto", "cpu", "reference", "opencl", "opengl", "cuda", "hip", "metal", "webgpu")
SEEDS = 2**32

INTERNAL, BAD_INPUT, NO_DEVICE, NO_MEMORY, INTERRUPTED = 1, 2, 3, 4, 130

# Errors of other modules that have an exit code of their own. They are looked up only once something has been raised: a
# module that was never imported has raised nothing.
EXIT_CODES = (
    ("renderer.scene.model", "SceneError", BAD_INPUT),
    ("renderer.scene.images", "ImageError", BAD_INPUT),
    ("renderer.app.record", "RecordError", BAD_INPUT),
    ("renderer.app.viewer.window", "DisplayError", NO_DEVICE),
    ("engine", "DeviceError", NO_DEVICE),
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are raised, and become the one line that `main` prints."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')}; see {self.prog} --help")


class HelpFormatter(argparse.HelpFormatter):
    """Help that names a default where there is one to speak of."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if not action.option_strings or action.default in (None, False, argparse.SUPPRESS):
            return action.help
        shown = " ".join(map(str, action.default)) if isinstance(action.default, tuple) else action.default
        return f"{action.help} (default: {shown})"


def integer(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type of argument: a whole number within bounds."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
        if value < least or (most is not None and value > most):
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"must be {bounds}, not {value}")
        return value

    return parse


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None


def percentage(text: str) -> float:
    """A type of argument: per cent, not negative."""
    value = _number(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number from 0, not {text}")
    return value


def stops(text: str) -> float:
    """A type of argument: powers of two of the exposure."""
    value = _number(text)
    if not -30 <= value <= 30:
        raise argparse.ArgumentTypeError(f"must be a number from -30 to 30, not {text}")
    return value


def seconds(text: str) -> float:
    """A type of argument: a time, more than nothing."""
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be more than 0 seconds, not {text}")
    return value


def workgroup(text: str) -> int | None:
    """A type of argument: lanes a workgroup, None for auto."""
    return None if text == "auto" else integer(1)(text)


def name_or_index(text: str) -> int | str:
    """A type of argument: the index of a camera or a variant, or its name."""
    try:
        index = int(text)
    except ValueError:
        return text
    if index < 0:
        raise argparse.ArgumentTypeError(f"must be a name or an index from 0, not {index}")
    return index


def parser() -> Parser:
    """The commands and their options."""
    top = Parser("rayfuse", description="A path tracer on a fusing just-in-time compiler.", allow_abbrev=False)
    top.add_argument("--version", action="store_true", help="print the version and end")
    commands = top.add_subparsers(metavar="COMMAND", parser_class=Parser, prog="rayfuse")

    def command(name: str, function: Callable[[argparse.Namespace], int], text: str) -> Parser:
        added = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            allow_abbrev=False,
            formatter_class=HelpFormatter,
        )
        added.set_defaults(function=function)
        return added

    view = command("view", run_view, "the viewer")
    _frame_options(view, spp=1, spp_text="samples a pixel in a frame")
    view.add_argument("--record", type=Path, metavar="FILE.json", help="write at exit what happened")
    view.add_argument("--exit-after", type=seconds, metavar="SECONDS", help="end by itself")
    view.add_argument("--screenshot", type=Path, metavar="FILE.png", help="write the picture at exit")
    view.add_argument("--material", type=Path, metavar="FILE.py", help="a shading module in place of the built-in one")

    bench = command("bench", run_bench, "frames without a window, and figures")
    _frame_options(bench, spp=1, spp_text="samples a pixel in a frame")
    bench.add_argument("--frames", type=integer(1), default=120, metavar="N", help="measured frames")
    bench.add_argument("--warmup", type=integer(0), default=10, metavar="N", help="frames before the measured ones")
    bench.add_argument("--static", action="store_true", help="the hand-written shaders of shaders_ref/ instead, on OpenGL")
    bench.add_argument("--orbit", action="store_true", help="turn the camera, 0.5 degrees a frame, 10 either way")
    bench.add_argument("--json", metavar="FILE|-", help="write the record here; -: to standard output, no table")
    bench.add_argument("--image", type=Path, metavar="FILE", help=f"write the picture here ({' '.join(PICTURES)})")

    render = command("render", run_render, "a finished picture in a file")
    _frame_options(render, spp=64, spp_text="samples a pixel in all")
    render.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help=f"the picture ({' '.join(PICTURES)})"
    )

    info = command("info", run_info, "the devices, each usable or why not; of a scene: what is in it, what is not drawn, what it costs")
    info.add_argument("scene", nargs="?", type=Path, metavar="SCENE", help="a .gltf, .glb, .obj, .ply or .stl file")
    info.add_argument("--size", nargs=2, type=integer(1), default=(1280, 720), metavar=("W", "H"), help="pixels, for the costs")
    info.add_argument("--json", metavar="FILE|-", help="write the facts of the scene here; -: to standard output, no table")
    _loading_options(info)

    compare = command("compare", run_compare, "two benchmark records; exit code 1 when the second is slower")
    compare.add_argument("before", type=Path, metavar="A.json")
    compare.add_argument("after", type=Path, metavar="B.json")
    compare.add_argument(
        "--threshold", type=percentage, default=5.0, metavar="P", help="per cent that the median frame may be slower"
    )

    cache = command("cache", run_cache, "where the compiled kernels are, how many, how large")
    cache.add_argument("--clear", action="store_true", help="remove them")
    return top


def _frame_options(added: Parser, *, spp: int, spp_text: str) -> None:
    added.add_argument("scene", type=Path, metavar="SCENE", help="a .gltf, .glb, .obj, .ply or .stl file")
    added.add_argument("--backend", choices=BACKENDS, default="auto", metavar="NAME", help=", ".join(BACKENDS))
    added.add_argument("--size", nargs=2, type=integer(1), default=(1280, 720), metavar=("W", "H"), help="pixels")
    added.add_argument("--spp", type=integer(1), default=spp, metavar="N", help=spp_text)
    added.add_argument(
        "--depth", type=integer(1), default=8, metavar="N", help="most path segments from the camera; 2 is direct light"
    )
    added.add_argument("--seed", type=integer(0, SEEDS - 1), default=0, metavar="N", help="of the random numbers")
    added.add_argument("--camera", type=name_or_index, metavar="NAME|INDEX", help="a camera of the scene (default: its first)")
    added.add_argument("--variant", type=name_or_index, metavar="NAME|INDEX", help="of the scene's materials")
    added.add_argument(
        "--workgroup", type=workgroup, default="auto", metavar="auto|256|512|N", help="lanes a workgroup"
    )
    added.add_argument("--threads", type=integer(1), metavar="N", help="of the CPU backend (default: all there are)")
    added.add_argument(
        "--env", metavar="FILE|sky|none", help=f"what surrounds the scene: a picture ({' '.join(PICTURES)}), a clear sky, nothing"
    )
    added.add_argument("--cull", action="store_true", help="look through the backs of surfaces that have but a front")
    added.add_argument("--exposure", type=stops, default=0.0, metavar="STOPS", help="each doubles the brightness (default: 0)")
    added.add_argument("--denoiser", choices=("none",), default="none", metavar="NAME", help="none")
    added.add_argument("--lights", choices=("plain",), default="plain", metavar="NAME", help="sampled how: plain")
    _loading_options(added)


def _loading_options(added: Parser) -> None:
    added.add_argument("--strict", action="store_true", help="make each warning about the scene an error")
    added.add_argument("--quiet", action="store_true", help="no progress and no warnings")


def _frame_options_of(arguments: argparse.Namespace) -> FrameOptions:
    width, height = arguments.size
    return FrameOptions(
        scene=arguments.scene,
        backend=arguments.backend,
        width=width,
        height=height,
        spp=arguments.spp,
        depth=arguments.depth,
        seed=arguments.seed,
        camera=arguments.camera,
        workgroup=arguments.workgroup,
        threads=arguments.threads,
        denoiser=arguments.denoiser,
        strict=arguments.strict,
        quiet=arguments.quiet,
        env=arguments.env,
        cull=arguments.cull,
        exposure=arguments.exposure,
        variant=arguments.variant,
    )


def run_view(arguments: argparse.Namespace) -> int:
    if arguments.record is not None:
        check_output(arguments.record, "--record")
    if arguments.screenshot is not None:
        check_output(arguments.screenshot, "--screenshot", (".png",))

    from renderer.app.viewer import window

    glfw = window.load_glfw()  # said before anything is loaded

    from renderer.app.viewer import app

    options = app.ViewOptions(
        _frame_options_of(arguments), arguments.record, arguments.exit_after, arguments.screenshot, arguments.material
    )
    return app.run(options, glfw)


def run_bench(arguments: argparse.Namespace) -> int:
    target = None if arguments.json in (None, "-") else Path(arguments.json)
    if target is not None:
        check_output(target, "--json")
    if arguments.image is not None:
        check_output(arguments.image, "--image", PICTURES)
    if arguments.static and arguments.backend not in ("auto", "opengl"):
        raise UsageError(f"--static: the hand-written shaders run on OpenGL alone; take --backend {arguments.backend} away")

    from renderer.app import bench

    options = bench.BenchOptions(arguments.frames, arguments.warmup, arguments.orbit, arguments.image, arguments.static)
    result = bench.run(_frame_options_of(arguments), options)

    from renderer.app import record

    if target is not None:
        record.write(result, target)
    if arguments.json == "-":
        sys.stdout.buffer.write(record.encode(result))
    else:
        from renderer.app.tables import print_record

        print_record(result)
    return 0


def run_render(arguments: argparse.Namespace) -> int:
    check_output(arguments.output, "--output", PICTURES)

    from renderer.app import batch

    batch.run(_frame_options_of(arguments), arguments.output)
    return 0


def run_info(arguments: argparse.Namespace) -> int:
    if arguments.scene is not None:
        return _run_info_of_scene(arguments)
    if arguments.json is not None:
        raise UsageError("--json: is for the facts of a scene; name one")

    import engine
    from renderer.app import tables

    tables.print_devices(engine.devices())
    return 0


def _run_info_of_scene(arguments: argparse.Namespace) -> int:
    target = None if arguments.json in (None, "-") else Path(arguments.json)
    if target is not None:
        check_output(target, "--json")

    import msgspec

    from renderer.app import opening
    from renderer.scene.files import write_whole
    from renderer.scene.summary import summary

    scene = opening.load_scene(arguments.scene, strict=arguments.strict, quiet=True)  # its warnings are among the facts
    facts = summary(scene, (arguments.size[0], arguments.size[1]))
    encoded = msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n"
    if target is not None:
        write_whole(target, encoded)
    if arguments.json == "-":
        sys.stdout.buffer.write(encoded)
    else:
        from renderer.app import tables

        tables.print_scene(facts, warnings=not arguments.quiet)
    return 0


def run_compare(arguments: argparse.Namespace) -> int:
    from renderer.app import compare, record, tables

    comparison = compare.compare(record.read(arguments.before), record.read(arguments.after), arguments.threshold)
    tables.print_comparison(comparison)
    return INTERNAL if comparison.slower else 0


def run_cache(arguments: argparse.Namespace) -> int:
    from engine import Cache

    cache = Cache.from_environment()
    held = cache.statistics()
    if held.path is None:
        print("no cache: JIT_CACHE or JIT_CACHE_LIMIT turns it off")
    elif arguments.clear:
        print(f"{held.path}: {cache.clear()} entries removed, {held.bytes / 2**20:.1f} MiB")
    else:
        print(f"{held.path}: {held.entries} entries, {held.bytes / 2**20:.1f} MiB")
    return 0


def exit_code_of(error: Exception) -> int:
    """The exit code that an error stands for."""
    if isinstance(error, UsageError) or (isinstance(error, OSError) and error.filename is not None):
        return BAD_INPUT
    for module, name, code in EXIT_CODES:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(error, kind):
            return code
    return INTERNAL


def print_traceback(error: BaseException) -> None:
    """Where an error came from, on standard error."""
    import traceback

    traceback.print_exception(error)


def report(error: Exception) -> int:
    """Says in one line what went wrong and returns the exit code."""
    if os.environ.get("RAYFUSE_TRACEBACK") == "1":
        print_traceback(error)
    code = exit_code_of(error)
    if code == INTERNAL:
        say(f"internal error: {type(error).__name__}: {error}; RAYFUSE_TRACEBACK=1 shows where")
    elif isinstance(error, OSError):
        say(f"error: {error.filename}: {error.strerror}")
    else:
        say(f"error: {error}")
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's own threads: 50 ms at the start, and never used here
    try:
        top = parser()
        arguments = top.parse_args(argv)
        if arguments.version:
            from renderer.app.host import version

            print(f"rayfuse {version() or 'unknown'}")
            return 0
        if "function" not in arguments:
            top.error("a command is missing")
        code: int = arguments.function(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except MemoryError as error:
        if os.environ.get("RAYFUSE_TRACEBACK") == "1":
            print_traceback(error)
        say(f"error: out of memory{f': {error}' if str(error) else ''}; try a smaller --size or scene")
        return NO_MEMORY
    except BrokenPipeError:  # the reader of standard output has gone: nothing is left to say, nor to flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERNAL
    except Exception as error:
        return report(error)


if __name__ == "__main__":
    sys.exit(main())
