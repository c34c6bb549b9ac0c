"""Vectors, rays and bases as named tuples of Tensors: one Tensor a component, so that lanes stay lanes.

Every component has the lane shape (or broadcasts to it). Named tuples are pytrees, so a `Vec3` or a `Ray` can be loop state, a
branch's result or an argument of a jitted function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine import Tensor, maximum, where

Scalar = Any  # Tensor | float


class Vec3(NamedTuple):
    """Three components. Lengths in metres where it is a position, linear Rec.709 where it is a colour."""

    x: Any
    y: Any
    z: Any

    def __add__(self, other: Any) -> Vec3:
        o = _vec(other)
        return Vec3(self.x + o.x, self.y + o.y, self.z + o.z)

    def __sub__(self, other: Any) -> Vec3:
        o = _vec(other)
        return Vec3(self.x - o.x, self.y - o.y, self.z - o.z)

    def __mul__(self, other: Any) -> Vec3:
        o = _vec(other)
        return Vec3(self.x * o.x, self.y * o.y, self.z * o.z)

    def __rmul__(self, other: Any) -> Vec3:
        result: Vec3 = self * other
        return result

    def __truediv__(self, other: Any) -> Vec3:
        result: Vec3 = self * (1.0 / other)
        return result

    def __neg__(self) -> Vec3:
        return Vec3(-self.x, -self.y, -self.z)

    def max_component(self) -> Tensor:
        """The greatest component."""
        result: Tensor = maximum(maximum(self.x, self.y), self.z)
        return result

    def map(self, function: Any) -> Vec3:
        """The function of each component."""
        return Vec3(function(self.x), function(self.y), function(self.z))


def _vec(value: Any) -> Vec3:
    return value if isinstance(value, Vec3) else Vec3(value, value, value)


class Ray(NamedTuple):
    """Origin and direction (of any length: distances along a ray count in units of it)."""

    origin: Vec3
    direction: Vec3

    def at(self, t: Tensor) -> Vec3:
        """The point at distance t."""
        return self.origin + self.direction * t


class Basis(NamedTuple):
    """Three unit vectors at right angles; `n` is the third."""

    s: Vec3
    t: Vec3
    n: Vec3

    def to_world(self, v: Vec3) -> Vec3:
        """A vector given in this basis."""
        result: Vec3 = self.s * v.x + self.t * v.y + self.n * v.z
        return result

    def to_local(self, v: Vec3) -> Vec3:
        """A vector of the world in this basis."""
        return Vec3(dot(self.s, v), dot(self.t, v), dot(self.n, v))


def dot(a: Vec3, b: Vec3) -> Tensor:
    """Scalar product."""
    result: Tensor = a.x * b.x + a.y * b.y + a.z * b.z
    return result


def cross(a: Vec3, b: Vec3) -> Vec3:
    """Vector product."""
    return Vec3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


def normalize(v: Vec3) -> Vec3:
    """The unit vector (NaN for zero)."""
    result: Vec3 = v * (1.0 / dot(v, v).sqrt())
    return result


def select(condition: Tensor, a: Vec3, b: Any) -> Vec3:
    """a where the condition holds, b elsewhere."""
    o = _vec(b)
    return Vec3(where(condition, a.x, o.x), where(condition, a.y, o.y), where(condition, a.z, o.z))


def basis_around(n: Vec3) -> Basis:
    """A basis whose third vector is the unit vector n. Duff et al., "Building an Orthonormal Basis, Revisited", JCGT 2017."""
    sign = where(n.z < 0, -1.0, 1.0)
    a = -1.0 / (sign + n.z)
    b = n.x * n.y * a
    s = Vec3(1.0 + sign * n.x * n.x * a, sign * b, -sign * n.x)
    t = Vec3(b, sign + n.y * n.y * a, -n.y)
    return Basis(s, t, n)


def lesser(a: Any, b: Any) -> Tensor:
    """a if a < b else b: one instruction everywhere; b where either is NaN (unlike `minimum`, which passes NaN on)."""
    return where(a < b, a, b)


def greater(a: Any, b: Any) -> Tensor:
    """a if a > b else b: one instruction everywhere; b where either is NaN."""
    return where(a > b, a, b)
