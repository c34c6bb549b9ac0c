"""The compiled part of the builder: a binned-SAH binary tree over boxes, in LLVM IR.

The problem: splitting 256k boxes takes about twenty passes over them, far too much for Python and, with a few boxes
a node at the bottom of the tree, too finely grained for NumPy. The idea: one native function builds any subtree, so
that the caller can build the top with one call and all the subtrees below it with others, on as many threads as there
are.

A box is one vector of eight floats, [min x, y, z, 0, -max x, y, z, 0]: with the maximum negated the union of two
boxes is a single vector minimum, and min - (-max) is twice the centre. Coordinates are scaled into [0, 1] by the
caller, so that no area overflows or vanishes. Boxes and the triangle numbers beside them are partitioned in place.

Nodes need no allocator: a subtree over k boxes has at most 2k - 1 nodes. A node's left child is the next node, its
right child comes 2k' nodes later, k' being the number of boxes on the left. So node numbers are a preorder with gaps,
and they depend on the input only, never on which thread came first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from string import Template

from engine.native import compile_host_code

MAX_SAH_DEPTH = 48
"""Below this depth nodes are halved by count, which bounds the depth of the tree by 48 + log2(boxes)."""

STACK_SIZE = 128
"""Entries of the native stack: at least MAX_SAH_DEPTH + 31 levels of halving, plus one."""

SOURCE = Template("""
; ---- boxes ---------------------------------------------------------------------------------------------------------

define internal <8 x float> @union(<8 x float> %a, <8 x float> %b) alwaysinline {
  %less = fcmp olt <8 x float> %a, %b
  %box = select <8 x i1> %less, <8 x float> %a, <8 x float> %b
  ret <8 x float> %box
}

; Half the surface. The small constant added to each extent ranks boxes that are flat in two axes by their length.
define internal float @half_area(<8 x float> %box) alwaysinline {
  %min = shufflevector <8 x float> %box, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %negated_max = shufflevector <8 x float> %box, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %negated_extent = fadd <4 x float> %min, %negated_max
  %extent = fsub <4 x float> splat (float $thickness), %negated_extent
  %x = extractelement <4 x float> %extent, i32 0
  %y = extractelement <4 x float> %extent, i32 1
  %z = extractelement <4 x float> %extent, i32 2
  %y_plus_z = fadd float %y, %z
  %x_sides = fmul float %x, %y_plus_z
  %yz = fmul float %y, %z
  %area = fadd float %x_sides, %yz
  ret float %area
}

; Twice the centre.
define internal <4 x float> @centre(<8 x float> %box) alwaysinline {
  %min = shufflevector <8 x float> %box, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %negated_max = shufflevector <8 x float> %box, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %centre = fsub <4 x float> %min, %negated_max
  ret <4 x float> %centre
}

; ceil(count / block) as a float, given 1 / block and block - 1/2: exact for the small counts where it matters.
define internal float @blocks(i32 %count, float %inverse, float %bias) alwaysinline {
  %float_count = sitofp i32 %count to float
  %biased = fadd float %float_count, %bias
  %scaled = fmul float %biased, %inverse
  %whole = fptosi float %scaled to i32
  %blocks = sitofp i32 %whole to float
  ret float %blocks
}

; ---- the four passes over a node -----------------------------------------------------------------------------------

; 1. The box of boxes[begin, end) and, in the same form, the box of their centres.
define internal { <8 x float>, <8 x float> } @measure(ptr %boxes, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %bounds = phi <8 x float> [ splat (float $empty), %entry ], [ %grown, %loop ]
  %centres = phi <8 x float> [ splat (float $empty), %entry ], [ %centres_grown, %loop ]
  %address = getelementptr <8 x float>, ptr %boxes, i64 %i
  %box = load <8 x float>, ptr %address, align 4
  %grown = call <8 x float> @union(<8 x float> %bounds, <8 x float> %box)
  %centre = call <4 x float> @centre(<8 x float> %box)
  %negated = fneg <4 x float> %centre
  %point = shufflevector <4 x float> %centre, <4 x float> %negated,
    <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %centres_grown = call <8 x float> @union(<8 x float> %centres, <8 x float> %point)
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  %result = insertvalue { <8 x float>, <8 x float> } poison, <8 x float> %grown, 0
  %both = insertvalue { <8 x float>, <8 x float> } %result, <8 x float> %centres_grown, 1
  ret { <8 x float>, <8 x float> } %both
}

; 2. Sorts boxes[begin, end) into $bins bins along each axis: the box and the number of boxes of each bin.
define internal void @bin(ptr %boxes, i64 %begin, i64 %end, <4 x float> %origin, <4 x float> %scale, ptr %bin_box,
                          ptr %bin_count) {
entry:
  br label %clear
clear:
  %c = phi i64 [ 0, %entry ], [ %c_next, %clear ]
  %clear_box = getelementptr <8 x float>, ptr %bin_box, i64 %c
  store <8 x float> splat (float $empty), ptr %clear_box, align 32
  %clear_count = getelementptr i32, ptr %bin_count, i64 %c
  store i32 0, ptr %clear_count, align 4
  %c_next = add nuw nsw i64 %c, 1
  %c_more = icmp slt i64 %c_next, $all_bins
  br i1 %c_more, label %clear, label %loop
loop:
  %i = phi i64 [ %begin, %clear ], [ %next, %loop ]
  %address = getelementptr <8 x float>, ptr %boxes, i64 %i
  %box = load <8 x float>, ptr %address, align 4
  %centre = call <4 x float> @centre(<8 x float> %box)
  %offset = fsub <4 x float> %centre, %origin
  %position = fmul <4 x float> %offset, %scale
  %floor = fptosi <4 x float> %position to <4 x i32>
  %inside = icmp slt <4 x i32> %floor, splat (i32 $last_bin)
  %slot = select <4 x i1> %inside, <4 x i32> %floor, <4 x i32> splat (i32 $last_bin)
$bin_axes
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

; 3. The cheapest split: {cost, axis, last bin of the left side}, where cost is the sum over both sides of area times
;    blocks. An infinite cost says that there is no plane with boxes on both sides.
define internal { float, i32, i32 } @sweep(ptr %bin_box, ptr %bin_count, i32 %total, float %inverse, float %bias) {
entry:
  %right_cost = alloca [$bins x float], align 32
  br label %axes
axes:
  %axis = phi i32 [ 0, %entry ], [ %axis_next, %axis_done ]
  %axis_best = phi { float, i32, i32 } [ { float 0x7FF0000000000000, i32 0, i32 0 }, %entry ], [ %better, %axis_done ]
  %axis_bins = mul nuw nsw i32 %axis, $bins
  %axis_base = zext i32 %axis_bins to i64
  %axis_box = getelementptr <8 x float>, ptr %bin_box, i64 %axis_base
  %axis_count = getelementptr i32, ptr %bin_count, i64 %axis_base
  br label %from_right
from_right:
  %r = phi i64 [ $last_bin, %axes ], [ %r_next, %from_right ]
  %r_box = phi <8 x float> [ splat (float $empty), %axes ], [ %r_grown, %from_right ]
  %r_count = phi i32 [ 0, %axes ], [ %r_sum, %from_right ]
  %r_box_at = getelementptr <8 x float>, ptr %axis_box, i64 %r
  %r_bin = load <8 x float>, ptr %r_box_at, align 32
  %r_grown = call <8 x float> @union(<8 x float> %r_box, <8 x float> %r_bin)
  %r_count_at = getelementptr i32, ptr %axis_count, i64 %r
  %r_added = load i32, ptr %r_count_at, align 4
  %r_sum = add nuw nsw i32 %r_count, %r_added
  %r_area = call float @half_area(<8 x float> %r_grown)
  %r_blocks = call float @blocks(i32 %r_sum, float %inverse, float %bias)
  %r_cost = fmul float %r_area, %r_blocks
  %r_cost_at = getelementptr float, ptr %right_cost, i64 %r
  store float %r_cost, ptr %r_cost_at, align 4
  %r_next = add nsw i64 %r, -1
  %r_more = icmp sgt i64 %r_next, 0
  br i1 %r_more, label %from_right, label %from_left
from_left:
  %l = phi i64 [ 0, %from_right ], [ %l_next, %from_left ]
  %l_box = phi <8 x float> [ splat (float $empty), %from_right ], [ %l_grown, %from_left ]
  %l_count = phi i32 [ 0, %from_right ], [ %l_sum, %from_left ]
  %best = phi { float, i32, i32 } [ %axis_best, %from_right ], [ %better, %from_left ]
  %l_box_at = getelementptr <8 x float>, ptr %axis_box, i64 %l
  %l_bin = load <8 x float>, ptr %l_box_at, align 32
  %l_grown = call <8 x float> @union(<8 x float> %l_box, <8 x float> %l_bin)
  %l_count_at = getelementptr i32, ptr %axis_count, i64 %l
  %l_added = load i32, ptr %l_count_at, align 4
  %l_sum = add nuw nsw i32 %l_count, %l_added
  %l_area = call float @half_area(<8 x float> %l_grown)
  %l_blocks = call float @blocks(i32 %l_sum, float %inverse, float %bias)
  %l_cost = fmul float %l_area, %l_blocks
  %l_next = add nuw nsw i64 %l, 1
  %other_at = getelementptr float, ptr %right_cost, i64 %l_next
  %other_cost = load float, ptr %other_at, align 4
  %cost = fadd float %l_cost, %other_cost
  %best_cost = extractvalue { float, i32, i32 } %best, 0
  %cheaper = fcmp olt float %cost, %best_cost
  %left_some = icmp sgt i32 %l_sum, 0
  %right_some = icmp slt i32 %l_sum, %total
  %both = and i1 %left_some, %right_some
  %take = and i1 %both, %cheaper
  %l_bin_number = trunc i64 %l to i32
  %with_cost = insertvalue { float, i32, i32 } poison, float %cost, 0
  %with_axis = insertvalue { float, i32, i32 } %with_cost, i32 %axis, 1
  %candidate = insertvalue { float, i32, i32 } %with_axis, i32 %l_bin_number, 2
  %better = select i1 %take, { float, i32, i32 } %candidate, { float, i32, i32 } %best
  %l_more = icmp slt i64 %l_next, $last_bin
  br i1 %l_more, label %from_left, label %axis_done
axis_done:
  %axis_next = add nuw nsw i32 %axis, 1
  %axes_more = icmp slt i32 %axis_next, 3
  br i1 %axes_more, label %axes, label %done
done:
  ret { float, i32, i32 } %better
}

; 4. Moves the boxes of bins up to %split to the front; returns the first index of the others. Same arithmetic as @bin.
define internal i64 @partition(ptr %boxes, ptr %order, i64 %begin, i64 %end, <4 x float> %origins,
                               <4 x float> %scales, i32 %axis, i32 %split) {
entry:
  %origin = extractelement <4 x float> %origins, i32 %axis
  %scale = extractelement <4 x float> %scales, i32 %axis
  %min_lane = zext i32 %axis to i64
  %max_lane = add nuw nsw i64 %min_lane, 4
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %i_kept, %keep ], [ %i, %swap ]
  %last = phi i64 [ %end, %entry ], [ %last, %keep ], [ %last_next, %swap ]
  %more = icmp slt i64 %i, %last
  br i1 %more, label %test, label %done
test:
  %address = getelementptr <8 x float>, ptr %boxes, i64 %i
  %min_at = getelementptr float, ptr %address, i64 %min_lane
  %max_at = getelementptr float, ptr %address, i64 %max_lane
  %min = load float, ptr %min_at, align 4
  %negated_max = load float, ptr %max_at, align 4
  %centre = fsub float %min, %negated_max
  %offset = fsub float %centre, %origin
  %position = fmul float %offset, %scale
  %floor = fptosi float %position to i32
  %left = icmp sle i32 %floor, %split
  br i1 %left, label %keep, label %swap
keep:
  %i_kept = add nuw nsw i64 %i, 1
  br label %loop
swap:
  %last_next = add nsw i64 %last, -1
  %other = getelementptr <8 x float>, ptr %boxes, i64 %last_next
  %box = load <8 x float>, ptr %address, align 4
  %other_box = load <8 x float>, ptr %other, align 4
  store <8 x float> %other_box, ptr %address, align 4
  store <8 x float> %box, ptr %other, align 4
  %id_at = getelementptr i32, ptr %order, i64 %i
  %other_id_at = getelementptr i32, ptr %order, i64 %last_next
  %id = load i32, ptr %id_at, align 4
  %other_id = load i32, ptr %other_id_at, align 4
  store i32 %other_id, ptr %id_at, align 4
  store i32 %id, ptr %other_id_at, align 4
  br label %loop
done:
  ret i64 %i
}

; ---- the subtree ---------------------------------------------------------------------------------------------------

; Builds the subtree whose root is described by *tasks[0]: {node, begin, end, depth}. With %grain > 0 a node of at most
; %grain boxes is not built but written to *tasks, and the return value says how many there are. A node's link is
; {begin, end, right child or 0 in a leaf, depth}.
define i32 @build_subtree(ptr %boxes, ptr %order, ptr %node_box, ptr %node_link, ptr %tasks, i32 %grain, i32 %leaf_size,
                          float %inverse, float %bias, float %node_cost) {
entry:
  %bin_box = alloca [$all_bins x <8 x float>], align 32
  %bin_count = alloca [$all_bins x i32], align 32
  %stack = alloca [$stack_size x <4 x i32>], align 16
  %first = load <4 x i32>, ptr %tasks, align 4
  store <4 x i32> %first, ptr %stack, align 16
  br label %loop
loop:
  %top = phi i64 [ 1, %entry ], [ %below, %defer ], [ %below, %leaf ], [ %two_more, %inner ]
  %deferred = phi i32 [ 0, %entry ], [ %deferred_next, %defer ], [ %deferred, %leaf ], [ %deferred, %inner ]
  %some = icmp sgt i64 %top, 0
  br i1 %some, label %pop, label %done
pop:
  %below = add nsw i64 %top, -1
  %entry_at = getelementptr <4 x i32>, ptr %stack, i64 %below
  %task = load <4 x i32>, ptr %entry_at, align 16
  %node = extractelement <4 x i32> %task, i32 0
  %begin32 = extractelement <4 x i32> %task, i32 1
  %end32 = extractelement <4 x i32> %task, i32 2
  %depth = extractelement <4 x i32> %task, i32 3
  %begin = zext i32 %begin32 to i64
  %end = zext i32 %end32 to i64
  %count = sub nsw i32 %end32, %begin32
  %small = icmp sle i32 %count, %grain
  br i1 %small, label %defer, label %visit
defer:
  %task_number = zext i32 %deferred to i64
  %task_at = getelementptr <4 x i32>, ptr %tasks, i64 %task_number
  store <4 x i32> %task, ptr %task_at, align 4
  %deferred_next = add nuw nsw i32 %deferred, 1
  br label %loop
visit:
  %node64 = zext i32 %node to i64
  %box_at = getelementptr <8 x float>, ptr %node_box, i64 %node64
  %link_at = getelementptr <4 x i32>, ptr %node_link, i64 %node64
  %measured = call { <8 x float>, <8 x float> } @measure(ptr %boxes, i64 %begin, i64 %end)
  %box = extractvalue { <8 x float>, <8 x float> } %measured, 0
  %centres = extractvalue { <8 x float>, <8 x float> } %measured, 1
  store <8 x float> %box, ptr %box_at, align 4
  %fits = icmp sle i32 %count, %leaf_size
  %single = icmp eq i32 %count, 1
  %deep = icmp sge i32 %depth, $max_sah_depth
  %unsplit = or i1 %single, %deep
  br i1 %unsplit, label %no_plane, label %search
search:
  %origin = shufflevector <8 x float> %centres, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %negated_far = shufflevector <8 x float> %centres, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %negated_extent = fadd <4 x float> %origin, %negated_far
  %extent = fneg <4 x float> %negated_extent
  %wide = fcmp ogt <4 x float> %extent, splat (float $flat)
  %per_extent = fdiv <4 x float> splat (float $bins.0), %extent
  %scale = select <4 x i1> %wide, <4 x float> %per_extent, <4 x float> zeroinitializer
  call void @bin(ptr %boxes, i64 %begin, i64 %end, <4 x float> %origin, <4 x float> %scale, ptr %bin_box,
    ptr %bin_count)
  %best = call { float, i32, i32 } @sweep(ptr %bin_box, ptr %bin_count, i32 %count, float %inverse, float %bias)
  %split_cost = extractvalue { float, i32, i32 } %best, 0
  %axis = extractvalue { float, i32, i32 } %best, 1
  %split = extractvalue { float, i32, i32 } %best, 2
  %area = call float @half_area(<8 x float> %box)
  %own_blocks = call float @blocks(i32 %count, float %inverse, float %bias)
  %leaf_cost = fmul float %area, %own_blocks
  %visit_cost = fmul float %area, %node_cost
  %inner_cost = fadd float %visit_cost, %split_cost
  %leaf_wins = fcmp ole float %leaf_cost, %inner_cost
  %stop = and i1 %fits, %leaf_wins
  br i1 %stop, label %leaf, label %plane
plane:
  %found = fcmp olt float %split_cost, 0x7FF0000000000000
  br i1 %found, label %cut, label %halve
cut:
  %cut_at = call i64 @partition(ptr %boxes, ptr %order, i64 %begin, i64 %end, <4 x float> %origin,
    <4 x float> %scale, i32 %axis, i32 %split)
  br label %inner
no_plane:
  br i1 %fits, label %leaf, label %halve
halve:                                            ; by count, the left half a whole number of full leaves
  %half = lshr i32 %count, 1
  %up = add nsw i32 %half, %leaf_size
  %up_less = add nsw i32 %up, -1
  %leaves = udiv i32 %up_less, %leaf_size
  %rounded = mul nsw i32 %leaves, %leaf_size
  %halve_at32 = add nsw i32 %begin32, %rounded
  %halve_at = zext i32 %halve_at32 to i64
  br label %inner
leaf:
  %leaf_link = insertelement <4 x i32> %task, i32 0, i32 2
  %leaf_begin = insertelement <4 x i32> %leaf_link, i32 %begin32, i32 0
  %leaf_end = insertelement <4 x i32> %leaf_begin, i32 %end32, i32 1
  store <4 x i32> %leaf_end, ptr %link_at, align 4
  br label %loop
inner:
  %middle = phi i64 [ %cut_at, %cut ], [ %halve_at, %halve ]
  %middle32 = trunc i64 %middle to i32
  %left_count = sub nsw i32 %middle32, %begin32
  %twice = shl nsw i32 %left_count, 1
  %left = add nsw i32 %node, 1
  %right = add nsw i32 %node, %twice
  %link_begin = insertelement <4 x i32> %task, i32 %begin32, i32 0
  %link_end = insertelement <4 x i32> %link_begin, i32 %end32, i32 1
  %link = insertelement <4 x i32> %link_end, i32 %right, i32 2
  store <4 x i32> %link, ptr %link_at, align 4
  %deeper = add nsw i32 %depth, 1
  %child = insertelement <4 x i32> %task, i32 %deeper, i32 3
  %right_node = insertelement <4 x i32> %child, i32 %right, i32 0
  %right_task = insertelement <4 x i32> %right_node, i32 %middle32, i32 1
  store <4 x i32> %right_task, ptr %entry_at, align 16
  %left_node = insertelement <4 x i32> %child, i32 %left, i32 0
  %left_task = insertelement <4 x i32> %left_node, i32 %middle32, i32 2
  %left_at = getelementptr <4 x i32>, ptr %stack, i64 %top
  store <4 x i32> %left_task, ptr %left_at, align 16
  %two_more = add nuw nsw i64 %top, 1
  br label %loop
done:
  ret i32 %deferred
}
""")

BIN_AXIS = Template("""
  %slot$axis = extractelement <4 x i32> %slot, i32 $axis
  %number$axis = add nuw nsw i32 %slot$axis, $base
  %index$axis = zext i32 %number$axis to i64
  %box_at$axis = getelementptr <8 x float>, ptr %bin_box, i64 %index$axis
  %old$axis = load <8 x float>, ptr %box_at$axis, align 32
  %new$axis = call <8 x float> @union(<8 x float> %old$axis, <8 x float> %box)
  store <8 x float> %new$axis, ptr %box_at$axis, align 32
  %count_at$axis = getelementptr i32, ptr %bin_count, i64 %index$axis
  %count$axis = load i32, ptr %count_at$axis, align 4
  %increased$axis = add nuw nsw i32 %count$axis, 1
  store i32 %increased$axis, ptr %count_at$axis, align 4""")

SubtreeBuilder = Callable[..., int]
"""`build_subtree(boxes, order, node_box, node_link, tasks, grain, leaf_size, 1 / block, block - 1/2, node_cost) ->
tasks`."""


def float_literal(value: float) -> str:
    """`value`, rounded to float32, as LLVM writes it exactly: the hexadecimal form of the equal double."""
    rounded = ctypes.c_float(value).value
    bits = int.from_bytes(bytes(ctypes.c_double(rounded)), "little")
    return f"0x{bits:016X}"


def source(bins: int) -> str:
    """LLVM IR of the builder with `bins` bins an axis."""
    axes = (BIN_AXIS.substitute(axis=axis, base=axis * bins) for axis in range(3))
    return SOURCE.substitute(
        bins=bins,
        last_bin=bins - 1,
        all_bins=3 * bins,
        bin_axes="".join(axes),
        stack_size=STACK_SIZE,
        max_sah_depth=MAX_SAH_DEPTH,
        empty="4.0",  # beyond every coordinate, and finite: the area of nothing times no blocks must be 0, not NaN
        flat=float_literal(1e-30),  # centres this close together share a bin; a smaller extent would overflow the scale
        thickness=float_literal(1e-9),
    )


@lru_cache(maxsize=8)
def subtree_builder(bins: int) -> SubtreeBuilder:
    """The builder for this host, compiled (some tens of milliseconds) where the disk cache does not have it.

    The returned function releases the GIL and may run on many threads at once over disjoint ranges of one set of
    arrays.
    """
    pointers, integers, floats = [ctypes.c_void_p] * 5, [ctypes.c_int32] * 2, [ctypes.c_float] * 3
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, *integers, *floats)
    return prototype(compile_host_code(source(bins), "build_subtree"))
