"""Programs as PTX, the assembly language of NVIDIA's virtual machine, for ptxas or the driver.

Written against "Parallel Thread Execution ISA" of NVIDIA, in the tests the ISA, to whose sections
the modules beside this one refer. `registers` says how values are held, `instructions` is the table
of what computes them, `conversions` has the casts, `tiles` the matrix tiles, `function` the nodes.
"""

from tinyref.renderers.ptx.function import PtxRenderer as PtxRenderer
