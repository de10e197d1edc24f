"""Operands of products as images, on devices that declare them, under the flag IMAGE.

An image is another form of the memory of a buffer. It has the same elements in the same order, and
a kernel reads them as texels of four lanes. So the reading kernel decides, and the writing kernel
is not affected. `tensor/contraction.py` lays operands out so that they fit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tinyref import config
from tinyref.codegen.compile import compile_kernel, kernel_name
from tinyref.device import Device
from tinyref.dtype import TEXEL, ImageDType, PtrDType, dtypes, image
from tinyref.errors import UserError
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg, SlotArg, ViewArg
from tinyref.views.shape_tracker import tracker_of

# The limit of rows and of columns of an image.
LIMIT = 16384


def with_images(ast: UOp, device: str) -> UOp:
    """Replace every buffer of factors that can be an image.

    Factors are float32, or float16 that is widened, and their products are summed. A buffer that
    cannot be an image stays; DEBUG=3 says why.
    """
    if not config.integer("IMAGE") or not Device[device].capabilities.images:
        return ast
    for load in list(_factors(ast)):
        memory = load.src[0].src[0]
        try:
            tried = with_image(ast, load)
            # Only the choice of lanes shows if all accesses are of whole texels.
            compile_kernel(tried, Device[device].capabilities)
        except UserError as error:
            _report(ast, memory, error)
            continue
        ast = tried
    return ast


def _factors(ast: UOp) -> Iterator[UOp]:
    """Yield the first load of each buffer that a sum of products multiplies."""
    written = {node.src[0].src[0] for node in ast.toposort() if node.op is Ops.STORE}
    seen: set[UOp] = set()
    for node in ast.toposort():
        argument = node.arg
        if not isinstance(argument, ReduceArg) or argument.op is not Ops.ADD:
            continue
        product = _uncast(node.src[0])
        for factor in map(_uncast, product.src if product.op is Ops.MUL else ()):
            is_load = factor.op is Ops.LOAD and factor.dtype in (dtypes.float32, dtypes.float16)
            if is_load and factor.src[0].src[0] not in written | seen:
                seen.add(factor.src[0].src[0])
                yield factor


def _uncast(node: UOp) -> UOp:
    return node.src[0] if node.op is Ops.CAST else node


def with_image(ast: UOp, load: UOp) -> UOp:
    """Replace the buffer of the LOAD `load` by an image.

    Raises `UserError` if the buffer cannot be one, or if its elements are used as another type.
    """
    return _read_as(ast, load.src[0].src[0], _image_of(load))


def _image_of(load: UOp) -> ImageDType:
    """Return the image for a buffer; its rows have the length of rows in the view of the load.

    Raises `UserError` if there is none.
    """
    memory, argument = load.src[0].src[0].dtype, load.src[0].arg
    assert isinstance(memory, PtrDType), "a view is of memory"
    assert isinstance(argument, ViewArg), "a load has a view"
    texels, rest = divmod(memory.size, TEXEL)
    if rest or not texels:
        raise UserError(f"{memory.size} elements are no whole texels of {TEXEL}")
    strides = {stride for view in tracker_of(argument).views for stride in view.strides}
    moves = sorted(stride for stride in strides if isinstance(stride, int) and stride > 0)
    rows = [move // TEXEL for move in moves if move % TEXEL == 0]
    for width in (*rows, *range(min(texels, LIMIT), 0, -1)):
        if width <= LIMIT and texels % width == 0 and texels // width <= LIMIT:
            return image(memory.base, texels // width, width)
    raise UserError(f"{texels} texels have no shape of at most {LIMIT} by {LIMIT}")


def _read_as(ast: UOp, memory: UOp, image_dtype: ImageDType) -> UOp:
    """Replace `memory` by an image, whose loads give float32."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if src == node.src or node.op is Ops.VIEW:
            return None
        if node.op is Ops.LOAD:
            return node.replace(dtype=dtypes.float32, src=src)
        if node.op is Ops.CAST and src[0].dtype is node.dtype:
            return src[0]
        if any(old.dtype is not new.dtype for old, new in zip(node.src, src, strict=True)):
            raise UserError(f"{node.op.name} reads the same elements as {image_dtype.base.name}")
        return None

    return rebuild(ast, change, {memory: memory.replace(dtype=image_dtype)})


def _report(ast: UOp, memory: UOp, reason: UserError) -> None:
    if config.integer("DEBUG") >= 3:
        slot = memory.arg.slot if isinstance(memory.arg, SlotArg) else 0
        text = f"image: buffer {slot} of {kernel_name(ast)} stays a buffer: {reason}"
        print(text, file=sys.stderr)  # noqa: T201  DEBUG asks for it
