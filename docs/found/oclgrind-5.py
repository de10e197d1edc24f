# oclgrind-5, Oclgrind 21.10: written memory is reported as unwritten, as the host wrote a part of it.
# It needs pyopencl. Run it by: oclgrind --uninitialized --log oclgrind.log python THIS_FILE
# Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import os
import sys

import numpy as np

try:
    import pyopencl as cl

    devices = [d for p in cl.get_platforms() if p.name == "Oclgrind" for d in p.get_devices()]
except Exception as error:
    devices = print(error)
if not devices or "OCLGRIND_LOG" not in os.environ:
    print("no device of Oclgrind, or no log")
    sys.exit(2)
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
SOURCE = """
__kernel void fill(__global int *a) { a[get_global_id(0)] = 1; }
__kernel void copy(__global int *a, __global int *b) { b[get_global_id(0)] = a[get_global_id(0)]; }
"""
program = cl.Program(context, SOURCE).build(options=["-cl-opt-disable"])
written, other = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 16) for _ in range(2))
program.fill(queue, (4,), None, written)
cl.enqueue_copy(queue, written, np.array([1], np.int32), dst_offset=0)
program.copy(queue, (4,), None, written, other)
queue.finish()
log = open(os.environ["OCLGRIND_LOG"]).read()
print("wrong: " + log.splitlines()[1] if "Uninitialized" in log else "right")
sys.exit(1 if "Uninitialized" in log else 0)
