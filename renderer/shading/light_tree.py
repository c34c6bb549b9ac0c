"""Choosing among many emissive triangles by where the light is wanted: a walk down a tree.

Chosen by power alone, most of many lamps are too far away to matter, or shine elsewhere. Here lights are the leaves of a binary tree
(`scene.light_tree` builds it), and from the root on one of two children is chosen by what it may be expected to send to the receiver:
Conty Estevez and Kulla, "Importance Sampling of Many Lights with Adaptive Tree Splitting" (HPG 2018), without the splitting. They weigh
children by a bound of what any light within a box and a cone of normals could send. Here nodes are weighed by an estimate of what their
lights do send, from the means and variances of place and normal (`_expected`): on the same trees a sample varies a half to a tenth as
much, and that at fewer operations. The estimate is never 0, so whatever lights a place can be chosen for it.

What the tree yields beside a light is its *favour*: how much likelier the light is than it would be by power. Densities in the tables
are those by power, so a favour multiplies them, and nothing else needs to know that there is a tree. A hit on an emitter finds its favour
by walking from the leaf to the root, past the same pairs of children, for the place that the ray came from.

Pairs of children stand in two tables, rows of 16 and 8 floats, since no longer ones are loaded side by side (`llvm_rows`). The first has
of each child the mean place of its power, half the variance of that (the mean squared distance from it), the mean normal, and a quarter
of the variance of the normals. The second has of each child 0.5 where it shines from one side and 1 where from both, its share of the
pair's power, the link to it (a pair, or -1 - a light), and the place of the pair in its own parent (-1: none, it is the root's). A *place*
in the tree is twice the number of a pair, plus 1 for the second child.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from engine import Tensor, where, while_loop
from renderer.vec import Vec3, dot, greater

NODES_ROW, LINKS_ROW = 16, 8
_LEAST = 1e-6  # of the product of two cosines
_NARROW = 2.0**-10  # an interval within which a random number of 24 bits has too few left for what follows


class Receiver(NamedTuple):
    """Where light is wanted: a point, and the unit normal about which the surface there scatters."""

    point: Vec3
    normal: Vec3


class _Weighed(NamedTuple):
    """A pair of children as a receiver sees it: what is expected of each for its power; that times its share of the pair's power, and the
    sum of these."""

    expected: tuple[Tensor, Tensor]
    weights: tuple[Tensor, Tensor]
    total: Tensor


@dataclass(frozen=True)
class LightTree:
    """`nodes`, `links`: float32[lights - 1, NODES_ROW and LINKS_ROW]; `place`: int32[lights], of each light's leaf; `light`:
    int32[triangles], the number among the lights of each triangle of the scene (of one that does not shine: any). In a scene of placings
    it is the number among those of its placing, and `first`, int32[placings], that of the placing's first.

    `root`: 0, the root's pair; data, for if kernels knew it Mesa 22.3 would draw something else on processors: it then puts what is done to
    the link at the head of a turn at the end of the one before, keeps no link as such, and takes the last one of lanes that have left the
    loop from a turn that they have no part in.
    """

    nodes: Tensor
    links: Tensor
    place: Tensor
    light: Tensor
    first: Tensor | None = None
    root: Any = 0

    def choose(self, at: Receiver, both: bool, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """A light for a receiver, and its favour. both: light may reach the receiver from behind. u, v: random numbers in [0, 1).

        Each choice divides the interval that `u` is in, which begins at `low`; `v` takes over when it has become narrow.
        """

        def step(link: Tensor, u: Tensor, v: Tensor, low: Tensor, width: Tensor, favour: Tensor) -> Any:
            links = self._links(link)
            pair = self._weighed(link, links, at, both)
            scale = 1.0 / pair.total
            part = width * scale
            middle = low + pair.weights[0] * part
            first = u < middle
            width = where(first, *pair.weights) * part
            narrow = (width < _NARROW) & (v >= 0)
            following = where(first, links[2].bitcast("int32"), links[6].bitcast("int32"))
            low = where(narrow, 0.0, where(first, low, middle))
            more = favour * where(first, *pair.expected) * scale
            return following, where(narrow, v, u), where(narrow, -1.0, v), low, where(narrow, 1.0, width), more

        start = (Tensor(self.root), u, v, Tensor(0.0), Tensor(1.0), Tensor(1.0))
        link, *_, favour = while_loop(lambda link, u, v, low, width, favour: link >= 0, step, start)
        return -1 - link, favour

    def favour(self, light: Tensor, at: Receiver, both: bool) -> Tensor:
        """The favour with which `choose` finds a light."""

        def step(place: Tensor, favour: Tensor) -> tuple[Tensor, Tensor]:
            links = self._links(place >> 1)
            pair = self._weighed(place >> 1, links, at, both)
            first = (place & 1) == 0
            above = where(first, links[3].bitcast("int32"), links[7].bitcast("int32"))  # three of four floats each, as `choose`: no gathers
            return above, favour * where(first, *pair.expected) / pair.total

        result: Tensor = while_loop(lambda place, favour: place >= 0, step, (self.place[light], Tensor(1.0)))[1]
        return result

    def _links(self, pair: Tensor) -> list[Tensor]:
        return [self.links[pair, k] for k in range(LINKS_ROW)]

    def _weighed(self, pair: Tensor, links: list[Tensor], at: Receiver, both: bool) -> _Weighed:
        row = [self.nodes[pair, k] for k in range(NODES_ROW)]
        one, two = (_expected(row[8 * k : 8 * k + 8], links[4 * k], at, both) for k in range(2))
        weights = one * links[1], two * links[5]
        return _Weighed((one, two), weights, weights[0] + weights[1])


def _expected(row: list[Tensor], sides: Tensor, at: Receiver, both: bool) -> Tensor:
    """What lights of unit power may be expected to send to a receiver: two cosines over the squared distance, to which half the variance
    of their places is added.

    The cosines are those for the mean place and the mean normal; but it is the mean of their positive parts that counts, and that is
    (mean + mean of absolute values) / 2. A quantity of mean c and variance s is about sqrt(c^2 + k s) in absolute value: k is 1 where s
    is 0; 3/4 for normals all around, whose cosines have a variance of 1/3 and a mean absolute value of 1/2; 2/pi for a bell curve. 3/4 is
    taken for all of them: a quarter of the variance of a vector, which is that of three cosines.
    """
    away, half, normal, spread = Vec3(*row[0:3]) - at.point, row[3], Vec3(*row[4:7]), row[7]
    squared = dot(away, away) + half
    inverse = 1.0 / squared
    quarter = half * 0.5  # of the variance of the place: of that of the direction, times the squared distance
    sent = -dot(normal, away)
    sent = sent * (1.0 - sides) + (sent * sent + spread * squared + quarter).sqrt() * sides
    above = dot(at.normal, away)
    taken = (above * above + quarter).sqrt()
    if not both:
        taken = (above + taken) * 0.5
    return greater(sent * taken * inverse, _LEAST) * inverse
