"""Tone mappers: each is what was published, stays within the screen's range, and is chosen by a number that compiles nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Jitted, Tensor, jit
from renderer.pipeline.tonemap import TONEMAPPERS, number_of, rgba8
from renderer.vec import Vec3
from tests.renderer.helpers.tracing import device

Colours = NDArray[np.float64]


def _convert(colour: Tensor, exposure: float, tonemapper: int) -> Tensor:
    return rgba8(Vec3(*(colour[:, k] for k in range(3))), exposure, tonemapper)


@lru_cache(None)
def _converting() -> Jitted:
    made: Jitted = jit(_convert, device=device())
    return made


def shown(values: Any, tonemapper: str, exposure: float = 1.0) -> NDArray[np.int64]:
    """Bytes int64[n, 3] of linear colours float[n, 3]."""
    colours = Tensor(np.asarray(values, np.float32).reshape(-1, 3), dims=("colours",))
    packed: NDArray[np.uint32] = _converting()(colours, exposure, number_of(tonemapper)).numpy()
    return packed.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].astype(np.int64)


def encoded(y: Colours) -> Colours:
    """sRGB's transfer function, in 1/255."""
    y = np.clip(y, 0, 1)
    return np.where(y <= 0.0031308, 12.92 * y, 1.055 * y ** (1 / 2.4) - 0.055) * 255


# ---- the curves, written down a second time ----


def filmic(c: Colours) -> Colours:
    return (c * (2.51 * c + 0.03)) / (c * (2.43 * c + 0.59) + 0.14)


def reinhard(c: Colours) -> Colours:
    luminance = c @ [0.2126, 0.7152, 0.0722]
    return c / (1 + luminance[:, None])


def agx(c: Colours) -> Colours:
    inset = np.array(
        [
            [0.842479062253094, 0.0423282422610123, 0.0423756549057051],
            [0.0784335999999992, 0.878468636469772, 0.0784336],
            [0.0792237451477643, 0.0791661274605434, 0.879142973793104],
        ]
    )
    outset = np.array(
        [
            [1.19687900512017, -0.0528968517574562, -0.0529716355144438],
            [-0.0980208811401368, 1.15190312990417, -0.0980434501171241],
            [-0.0990297440797205, -0.0989611768448433, 1.15107367264116],
        ]
    )
    stops = np.clip(np.log2(np.maximum(c @ inset, 1e-10)), -12.47393, 4.026069)
    x = (stops + 12.47393) / (4.026069 + 12.47393)
    return np.clip(np.polyval([15.5, -40.14, 31.96, -6.868, 0.4298, 0.1191, -0.00232], x) @ outset, 0, 1) ** 2.2


def khronos_neutral(colours: Colours) -> Colours:
    result = []
    for c in colours:
        least = c.min()
        c = c - (least - 6.25 * least**2 if least < 0.08 else 0.04)
        peak = c.max()
        if peak >= 0.76:
            lowered = 1 - 0.24**2 / (peak + 0.24 - 0.76)
            fade = 1 - 1 / (0.15 * (peak - lowered) + 1)
            c = c * lowered / peak * (1 - fade) + lowered * fade
        result.append(c)
    return np.array(result)


PUBLISHED = {"filmic": filmic, "linear": lambda c: c, "reinhard": reinhard, "agx": agx, "khronos neutral": khronos_neutral}


def test_there_are_these() -> None:
    assert list(TONEMAPPERS) == list(PUBLISHED)


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_each_is_what_was_published(name: str) -> None:
    random = np.random.default_rng(1)
    colours = np.exp2(random.uniform(-12, 8, (4000, 3)))
    colours[:500] = colours[:500, :1]  # greys
    colours[500:600, 1] = 0
    want = encoded(PUBLISHED[name](np.asarray(colours.astype(np.float32), np.float64)))
    assert np.abs(shown(colours, name) - want).max() <= 0.53


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_brighter_greys_are_not_darker_and_stay_grey(name: str) -> None:
    x = np.concatenate([[0.0], np.geomspace(1e-5, 1e9, 2000)])
    got = shown(np.repeat(x[:, None], 3, 1), name)
    assert (np.diff(got, axis=0) >= 0).all()
    assert (np.ptp(got, axis=1) <= 1).all()
    assert got[0].max() == 0 and got[-1].min() >= 250


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_what_no_number_can_hold_is_shown_as_bright(name: str) -> None:
    assert shown([3e38] * 3, name, 10.0).min() >= 250


def test_linear_shows_what_is_within_the_screens_range_as_it_is() -> None:
    c = np.random.default_rng(2).random((500, 3))
    assert np.abs(shown(c, "linear") - encoded(c)).max() <= 0.51
    assert (shown(c + 1, "linear") == 255).all()


def test_reinhard_keeps_hues() -> None:
    c = np.random.default_rng(3).uniform(0.05, 0.7, (500, 3))
    linear = np.interp(shown(c, "reinhard"), encoded(np.linspace(0, 1, 4096)), np.linspace(0, 1, 4096))
    ratio = linear / c
    assert (np.ptp(ratio, axis=1) < 0.06 * ratio.mean(1)).all()


def test_agx_puts_middle_grey_in_the_middle_and_lets_bright_colours_fade() -> None:
    assert abs(int(shown([0.18] * 3, "agx")[0, 0]) - 127) <= 2
    dim, bright = shown([[0.2, 0.002, 0.002], [200, 2, 2]], "agx")
    assert dim[0] > 2 * dim[1] and bright.min() > 200


def test_khronos_neutral_only_takes_off_the_reflection_of_what_is_lit_normally() -> None:
    c = np.random.default_rng(4).uniform(0.1, 0.79, (500, 3))
    assert np.abs(shown(c, "khronos neutral") - encoded(c - 0.04)).max() <= 0.51


def test_choosing_another_compiles_nothing() -> None:
    for name in TONEMAPPERS:
        shown([0.5, 0.5, 0.5], name)
    assert len(_converting().stats.compiles) == 1


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is no tone mapper 'aces'; there are filmic, linear, reinhard, agx, khronos neutral"):
        number_of("aces")
