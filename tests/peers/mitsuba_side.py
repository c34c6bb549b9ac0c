"""Mitsuba 3, in a process of its own: draws described scenes when it is told to. Needs Python with mitsuba and NumPy, nothing of ours.

    python mitsuba_side.py VARIANT

The variant is one of Mitsuba's (`scalar_rgb`: nothing is compiled; `llvm_ad_rgb`). One JSON object a line on standard input asks for
something and is answered by one line on standard output, after a first line that tells the version and the seconds from the start of the
process:

    {"scene": FOLDER}                              loads scene.json of the folder, keeps it      {"seconds", "tree_s"}
    {}                                             asks for the age of the process              {"seconds"}
    {"spp": N, "seed": N, "passes": N, "to": FILE} draws as many pictures, each with its seed    {"seconds": [...]}

`tree_s`: the part of the seconds that Embree took by Mitsuba's own word (null: it said none). FILE (.npy) gets float32[passes, height,
width, 3], linear; without "to" nothing is kept. What fails is answered by {"error": text}. A scene is a dictionary for
`mitsuba.load_dict` in JSON, with what JSON has no word for as objects of one key:

    {"matrix": [[...] * 4] * 4}     a transform                        {"path": NAME}        a file of the folder
    {"pixels": NAME, "raw": true}   a Bitmap of a .npy of the folder; of uint8, through the sRGB curve unless raw
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def process_age() -> float:
    """Seconds since this process began (Linux)."""
    began = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    return float(Path("/proc/uptime").read_text().split()[0]) - began


class Side:
    """A variant of Mitsuba, and the scene that it holds."""

    def __init__(self, variant: str) -> None:
        import mitsuba

        self.mi = mitsuba
        mitsuba.set_variant(variant)
        self.said: list[str] = []
        self._listen()
        self.scene: Any = None
        self.jit = variant.startswith("llvm")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.said.clear()
        if "scene" in request:
            started = time.perf_counter()
            folder = Path(request["scene"])
            self.scene = self.mi.load_dict(self._given(json.loads((folder / "scene.json").read_text()), folder))
            seconds = time.perf_counter() - started
            took = re.search(r"Embree ready\. \(took ([\d.]+)(m?)s\)", "\n".join(self.said))
            return {"seconds": seconds, "tree_s": None if took is None else float(took[1]) * (1e-3 if took[2] else 1.0)}
        if not request:
            return {"seconds": process_age()}
        times, pictures = [], []
        for k in range(request["passes"]):
            started = time.perf_counter()
            picture = self.mi.render(self.scene, spp=request["spp"], seed=request["seed"] + k)
            if self.jit:
                import drjit

                drjit.eval(picture)
                drjit.sync_thread()
            times.append(time.perf_counter() - started)
            if "to" in request:
                pictures.append(np.array(picture, np.float32))
        if pictures:
            np.save(request["to"], np.stack(pictures))
        return {"seconds": times}

    def _listen(self) -> None:
        """Hears Mitsuba's log, which else goes to standard output."""
        said = self.said

        class Listener(self.mi.Appender):
            def append(self, level: Any, text: str) -> None:
                said.append(text)

            def log_progress(self, *_: Any) -> None:
                pass

        self._listener = Listener()  # which the logger does not keep alive
        logger = self.mi.logger()
        logger.clear_appenders()
        logger.add_appender(self._listener)
        self.mi.set_log_level(self.mi.LogLevel.Info)

    def _given(self, value: Any, folder: Path) -> Any:
        """What a part of the description stands for."""
        if isinstance(value, list):
            return [self._given(part, folder) for part in value]
        if not isinstance(value, dict):
            return value
        if "matrix" in value:
            return self.mi.ScalarTransform4f(np.array(value["matrix"], np.float64))
        if "path" in value:
            return str(folder / value["path"])
        if "pixels" in value:
            pixels = np.load(folder / value["pixels"])
            bitmap = self.mi.Bitmap(pixels)
            bitmap.set_srgb_gamma(pixels.dtype == np.uint8 and not value["raw"])
            return bitmap
        return {name: self._given(part, folder) for name, part in value.items()}


def main() -> None:
    """Answers until there are no more lines."""
    side = Side(sys.argv[1])
    print(json.dumps({"version": side.mi.__version__, "seconds": process_age()}), flush=True)
    for line in sys.stdin:
        try:
            told = side.answer(json.loads(line))
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
