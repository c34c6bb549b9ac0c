"""The command line: what is refused, how, and with which exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from renderer.app import cli

BAD_ARGUMENTS = {
    "no command": ((), "a command is missing"),
    "no such command": (("paint",), "invalid choice: 'paint'"),
    "no scene": (("bench",), "SCENE"),
    "no such option": (("bench", "a.glb", "--fast"), "--fast"),
    "a shortened option": (("bench", "a.glb", "--fra", "3"), "--fra"),
    "negative frames": (("bench", "a.glb", "--frames", "-3"), "--frames: must be at least 1, not -3"),
    "no frames": (("bench", "a.glb", "--frames", "0"), "--frames: must be at least 1, not 0"),
    "negative warm-up": (("bench", "a.glb", "--warmup", "-1"), "--warmup: must be at least 0"),
    "half a frame": (("bench", "a.glb", "--frames", "1.5"), "'1.5' is not a whole number"),
    "zero size": (("bench", "a.glb", "--size", "0", "64"), "--size: must be at least 1, not 0"),
    "half a size": (("render", "a.glb", "-o", "a.png", "--size", "64"), "--size: expected 2 arguments"),
    "unknown backend": (("bench", "a.glb", "--backend", "abacus"), "--backend: invalid choice: 'abacus'"),
    "negative camera": (("bench", "a.glb", "--camera", "-1"), "--camera: must be a name or an index from 0"),
    "negative seed": (("bench", "a.glb", "--seed", "-1"), "--seed: must be from 0 to 4294967295"),
    "workgroup of none": (("bench", "a.glb", "--workgroup", "0"), "--workgroup: must be at least 1"),
    "no threads": (("bench", "a.glb", "--threads", "0"), "--threads: must be at least 1"),
    "no depth": (("bench", "a.glb", "--depth", "0"), "--depth: must be at least 1"),
    "unknown denoiser": (("bench", "a.glb", "--denoiser", "magic"), "--denoiser: invalid choice: 'magic'"),
    "no output": (("render", "a.glb"), "-o/--output"),
    "output of unknown kind": (("render", "a.glb", "-o", "a.gif"), "unknown kind of picture '.gif'; use one of .png"),
    "output without a kind": (("render", "a.glb", "-o", "a"), "unknown kind of picture ''"),
    "output into no folder": (("render", "a.glb", "-o", "no/a.png"), "there is no folder"),
    "record into no folder": (("bench", "a.glb", "--json", "no/a.json"), "--json no/a.json: there is no folder"),
    "record onto a folder": (("bench", "a.glb", "--json", "."), "is a folder"),
    "picture of unknown kind": (("bench", "a.glb", "--image", "a.bmp"), "--image a.bmp: unknown kind of picture"),
    "no such scene": (("bench", "no-such-file.glb"), "no-such-file.glb"),
    "no such record": (("compare", "a.json", "b.json"), "a.json: cannot be read"),
    "facts of no scene": (("info", "--json", "-"), "--json: is for the facts of a scene; name one"),
    "facts into no folder": (("info", "a.glb", "--json", "no/a.json"), "--json no/a.json: there is no folder"),
    "threshold below zero": (("compare", "a.json", "b.json", "--threshold", "-1"), "must be a number from 0"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    assert code == 2
    assert said in err
    assert err.startswith("rayfuse: error: ")
    assert err.count("\n") == 1
    assert len(err) < 600
    assert "Traceback" not in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(Path, "chmod") or sys.platform == "win32", reason="hardware: no modes of files")
def test_an_output_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(cli.UsageError, match="cannot be written"):
        cli.check_output(tmp_path / "a.png", "--output", cli.PICTURES)


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (MemoryError("needs 9 GiB, 2 GiB are free"), 4, "out of memory: needs 9 GiB, 2 GiB are free"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("two\nlines"), 1, "internal error: RuntimeError: two lines"),
        (FileNotFoundError(2, "No such file or directory", "a.glb"), 2, "a.glb: No such file or directory"),
        (OSError("libLLVM is broken"), 1, "internal error: OSError: libLLVM is broken"),
    ],
)
def test_errors_end_with_their_exit_code(
    raised: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: object) -> int:
        raise raised

    monkeypatch.delenv("RAYFUSE_TRACEBACK", raising=False)
    monkeypatch.setattr(cli, "run_cache", fail)
    assert cli.main(["cache"]) == code
    out, err = capsys.readouterr()
    assert said in err
    assert err.count("\n") == 1
    assert out == ""


def test_a_traceback_comes_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: object) -> int:
        raise RuntimeError("broken")

    monkeypatch.setattr(cli, "run_cache", fail)
    monkeypatch.setenv("RAYFUSE_TRACEBACK", "1")
    assert cli.main(["cache"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("command", [(), ("bench",), ("render",), ("info",), ("compare",), ("cache",)])
def test_every_command_has_a_help(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, "--help"])
    assert ended.value.code == 0
    assert "usage: rayfuse" in capsys.readouterr().out


def test_the_arguments_are_read_without_the_heavy_modules(root: Path) -> None:
    program = "import sys; from renderer.app import cli; cli.main(['bench']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=True)
    assert not {"numpy", "rich", "llvmlite", "msgspec"} & set(done.stdout.split())


def test_render_writes_a_picture_and_says_nothing(
    rayfuse: Callable[..., subprocess.CompletedProcess[str]], cornell: Path, tmp_path: Path
) -> None:
    options = ("--backend", "cpu", "--size", 24, 16, "--spp", 2, "--depth", 3, "--quiet")
    done = rayfuse("render", cornell, "-o", tmp_path / "a.png", *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_commands_in_one_process_do_not_hear_each_others_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = tmp_path / "dark.obj"
    scene.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    for _ in range(2):
        options = ("--size", "4", "4", "--spp", "1", "--backend", "cpu", "-o", str(tmp_path / "picture.png"))
        assert cli.main(["render", str(scene), *options]) == 0
        assert capsys.readouterr().err.count("no light of its own") == 1


def test_the_same_seed_draws_the_same_picture_and_another_does_not(
    rayfuse: Callable[..., subprocess.CompletedProcess[str]], cornell: Path, tmp_path: Path
) -> None:
    import numpy as np

    pictures = []
    for number, seed in enumerate((3, 3, 4)):
        out = tmp_path / f"{number}.npy"
        options = ("--backend", "cpu", "--size", 16, 16, "--spp", 1, "--depth", 2, "--seed", seed, "--quiet")
        assert rayfuse("render", cornell, "-o", out, *options).returncode == 0
        pictures.append(np.load(out))
    assert pictures[0].shape[:2] == (16, 16)
    assert np.array_equal(pictures[0], pictures[1])
    assert not np.array_equal(pictures[0], pictures[2])


@pytest.mark.skipif(sys.platform == "darwin", reason="hardware: Metal may be there")
def test_a_backend_that_is_not_there_is_exit_code_3(
    rayfuse: Callable[..., subprocess.CompletedProcess[str]], cornell: Path
) -> None:
    done = rayfuse("bench", cornell, "--backend", "metal", "--size", 8, 8, "--frames", 1)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "metal" in done.stderr.lower()
    assert done.stdout == ""


def test_a_camera_that_is_not_there_is_exit_code_2(
    rayfuse: Callable[..., subprocess.CompletedProcess[str]], cornell: Path
) -> None:
    for name in ("nobody", 99):
        done = rayfuse("bench", cornell, "--backend", "cpu", "--camera", name, "--size", 8, 8, "--frames", 1)
        assert done.returncode == 2
        assert str(name) in done.stderr
        assert done.stdout == ""


def test_info_tells_of_each_backend_or_of_a_scene(
    rayfuse: Callable[..., subprocess.CompletedProcess[str]], cornell: Path
) -> None:
    devices, scene = rayfuse("info"), rayfuse("info", cornell)
    assert devices.returncode == scene.returncode == 0
    assert all(word in devices.stdout for word in ("cpu", "reference"))
    assert all(word in scene.stdout for word in ("triangles", "materials"))


def test_the_cache_is_told_of_and_cleared(
    rayfuse: Callable[..., subprocess.CompletedProcess[str]], cornell: Path, tmp_path: Path
) -> None:
    env = {"JIT_CACHE": str(tmp_path / "kernels")}
    options = ("--backend", "cpu", "--size", 8, 8, "--spp", 1, "--depth", 2, "--quiet")
    assert rayfuse("render", cornell, "-o", tmp_path / "a.npy", *options, env=env).returncode == 0
    told, cleared, empty = (rayfuse("cache", *arguments, env=env) for arguments in ((), ("--clear",), ()))
    assert str(tmp_path / "kernels") in told.stdout
    assert " 0 entries" not in told.stdout
    assert cleared.returncode == 0
    assert " 0 entries" in empty.stdout
