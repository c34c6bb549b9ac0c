"""What a scene of ours has and glTF has no word for, in the `extras` that glTF leaves to applications.

Under the key "rayfuse": in a camera `{"aperture": m, "focus": m}` (radius of the lens, 0 for a pinhole; distance at which all is
sharp, absent where the renderer chooses), in a scene `{"environment": {"radiance": [r, g, b], "strength": s, "turn": degrees, "sky":
{"elevation": degrees, "turbidity": t}}}`, "sky" only where there is one.
Both directions are here, so that they cannot come to differ. Other programs keep extras or drop them; neither does harm. Extras of
other programs may be anything at all, and are none of our business.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from renderer.scene.gltf_json import PartError
from renderer.scene.model import Camera, Environment, Sky

KEY = "rayfuse"
T = TypeVar("T")

NotNegative = Annotated[float, msgspec.Meta(ge=0.0)]
Positive = Annotated[float, msgspec.Meta(gt=0.0)]


class Lens(msgspec.Struct, omit_defaults=True, frozen=True):
    """Of a camera. Metres."""

    aperture: NotNegative = 0.0
    focus: Positive | None = None


class Surroundings(msgspec.Struct, omit_defaults=True, frozen=True):
    """Of a scene; see `renderer.scene.model.Environment`."""

    radiance: tuple[NotNegative, NotNegative, NotNegative]
    strength: NotNegative = 1.0
    turn: float = 0.0
    sky: Sky | None = None


class SceneWords(msgspec.Struct, omit_defaults=True, frozen=True):
    environment: Surroundings | None = None


def camera_extras(camera: Camera) -> dict[str, Any]:
    """The extras of a camera; empty where it has nothing to say."""
    return _extras(Lens(camera.aperture, camera.focus))


def scene_extras(environment: Environment | None) -> dict[str, Any]:
    """The extras of a scene; empty where it has nothing to say. Surroundings that are a picture are not written."""
    if environment is None or environment.image is not None:
        return {}
    return _extras(SceneWords(Surroundings(environment.radiance, environment.strength, environment.turn, environment.sky)))


def read_lens(extras: Any, path: str) -> Lens:
    """What a camera's extras say. Raises `PartError` at a JSON path below `path` for a value that is none."""
    return _read(extras, Lens, path)


def read_environment(extras: Any, path: str) -> Environment | None:
    """What a scene's extras say. Raises `PartError` at a JSON path below `path` for a value that is none."""
    found = _read(extras, SceneWords, path).environment
    return None if found is None else Environment(found.radiance, found.strength, found.turn, sky=found.sky)


def _extras(words: Lens | SceneWords) -> dict[str, Any]:
    told = msgspec.to_builtins(words)
    return {KEY: told} if told else {}


def _read(extras: Any, kind: type[T], path: str) -> T:
    if not isinstance(extras, dict) or KEY not in extras:
        return msgspec.convert({}, kind)
    try:
        return msgspec.convert(extras[KEY], kind)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        raise PartError(f"{path}.{KEY}{where.rstrip('`')}", message[0].lower() + message[1:]) from None
