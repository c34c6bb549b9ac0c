"""A scene of ours in Mitsuba's words: meshes as PLY files, textures as bitmaps, cameras, lights and surroundings; and the other process.

`describe` writes a folder that `mitsuba_side.py` loads. Lambert's materials are translated here; any other surface has formulas of its
own on either side, so what is to be compared with what is the caller's to say (`bsdfs`). What has no counterpart is refused, not dropped.

Conventions that differ. Mitsuba's cameras look along +z with x to the left. Its pictures of surroundings have their first and last row
*at* the poles, where ours (as is usual) have them half a row away: with 2 h + 1 rows, every second one a row of ours and the others the
means between, both interpolate to the same. Their middle looks along +z, ours along +x. A shape is black from behind unless `twosided`.
Mitsuba has no levels of detail: textures are to be seen from near, or to have none.
"""

from __future__ import annotations

import json
import math
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renderer.pipeline.camera import DEFAULT_FOCUS
from renderer.scene.model import Camera, Environment, Geometry, Light, Material, Perspective, Scene
from renderer.scene.model_texture import TextureRef
from renderer.scene.pictures import decode, kind_of, stored
from renderer.scene.punctual_tables import NARROWEST

Json = dict[str, Any]
Floats = NDArray[np.float64]

SIDE = Path(__file__).with_name("mitsuba_side.py")
TURN = np.array([[-1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0], [0, 0, 0, 1]])  # a Mitsuba camera in a camera of glTF's
PATIENCE_S = 300.0


class Untranslatable(Exception):
    """A part of a scene that Mitsuba has no counterpart for."""


class MitsubaError(Exception):
    """The other process could not do what it was asked to."""


def colour(value: Any) -> Json:
    """A linear colour, as a spectrum."""
    return {"type": "rgb", "value": [float(c) for c in np.broadcast_to(np.asarray(value, float), 3)]}


def number(value: float) -> Json:
    """A texture of one value that is no colour."""
    return {"type": "uniform", "value": float(value)}


def twosided(bsdf: Json) -> Json:
    """Seen from behind as from the front, as all surfaces of glTF's are here."""
    return {"type": "twosided", "inner": bsdf}


def describe(
    scene: Scene,
    folder: Path,
    *,
    size: tuple[int, int],
    depth: int,
    bsdfs: dict[int, Json] | None = None,
    inside: dict[int, Json] | None = None,
    integrator: str = "path",
    roulette: int = 64,
) -> None:
    """Writes scene.json and its files into an empty folder; the first camera is used. bsdfs: of materials, by number; inside: their media;
    roulette: the first segment that it may end.

    Raises Untranslatable.
    """
    made = _Translation(scene, folder)
    bsdfs, inside = bsdfs or {}, inside or {}
    told: Json = {"type": "scene", "integrator": {"type": integrator, "max_depth": depth, "rr_depth": roulette}}
    told["sensor"] = made.sensor(scene.cameras[0], size)
    for k, material in enumerate(scene.materials):
        told[f"material_{k}"] = (bsdfs[k] if k in bsdfs else made.matt(material)) | {"id": f"material_{k}"}
    for k, medium in inside.items():
        told[f"medium_{k}"] = medium | {"id": f"medium_{k}"}
    for _, place, geometry, material, worlds in scene.placed():
        stem = f"shape_{len(told)}_{place}"
        shape = made.shape(geometry, stem, f"material_{material}")
        if material in inside:
            shape["interior"] = {"type": "ref", "id": f"medium_{material}"}
        emissive = scene.materials[material].is_emissive
        if len(worlds) == 1 or emissive:
            light = {"emitter": made.emitter(scene.materials[material])} if emissive else {}
            for k, world in enumerate(worlds):
                told[f"{stem}_{k}"] = shape | light | {"to_world": {"matrix": world.tolist()}}
            continue
        told[stem] = {"type": "shapegroup", "id": stem, "shape": shape}
        for k, world in enumerate(worlds):
            told[f"{stem}_{k}"] = {"type": "instance", "to_world": {"matrix": world.tolist()}, "group": {"type": "ref", "id": stem}}
    for k, light in enumerate(scene.lights):
        told[f"light_{k}"] = punctual(light)
    if scene.environment is not None and scene.environment.strength * max(scene.environment.radiance) > 0.0:
        told["environment"] = made.environment(scene.environment)
    (folder / "scene.json").write_text(json.dumps(told))


class _Translation:
    """One scene on its way into one folder."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self.scene = scene
        self.folder = folder

    def shape(self, geometry: Geometry, stem: str, material: str) -> Json:
        """A mesh in a PLY file."""
        columns = [("xyz", geometry.positions), (("nx", "ny", "nz"), geometry.normals)]
        columns += [("uv", geometry.texcoords[0] if geometry.texcoords else None)]
        columns += [("rgb", None if geometry.colours is None else geometry.colours[:, :3])]
        there = [(names, values) for names, values in columns if values is not None]
        properties = "".join(f"property float {name}\n" for names, _ in there for name in names)
        rows = np.concatenate([values for _, values in there], 1).astype("<f4")
        faces = np.zeros(len(geometry.indices), [("count", "u1"), ("corners", "<i4", 3)])
        faces["count"], faces["corners"] = 3, geometry.indices
        header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(rows)}\n{properties}element face {len(faces)}\n"
        header += "property list uchar int vertex_indices\nend_header\n"
        (self.folder / f"{stem}.ply").write_bytes(header.encode() + rows.tobytes() + faces.tobytes())
        told: Json = {"type": "ply", "filename": {"path": f"{stem}.ply"}, "bsdf": {"type": "ref", "id": material}}
        return told | ({"face_normals": True} if geometry.normals is None else {})

    def matt(self, material: Material) -> Json:
        """Lambert's surface, with a texture or the vertices' colours in place of a colour, a map of normals, and holes."""
        if material.metallic or material.specular_factor or material.transmission.factor or material.unlit:
            raise Untranslatable(f"material {material.name!r} is not matt: say what it is (bsdfs)")
        surface: Json = {"type": "diffuse", "reflectance": self.reflectance(material)}
        if material.normal_texture is not None:
            bent = {"type": "normalmap", "normalmap": self.texture(material.normal_texture, raw=True), "bsdf": surface}
            surface = bent | {"use_shadowing_function": False}  # of Estevez et al. 2019, which is no part of glTF
        return self.veiled(material, twosided(surface))

    def reflectance(self, material: Material) -> Json:
        """The base colour."""
        factor = material.base_color_factor[:3]
        if material.base_color_texture is not None:
            return self.texture(material.base_color_texture, factor, raw=False)
        if self._coloured(material):
            if factor != (1.0, 1.0, 1.0):
                raise Untranslatable("colours of vertices and a factor")
            return {"type": "mesh_attribute", "name": "vertex_color"}
        return colour(factor)

    def _coloured(self, material: Material) -> bool:
        """Whether the vertices of what has this material have colours."""
        placed = self.scene.placed()
        return any(g.colours is not None and self.scene.materials[number] is material for _, _, g, number, _ in placed)

    def texture(self, ref: TextureRef, factor: tuple[float, ...] = (1.0, 1.0, 1.0), *, raw: bool) -> Json:
        """A bitmap; raw: its values are linear."""
        texture = self.scene.textures[ref.texture]
        if texture.image is None or texture.wrap_s != texture.wrap_t or ref.texcoord or texture.mag != texture.min:
            raise Untranslatable(f"texture {ref.texture}")
        how = self._sampling(ref, "bilinear" if texture.mag == "linear" else "nearest", texture.wrap_s)
        image = self.scene.images[texture.image]
        pixels = decode(image)
        if factor == (1.0, 1.0, 1.0) and pixels.shape[2] == 3 and not image.recipe:  # the file itself, which is decoded there
            data = stored(image)
            assert data is not None
            name = self._name(kind_of(data).removeprefix("image/"))
            (self.folder / name).write_bytes(data)
            return {"type": "bitmap", "filename": {"path": name}, "raw": raw} | how
        pixels = pixels[..., :3]
        if factor != (1.0, 1.0, 1.0):
            if not raw:
                pixels = _linear(pixels)
            pixels, raw = (pixels * np.array(factor)).astype(np.float32), True
        return self._bitmap(pixels, raw) | how

    def veiled(self, material: Material, bsdf: Json) -> Json:
        """A surface with glTF's alpha."""
        if material.alpha_mode == "OPAQUE":
            return bsdf
        if material.base_color_texture is None:
            alpha = material.base_color_factor[3]
            opacity = alpha if material.alpha_mode == "BLEND" else float(alpha >= material.alpha_cutoff)
            return {"type": "mask", "opacity": opacity, "in": bsdf}
        texture = self.scene.textures[material.base_color_texture.texture]
        if texture.image is None or texture.mag != "nearest" or material.alpha_mode != "MASK":
            raise Untranslatable("a mask of mixed texels")
        solid = decode(self.scene.images[texture.image])[..., 3:] * (material.base_color_factor[3] / 255.0) >= material.alpha_cutoff
        holes = self._bitmap(solid.astype(np.float32), True) | self._sampling(material.base_color_texture, "nearest", texture.wrap_s)
        return {"type": "mask", "opacity": holes, "in": bsdf}

    def _bitmap(self, pixels: NDArray[Any], raw: bool) -> Json:
        name = self._name("npy")
        np.save(self.folder / name, pixels)
        return {"type": "bitmap", "bitmap": {"pixels": name, "raw": raw}, "raw": raw}

    def _name(self, ending: str) -> str:
        return f"picture_{len(list(self.folder.glob('picture_*')))}.{ending}"

    def _sampling(self, ref: TextureRef, mixing: str, wrap: str) -> Json:
        matrix = np.eye(4)
        matrix[:2, [0, 1, 3]] = ref.matrix
        return {"filter_type": mixing, "wrap_mode": wrap, "to_uv": {"matrix": matrix.tolist()}, "format": "variant"}

    def emitter(self, material: Material) -> Json:
        """An area light."""
        if material.double_sided:
            raise Untranslatable("lamps that shine to both sides")
        if material.emissive_texture is None:
            return {"type": "area", "radiance": colour(material.emissive)}
        return {"type": "area", "radiance": self.texture(material.emissive_texture, material.emissive, raw=False)}

    def environment(self, environment: Environment) -> Json:
        """Light from all around."""
        radiance = np.array(environment.radiance) * environment.strength
        if environment.image is None:
            return {"type": "constant", "radiance": colour(radiance)}
        ours = environment.image[..., :3].astype(np.float64) * radiance
        rows = np.empty((2 * len(ours) + 1, *ours.shape[1:]))
        rows[1::2], rows[0], rows[-1] = ours, ours[0], ours[-1]
        rows[2:-1:2] = (ours[1:] + ours[:-1]) / 2
        np.save(self.folder / "environment.npy", rows.astype(np.float32))
        turn = _about_y(90.0 + environment.turn)
        return {"type": "envmap", "bitmap": {"pixels": "environment.npy", "raw": True}, "to_world": {"matrix": turn.tolist()}}

    def sensor(self, camera: Camera, size: tuple[int, int]) -> Json:
        """The camera and its film; pixels are those of a box filter."""
        width, height = size
        film = {"type": "hdrfilm", "width": width, "height": height, "rfilter": {"type": "box"}, "pixel_format": "rgb"}
        told: Json = {"film": film | {"component_format": "float32"}, "sampler": {"type": "independent", "sample_count": 1}}
        told |= {"near_clip": 1e-3, "far_clip": 1e4}
        place = camera.world @ TURN
        if not isinstance(camera.projection, Perspective):
            scaled = place @ np.diag([camera.projection.ymag * width / height] * 2 + [1.0, 1.0])  # its x is [-1, 1], whatever the shape
            return {"type": "orthographic", "to_world": {"matrix": scaled.tolist()}} | told
        told |= {"fov_axis": "y", "fov": math.degrees(camera.projection.yfov), "to_world": {"matrix": place.tolist()}}
        if not camera.aperture:
            return {"type": "perspective"} | told
        return {"type": "thinlens", "aperture_radius": camera.aperture, "focus_distance": camera.focus or DEFAULT_FOCUS} | told


def punctual(light: Light) -> Json:
    """A light without a surface."""
    if light.range < math.inf:
        raise Untranslatable("the range of a light")
    power = colour(np.array(light.color) * light.intensity)
    place = {"matrix": (light.world @ TURN).tolist()}
    if light.kind == "point":
        return {"type": "point", "position": light.world[:3, 3].tolist(), "intensity": power}
    if light.kind == "directional":
        return {"type": "directional", "to_world": place, "irradiance": power}
    if light.outer_cone - light.inner_cone > 5e-3:
        raise Untranslatable("a spot light that fades: in the angle there, in its cosine squared here")
    inner = math.acos(min(1.0, max(math.cos(light.inner_cone), math.cos(light.outer_cone) + NARROWEST)))
    outer = light.outer_cone - (light.outer_cone - inner) / 3.0  # in so narrow a seam only its light counts: a third, there a half
    angles = {"cutoff_angle": math.degrees(outer), "beam_width": math.degrees(inner)}
    return {"type": "spot", "to_world": place, "intensity": power, **angles}


def _about_y(degrees: float) -> Floats:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[c, 0, s, 0], [0, 1, 0, 0], [-s, 0, c, 0], [0, 0, 0, 1.0]])


def _linear(pixels: NDArray[Any]) -> Floats:
    """sRGB of eight bits to linear (IEC 61966-2-1)."""
    v = pixels / 255.0
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


@dataclass
class Started:
    """What the other process said first."""

    version: str
    seconds: float


class Mitsuba:
    """`mitsuba_side.py`, running. Used as a context, at whose end it is gone."""

    def __init__(self, python: str, variant: str) -> None:
        """Raises MitsubaError where there is no such interpreter, or no Mitsuba in it."""
        try:
            self._process = subprocess.Popen(
                [python, str(SIDE), variant], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise MitsubaError(f"{python}: {error.strerror}") from None
        try:
            told = self._read()
        except MitsubaError:
            self.close()
            raise
        self.started = Started(told["version"], told["seconds"])

    def __enter__(self) -> Mitsuba:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, folder: Path) -> tuple[float, float]:
        """Seconds, and those of them in which the tree was built (0 where that is not known)."""
        told = self._ask(scene=str(folder))
        return float(told["seconds"]), float(told["tree_s"] or 0.0)

    def age(self) -> float:
        """Seconds since the process began."""
        return float(self._ask()["seconds"])

    def draw(self, spp: int, *, passes: int = 1, seed: int = 0) -> list[float]:
        """Seconds of each pass."""
        return [float(s) for s in self._ask(spp=spp, passes=passes, seed=seed)["seconds"]]

    def pictures(self, to: Path, spp: int, passes: int, seed: int = 0) -> NDArray[np.float32]:
        """float32[passes, height, width, 3]; `to` is a file (.npy) to be written."""
        self._ask(spp=spp, passes=passes, seed=seed, to=str(to))
        return np.asarray(np.load(to))

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None and self._process.stdout is not None and self._process.stderr is not None
        self._process.stdin.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()

    def _ask(self, **request: Any) -> Json:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Json:
        """The next answer; a process that says nothing for too long is ended."""
        assert self._process.stdout is not None and self._process.stderr is not None
        watch = threading.Timer(PATIENCE_S, self._process.kill)
        watch.start()
        line = self._process.stdout.readline()
        watch.cancel()
        if not line:
            self._process.wait()
            last = self._process.stderr.read().strip().splitlines()[-1:]
            raise MitsubaError(f"ended with {self._process.returncode}: {' '.join(last)}")
        told: Json = json.loads(line)
        if "error" in told:
            raise MitsubaError(told["error"])
        return told
