"""What a texture shows at a place and from a distance is what the specification says, for every rule of sampling and on every device."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Tensor, jit
from renderer.scene.levels import level_sizes
from renderer.scene.model import Scene, Texture
from renderer.scene.model_texture import TextureRef
from renderer.scene.texture_tables import TextureTables, texture_tables
from renderer.shading.corner_rows import uv_per_metre
from renderer.shading.texture import RayCone, TextureFeatures, Textures, footprint, stretch, transformed
from tests.renderer.helpers.texturing import light, look, sampled, stored, textured
from tests.renderer.helpers.tracing import device

RANDOM = np.random.default_rng(5)
Floats = NDArray[np.float64]


def made_of(scene: Scene) -> TextureTables:
    made = texture_tables(scene)
    assert made is not None
    return made


def levels_of(made: TextureTables, number: int, sizes: list[tuple[int, int]]) -> list[Floats]:
    """The levels of a texture of 8 bits as they are stored, float64[h, w, 4] within [0, 1]."""
    table = made.textures.texels.numpy()
    place = int(made.textures.levels.numpy()[number, 0])
    levels = []
    for width, height in sizes:
        block = table[place : place + width * height].view(np.uint8).reshape(height, width, 4)
        levels.append(block / 255.0)
        place += width * height
    return levels


def noise(width: int, height: int, channels: int = 4) -> NDArray[np.uint8]:
    return RANDOM.integers(0, 256, (height, width, channels), np.uint8)


SIZES = [(1, 1), (1, 7), (5, 1), (4, 4), (13, 6), (16, 8)]
SAMPLERS = [
    ("linear", "linear", "linear"),
    ("nearest", "linear", None),
    ("linear", "nearest", "nearest"),
    ("nearest", "nearest", "linear"),
    ("linear", "linear", "nearest"),
    ("linear", "linear", None),
]
WRAPS = list(itertools.product(("repeat", "clamp", "mirror"), repeat=2))
RULES = [Texture(k, *SAMPLERS[k % 6], *WRAPS[k % 9]) for k in range(18)]  # type: ignore[arg-type]


@pytest.mark.parametrize("slot", ["metallic_roughness_texture", "base_color_texture"])
@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl", "opengl"])
def test_lanes_with_any_textures_see_what_the_specification_says(backend: str, slot: str) -> None:
    """Eighteen samplers over six sizes, a lane in ten without a texture, near and far, numbers and colours."""
    srgb = slot == "base_color_texture"
    pairs = [(noise(*SIZES[(k * 5 + k // 6) % 6]), rules) for k, rules in enumerate(RULES)]
    made = made_of(textured(*pairs, slot=slot))
    count = 400 if backend == "reference" else 4000
    which, u, v = RANDOM.integers(0, 18, count), *(RANDOM.uniform(-2.5, 3.5, count).astype(np.float32) for _ in range(2))
    lod = RANDOM.uniform(-2, 5, count)
    seen, number, wanted, steady = np.zeros(count), np.full(count, -1), np.ones((count, 4)), np.ones(count, bool)
    for k, (pixels, texture) in enumerate(pairs):
        lanes = np.flatnonzero(which == k)
        height, width = pixels.shape[:2]
        seen[lanes] = 2.0 ** lod[lanes] / math.sqrt(width * height)
        number[lanes] = made.number(TextureRef(k), slot)
        levels = levels_of(made, number[lanes[0]], level_sizes(width, height, texture.mip is not None))
        if srgb:
            levels = [np.concatenate([light(level[..., :3]), level[..., 3:]], 2) for level in levels]
        at = u[lanes].astype(np.float64), v[lanes].astype(np.float64), lod[lanes]
        wanted[lanes] = sampled(levels, *at, texture)
        for shift in itertools.product((-1e-6, 1e-6), repeat=3):  # where the answer jumps, rounding decides
            near = sampled(levels, *(a + b for a, b in zip(at, shift)), texture)
            steady[lanes] &= np.abs(near - wanted[lanes]).max(1) < 1e-3
    assert steady.mean() > 0.98
    none = RANDOM.random(count) < 0.1
    number[none], wanted[none] = -1, 1.0
    found = look(made.textures, number, u, v, seen, backend, srgb=srgb)
    np.testing.assert_allclose(found[steady], wanted[steady], atol=6e-5 if srgb else 2e-5)


@pytest.mark.parametrize("wrap", ["repeat", "clamp", "mirror"])
def test_a_scene_of_one_way_of_wrapping_has_that_way(wrap: Any) -> None:
    """The kernel has no code for the others, and reads nothing beyond the picture: not far off, and not where uv is no number."""
    texture = Texture(0, wrap_s=wrap, wrap_t=wrap)
    made = made_of(textured((noise(5, 3), texture)))
    assert made.textures.features == TextureFeatures(**{"repeat": False, wrap: True})
    u = np.array([0.0, 1.0, -1.0, 2.0, -1e-9, 0.99999994, 3.7, -123.4, 1e9, -1e30, 3e38], np.float32)
    levels = levels_of(made, 0, level_sizes(5, 3))
    near = u[np.abs(u) < 1e3].astype(np.float64)
    wanted = sampled(levels, near, -near, np.zeros(len(near)), texture)
    found = look(made.textures, 0, u, -u)
    np.testing.assert_allclose(found[np.abs(u) < 1e3], wanted, atol=1e-4)
    assert ((found >= 0) & (found <= 1)).all()
    odd = look(made.textures, 0, [np.nan, np.inf, -np.inf, np.nan], [0.3, np.nan, np.inf, 0.2], [np.nan, np.inf, 0.0, -1.0])
    assert ((odd >= 0) & (odd <= 1)).all()


def test_a_place_far_out_is_exact_while_numbers_are() -> None:
    made = made_of(textured((noise(4, 4), Texture(0, "nearest", "nearest", None))))
    home = look(made.textures, 0, [0.125, 0.625], [0.375, 0.875])
    for away in (2.0**10, -(2.0**19)):
        np.testing.assert_array_equal(look(made.textures, 0, np.array([0.125, 0.625]) + away, np.array([0.375, 0.875]) - away), home)


def test_the_nearest_texel_is_shown_as_it_is() -> None:
    pixels = noise(9, 6)
    made = made_of(textured((pixels, Texture(0, "nearest", "nearest", None, "clamp", "clamp"))))
    row, column = np.mgrid[:6, :9].reshape(2, -1)
    for inside in (0.02, 0.5, 0.98):
        found = look(made.textures, 0, (column + inside) / 9, (row + inside) / 6, 0.0)
        np.testing.assert_array_equal(np.rint(found * 255), pixels.reshape(-1, 4))
        np.testing.assert_allclose(found * 255, pixels.reshape(-1, 4), rtol=2e-7)


def test_every_byte_through_the_srgb_curve_and_back_is_itself() -> None:
    """Values are within 5e-5 of the exact curve's, and white is not brighter than 1."""
    ramp = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, 2)
    made = made_of(textured((ramp, Texture(0)), slot="base_color_texture"))
    row, column = np.mgrid[:16, :16].reshape(2, -1)
    found = look(made.textures, 0, (column + 0.5) / 16, (row + 0.5) / 16, srgb=True, channels="rgb")
    np.testing.assert_allclose(found[:, 1], light(np.arange(256) / 255), rtol=5e-5)
    np.testing.assert_array_equal(np.rint(stored(found) * 255)[:, 0], np.arange(256))
    assert found.max() <= 1.0
    assert (np.diff(found[:, 2]) > 0).all()


@pytest.mark.parametrize("slot", ["base_color_texture", "metallic_roughness_texture"])
def test_a_chessboard_is_grey_from_far_off(slot: str) -> None:
    """Half the light: of colours the byte in the middle is 188."""
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)[..., None].repeat(3, 2)
    made = made_of(textured((board, Texture(0)), slot=slot))
    u, v = RANDOM.random((2, 100))
    for seen in (1 / 16, 0.3, 1.0, 100.0):
        found = look(made.textures, 0, u, v, seen, srgb=slot == "base_color_texture", channels="rgb")
        np.testing.assert_allclose(found, 0.5, atol=0.005)
    near = look(made.textures, 0, (np.arange(64) + 0.5) / 64, 0.5 / 64, 1 / 64, channels="g")
    np.testing.assert_array_equal(near[:, 0], np.arange(64) % 2)


def test_a_channel_is_the_same_alone_and_among_others() -> None:
    made = made_of(textured((noise(8, 8), Texture(0)), slot="base_color_texture"))
    u, v = RANDOM.random((2, 50))
    every = look(made.textures, 0, u, v, 0.2, srgb=True)
    for channels in ("a", "gb", "bgr"):
        wanted = every[:, ["rgba".index(c) for c in channels]]
        np.testing.assert_allclose(look(made.textures, 0, u, v, 0.2, srgb=True, channels=channels), wanted, rtol=1e-6)


def graded(width: int, height: int) -> Textures:
    """A texture whose levels show their number, 16 for one."""
    sizes = level_sizes(width, height)
    rows, texels = [], []
    for k, (w, h) in enumerate(sizes):
        rows.append((len(texels), w, h, len(sizes) - 1))
        texels += [k * 16] * (w * h)
    return Textures(Tensor(np.array(texels, np.uint32)), Tensor(np.array(rows, np.int32)), TextureFeatures())


def test_the_level_is_that_of_the_distance_between_neighbouring_pixels() -> None:
    """A tilted floor under a camera: where the rays of the next pixels meet it, in texels, by plain geometry; the farther of the two."""
    height, yfov = 720, math.radians(40)
    corners = np.array([[-40, 0, -80], [40, 0, -80], [-40, 0, 0]], np.float64)
    uv = np.array([[0, 0], [4, 0], [0, 4]], np.float64)
    eye = np.array([0.3, 2.0, 1.0])

    def meets(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
        """uv, distance and cosine of pixels."""
        scale = 2 * math.tan(yfov / 2) / height
        d = np.stack([x * scale, -y * scale, -np.ones_like(x)], -1)
        d /= np.linalg.norm(d, axis=-1, keepdims=True)
        t = -eye[1] / d[..., 1]
        at = eye + d * t[..., None]
        return np.stack([(at[..., 0] + 40) / 20, (at[..., 2] + 80) / 20], -1), t, -d[..., 1]

    x, y = RANDOM.uniform(-150, 150, 200), RANDOM.uniform(40, 300, 200)
    place, t, cosine = meets(x, y)
    right, down = meets(x + 1, y)[0] - place, meets(x, y + 1)[0] - place
    wanted = np.log2(np.maximum(np.linalg.norm(right, axis=1), np.linalg.norm(down, axis=1)) * 512)
    cone = RayCone(0.0, 2 * math.tan(yfov / 2) / height)
    per_metre = uv_per_metre(uv[None], corners[None])
    np.testing.assert_allclose(per_metre, 1 / 20, rtol=1e-6)
    lanes = [Tensor(a.astype(np.float32)) for a in (cone.after(t).width, cosine)]
    seen = jit(lambda width, cosine: footprint(width, cosine, float(per_metre[0])), device=device())(*lanes).numpy()
    found = look(graded(512, 512), 0, place[:, 0], place[:, 1], seen, channels="r")[:, 0] * 255 / 16
    assert wanted.min() < 1 and wanted.max() > 3
    np.testing.assert_allclose(found, np.maximum(wanted, 0), atol=0.15)


def test_the_level_of_an_oblong_picture_is_by_its_texels() -> None:
    """0.5 log2(W H) more than log2 of the footprint, and no more than there are levels."""
    seen = 2.0 ** np.arange(-9, 4)
    found = look(graded(256, 64), 0, np.full(13, 0.3), 0.3, seen, channels="r")[:, 0]
    np.testing.assert_allclose(found * 255 / 16, np.clip(7 + np.arange(-9, 4), 0, 8), atol=1e-4)


def test_triangles_without_an_area_are_seen_at_their_finest() -> None:
    flat = np.zeros((1, 3, 3))
    assert uv_per_metre(np.array([[[0, 0], [1, 0], [0, 1]]]), flat)[0] == 0
    assert uv_per_metre(np.zeros((1, 3, 2)), np.eye(3)[None])[0] == 0
    assert uv_per_metre(np.full((1, 3, 2), np.nan), np.eye(3)[None])[0] == 0


def normals(made: TextureTables, number: Any, u: Any, v: Any, seen: float, scale: float) -> Floats:
    def run(textures: Textures, number: Tensor, u: Tensor, v: Tensor) -> Any:
        return tuple(textures.normal(number, (u, v), u * 0 + seen, scale))

    lanes = [Tensor(np.asarray(a, t)) for a, t in ((number, np.int32), (u, np.float32), (v, np.float32))]
    return np.stack([c.numpy() for c in jit(run, device=device())(made.textures, *lanes)], 1).astype(np.float64)


def test_normals_have_unit_length_near_and_far() -> None:
    tilted = np.zeros((8, 8, 3), np.uint8)
    tilted[:, ::2], tilted[:, 1::2] = (204, 128, 230), (51, 128, 230)  # 0.6 to the right and to the left, 0.8 up
    made = made_of(textured((tilted, Texture(0)), slot="normal_texture"))
    u, v = (np.arange(8) + 0.5) / 8, np.full(8, 0.5)
    near = normals(made, np.zeros(8), u, v, 0.0, 1.0)
    np.testing.assert_allclose(near[:, 0], np.where(np.arange(8) % 2, -0.6, 0.6), atol=0.005)
    np.testing.assert_allclose(near[:, 2], 0.8, atol=0.005)
    far = normals(made, np.zeros(8), u, v, 1.0, 1.0)
    np.testing.assert_allclose(far, np.broadcast_to([0, 0, 1], (8, 3)), atol=0.006)
    doubled = normals(made, np.zeros(8), u, v, 0.0, 2.0)
    np.testing.assert_allclose(doubled[0] / doubled[0, 2], [1.2 / 0.8, 0, 1], atol=0.012)
    for found in (near, far, doubled):
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(normals(made, np.full(8, -1), u, v, 0.1, 1.0), np.broadcast_to([0, 0, 1], (8, 3)))


def test_coordinates_are_scaled_then_turned_then_moved() -> None:
    """KHR_texture_transform's own matrices, and what they do to an area."""
    ref = TextureRef(0, offset=(0.25, -0.5), rotation=0.7, scale=(3.0, -0.5))
    translation = np.array([[1, 0, 0.25], [0, 1, -0.5], [0, 0, 1]])
    c, s = math.cos(0.7), math.sin(0.7)
    rotation = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
    whole = translation @ rotation @ np.diag([3.0, -0.5, 1])
    uv = RANDOM.uniform(-1, 2, (20, 2)).astype(np.float32)
    row = [float(x) for x in ref.matrix.reshape(-1)]

    def run(u: Tensor, v: Tensor) -> Any:
        return (*transformed(row, (u, v)), stretch([Tensor(x) for x in row]) + u * 0)

    found = jit(run, device=device())(Tensor(uv[:, 0]), Tensor(uv[:, 1]))
    wanted = whole @ np.concatenate([uv, np.ones((20, 1))], 1).T
    np.testing.assert_allclose(np.stack([f.numpy() for f in found[:2]]), wanted[:2], atol=1e-5)
    np.testing.assert_allclose(found[2].numpy(), math.sqrt(1.5), rtol=1e-6)
