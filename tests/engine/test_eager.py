"""Eager mode's operations against plain NumPy. Its control flow is in test_eager_control.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from engine.frontend import functions as f
from engine.frontend.eager import eager
from engine.frontend.eager_ops import LaneError
from engine.frontend.tensor import Tensor, is_eager
from engine.frontend.trace import TraceError
from engine.graph.dtypes import ALL
from engine.graph.uop import Op, dim

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def in_eager_mode() -> Iterator[None]:
    with eager():
        yield


def same(found: Tensor, wanted: Any) -> None:
    """Equal in dtype, shape and every element (NaN equal to NaN)."""
    array, wanted = found.numpy(), np.asarray(wanted)
    assert array.dtype == wanted.dtype == found.dtype.numpy
    assert array.shape == wanted.shape == found.shape
    np.testing.assert_array_equal(array, wanted)


def numbers(*shape: int, dtype: str = "float32", least: int = -9, most: int = 9) -> Array:
    """Whole numbers, the same at each call."""
    return np.random.default_rng(len(shape)).integers(least, most, shape, endpoint=True).astype(dtype)


def test_the_mode_ends_with_its_block() -> None:
    assert is_eager()
    with eager():
        inner = Tensor([1, 2]) + 1
    assert is_eager()
    assert inner.uop.op == Op.BUFFER
    same(inner * 2, np.array([4, 6], np.int32))


def test_values_are_there_at_once_and_may_be_branched_on() -> None:
    x = Tensor([3.0, 4.0])
    total = (x * x).sum()
    assert total.uop.op == Op.BUFFER
    assert total.item() == 25.0 and float(total) == 25.0 and int(total) == 25 and bool(total > 24)
    assert [1, 2, 3][Tensor(1)] == 2
    assert Tensor(7).numpy() == 7


def test_a_graph_recorded_before_is_computed_from_its_leaves() -> None:
    from engine.frontend.tensor import set_eager

    evaluate = set_eager(None)
    lazy = Tensor([1.0, 2.0]).exp() * f.arange(2).float()
    set_eager(evaluate)
    assert lazy.uop.op == Op.MUL
    same(lazy + 0.0, np.array([0, np.exp(2.0)], np.float32))
    same(lazy.copy(), np.array([0, np.exp(2.0)], np.float32))


# ---- elementwise ----

BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "add": (lambda a, b: a + b, np.add),
    "subtract": (lambda a, b: a - b, np.subtract),
    "multiply": (lambda a, b: a * b, np.multiply),
    "maximum": (f.maximum, np.maximum),
    "minimum": (f.minimum, np.minimum),
    "less": (lambda a, b: a < b, np.less),
    "less_equal": (lambda a, b: a <= b, np.less_equal),
    "greater": (lambda a, b: a > b, np.greater),
    "greater_equal": (lambda a, b: a >= b, np.greater_equal),
    "equal": (lambda a, b: a == b, np.equal),
    "not_equal": (lambda a, b: a != b, np.not_equal),
}


@pytest.mark.parametrize("dtype", [d for d in ALL if d != "bool"])
@pytest.mark.parametrize("name", BINARY)
def test_binary_operations_of_every_type(name: str, dtype: str) -> None:
    ours, numpys = BINARY[name]
    a, b = numbers(4, 5, dtype=dtype), numbers(5, dtype=dtype)
    same(ours(Tensor(a), Tensor(b)), numpys(a, b))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_float_functions(dtype: str) -> None:
    x = np.linspace(0.1, 0.9, 7).astype(dtype)
    for name in ("sqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tan", "arcsin", "arccos", "arctan"):
        wanted = getattr(np, name)(x.astype(np.float64)).astype(dtype)
        np.testing.assert_allclose(getattr(Tensor(x), name)().numpy(), wanted, rtol=np.finfo(dtype).eps)
    y = np.array([-1.5, -0.5, 0.5, 1.5, 2.5, np.inf, np.nan]).astype(dtype)
    for name in ("floor", "ceil", "trunc", "abs", "square", "isnan", "isinf", "isfinite", "sign"):
        same(getattr(Tensor(y), name)(), getattr(np, name)(y).astype(bool if name.startswith("is") else dtype))
    same(Tensor(y).round(), np.rint(y))
    same(Tensor(x).arctan2(Tensor(y)), np.arctan2(x.astype(np.float64), y.astype(np.float64)).astype(dtype))
    same(Tensor(x) / Tensor(y), x / y)
    same(Tensor(y) // Tensor(x), np.floor(y / x))
    same(1 / Tensor(x), (1 / x).astype(dtype))
    same(Tensor(y).clip(-1, 1), np.clip(y, -1, 1))


def test_whole_number_functions() -> None:
    a, b = np.array([7, -7, 7, -7, 5], np.int32), np.array([3, 3, -3, -3, 0], np.int32)
    same(Tensor(a) // Tensor(b), np.array([2, -3, -3, 2, 0], np.int32))
    same(Tensor(a) % Tensor(b), np.array([1, 2, -2, -1, 0], np.int32))
    same(Tensor(a) & Tensor(b), a & b)
    same(Tensor(a) | Tensor(b), a | b)
    same(Tensor(a) ^ Tensor(b), a ^ b)
    same(~Tensor(a), ~a)
    same(-Tensor(a), -a)
    same(Tensor(a) << 3, a << 3)
    same(Tensor(a) >> 1, a >> 1)
    same(Tensor(a) << 40, np.zeros(5, np.int32))
    same(Tensor(a) >> 40, a >> 31)
    same(Tensor(a) ** 3, a**3)
    same(Tensor(a) / Tensor(np.array([2], np.int32)), a.astype(np.float32) / np.float32(2))
    same(~Tensor([True, False]), np.array([False, True]))
    same(Tensor([True, False]) + Tensor([True, True]), np.array([True, True]))


def test_select_cast_bitcast_fma() -> None:
    x, c = np.array([1.5, -2.5, np.nan, 3e9], np.float32), np.array([True, False, True, False])
    same(f.where(Tensor(c), Tensor(x), 0), np.where(c, x, np.float32(0)))
    same(Tensor(x).cast("int32"), np.array([1, -2, 0, 2**31 - 1], np.int32))
    same(Tensor(x).cast("uint8"), np.array([1, 0, 0, 255], np.uint8))
    same(Tensor(x).cast("bool"), x != 0)
    same(Tensor(x).bitcast("int32"), x.view(np.int32))
    same(Tensor(x).fma(2, 1), x * 2 + 1)
    same(Tensor(c).cast("float16"), c.astype(np.float16))


def test_types_of_results() -> None:
    i, g = Tensor([1], "int8"), Tensor([1], "float16")
    assert (i + 1).dtype.name == "int8" and (i + 1.5).dtype.name == "float32" and (i + g).dtype.name == "float16"
    assert (i / i).dtype.name == "float32" and (i < g).dtype.name == "bool" and (g * 2).dtype.name == "float16"


# ---- movement ----


def test_movement() -> None:
    x = numbers(2, 3, 4, dtype="int32")
    t = Tensor(x)
    same(t.reshape(6, -1), x.reshape(6, -1))
    same(t.flatten(), x.reshape(-1))
    same(t.permute(2, 0, 1), x.transpose(2, 0, 1))
    same(t.T, x.T)
    same(t.swapaxes(0, 2), x.swapaxes(0, 2))
    same(t.expand_dims(1), x[:, None])
    same(t.expand_dims(1).squeeze(1), x)
    same(t[:1].broadcast_to((5, 2, 3, 4)), np.broadcast_to(x[:1], (5, 2, 3, 4)))
    same(t.pad(((1, 0), (0, 2), (0, 0))), np.pad(x, ((1, 0), (0, 2), (0, 0))))
    same(t.pad(((1, 0), (0, 2), (3, 1)), 7), np.pad(x, ((1, 0), (0, 2), (3, 1)), constant_values=7))
    same(t.flip(), np.flip(x))
    same(t.flip(1), np.flip(x, 1))
    same(f.stack([t, t + 1, 5], axis=1), np.stack([x, x + 1, np.full_like(x, 5)], axis=1))
    same(f.concatenate([t, t[:, :1]], axis=1), np.concatenate([x, x[:, :1]], axis=1))
    same(t.contiguous(), x)
    same(Tensor(3).broadcast_to((2, 2)), np.full((2, 2), 3, np.int32))


@pytest.mark.parametrize(
    "key",
    [
        1, -1, slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(6, 1, -2), slice(3, 3), (slice(None), 2),
        (0, 3), (..., 1), (None, 1), (slice(2, 5), None, slice(None, None, -3)), (..., None),
    ],
)  # fmt: skip
def test_slices(key: Any) -> None:
    x = numbers(7, 5, dtype="int32")
    same(Tensor(x)[key], x[key])


def test_what_makes_tensors() -> None:
    same(f.arange(5), np.arange(5, dtype=np.int32))
    same(f.arange(3, "float32"), np.arange(3, dtype=np.float32))
    same(f.zeros((2, 3)), np.zeros((2, 3), np.float32))
    same(f.ones((3,), "bool"), np.ones(3, bool))
    same(f.full((2,), 7), np.full(2, 7, np.int32))


# ---- reductions ----


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(axis: Any, keepdims: bool) -> None:
    x = numbers(3, 4, 5)
    t = Tensor(x)
    for name in ("sum", "max", "min", "mean", "prod"):
        same(getattr(t, name)(axis, keepdims), np.asarray(getattr(x, name)(axis=axis, keepdims=keepdims)))
    same((t > 8).any(axis, keepdims), np.asarray((x > 8).any(axis=axis, keepdims=keepdims)))
    same((t > -9).all(axis, keepdims), np.asarray((x > -9).all(axis=axis, keepdims=keepdims)))
    if not isinstance(axis, tuple):
        same(t.argmin(axis, keepdims), np.asarray(x.argmin(axis=axis, keepdims=keepdims), np.int32))
        same(t.argmax(axis, keepdims), np.asarray(x.argmax(axis=axis, keepdims=keepdims), np.int32))


def test_reductions_of_small_integers_are_wide_and_of_nothing_are_neutral() -> None:
    same(Tensor(np.full(300, 100, np.int8)).sum(), np.int32(30000))
    same(Tensor(np.full(300, 100, np.uint8)).sum(), np.uint32(30000))
    same(Tensor(np.ones(300, bool)).sum(), np.int32(300))
    empty = Tensor(np.zeros((0, 2), np.float32))
    same(empty.sum(0), np.zeros(2, np.float32))
    same((empty > 0).all(0), np.ones(2, bool))
    same((empty > 0).any(0), np.zeros(2, bool))


def test_extrema_with_nan() -> None:
    x = np.array([1, np.nan, 3, np.nan], np.float32)
    same(Tensor(x).max(), np.float32(np.nan))
    same(Tensor(x).argmax(), np.int32(1))
    same(Tensor(x).argmin(), np.int32(1))


@pytest.mark.parametrize(("a", "b"), [((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((5, 1, 3, 4), (2, 4, 2))])
def test_matrix_products(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = numbers(*a), numbers(*b)
    same(Tensor(x) @ Tensor(y), np.asarray(x @ y))


# ---- gather, scatter, assign ----


def test_gather() -> None:
    x = numbers(5, 6, 4, dtype="int32")
    i, j = np.array([[0, 4], [2, 2]], np.int64), np.array([5, 0], np.uint8)
    t, a, b = Tensor(x), Tensor(i), Tensor(j)
    same(t[a], x[i])
    same(t[:, b], x[:, j])
    same(t[a, b], x[i, j])
    same(t[1, b], x[1, j])
    same(t[a, :, 1], x[i, :, 1])
    same(t[a, 1:3, b % 4], x[i, 1:3, j % 4])
    same(t[[1, 0]], x[[1, 0]])
    same(t[:, None, b], x[:, None, j])
    same(t[Tensor(3)], x[3])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
def test_scatter_takes_its_writes_in_row_order(dtype: str) -> None:
    x, i = numbers(4, 2, dtype=dtype), np.array([1, 3, 1, 1], np.int32)
    v = numbers(4, 2, dtype=dtype, most=5)
    for mode in ("set", "add", "min", "max"):
        wanted = x.copy()
        for k, at in enumerate(i):
            old = wanted[at].copy()
            wanted[at] = {"set": v[k], "add": old + v[k], "min": np.minimum(old, v[k]), "max": np.maximum(old, v[k])}[mode]
        same(Tensor(x).scatter(Tensor(i), Tensor(v), mode), wanted)
    wanted = x.copy()
    wanted[[0, 2], [1, 0]] = 7
    same(Tensor(x).scatter((Tensor([0, 2]), Tensor([1, 0])), 7), wanted)


def test_assign_writes_the_memory_of_the_tensor() -> None:
    film = Tensor(np.zeros(3, np.float32))
    before = film + 1
    result = film.assign(film + Tensor([1.0, 2.0, 3.0]))
    assert result is film
    film.assign(film * 2)
    same(film, np.array([2, 4, 6], np.float32))
    same(before, np.ones(3, np.float32))


def test_indices_out_of_bounds_name_the_place() -> None:
    table = Tensor(np.arange(4, dtype=np.int32))
    with pytest.raises(LaneError, match=r"test_eager\.py:\d+: in lane \(2,\): index 4 is outside a size of 4") as caught:
        table[Tensor([0, 3, 4])]
    assert caught.value.lane == (2,) and isinstance(caught.value, IndexError)
    with pytest.raises(LaneError, match=r"in lane \(1, 0\): index -1 is outside a size of 4"):
        table[Tensor([[0], [-1]])]
    with pytest.raises(LaneError, match=r"in lane \(0,\): index 9 is outside a size of 4"):
        table.scatter(Tensor([9]), 0)


# ---- named sizes ----


def test_named_sizes_take_their_values_from_memory() -> None:
    x = numbers(3, 4)
    t = Tensor(x, dims=("height", "width"))
    assert t.shape == (dim("height"), dim("width"))
    doubled = t * 2
    assert doubled.shape == t.shape
    np.testing.assert_array_equal(doubled.numpy(), x * 2)
    rows = f.arange(t.shape[0]).reshape(-1, 1) + f.arange(t.shape[1])
    np.testing.assert_array_equal(rows.numpy(), np.add.outer(np.arange(3), np.arange(4)))
    np.testing.assert_array_equal(t.mean().numpy(), x.mean())
    np.testing.assert_array_equal(t.pad(((1, 1), (0, 0)))[1:-1].numpy(), x)
    np.testing.assert_array_equal((t.flatten() + t.reshape(-1)).numpy(), 2 * x.reshape(-1))
    np.testing.assert_array_equal(t.argmax(0).numpy(), x.argmax(0))


def test_a_named_size_may_be_given_and_must_agree() -> None:
    with pytest.raises(TraceError, match=r"test_eager\.py:\d+: the size 'n' is not known yet; give it: eager\(dims=\{'n': \.\.\.\}\)"):
        f.arange(dim("n"))
    with eager(dims={"n": 3}):
        np.testing.assert_array_equal(f.arange(dim("n")).numpy(), np.arange(3))
        with pytest.raises(TraceError, match="the size 'n' is 4 here and was 3 before"):
            Tensor(np.zeros(4), dims=("n",)) + 1
