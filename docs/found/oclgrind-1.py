# oclgrind-1, Oclgrind 21.10: a vector of bits is extended to 0xff. Run it by: oclgrind --uninitialized python THIS_FILE
# It needs numpy and pyopencl. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess, sys
if "--child" not in sys.argv:  # A crash and a hang count as wrong.
    done = subprocess.run([sys.executable, __file__, "--child"], timeout=60)
    sys.exit(done.returncode if done.returncode in (0, 2) else 1)
try:
    import numpy as np
    import pyopencl as cl
except ImportError as error:
    sys.exit(print(f"{error}. It needs numpy and pyopencl") or 2)
SOURCE = r"""__kernel void k(__global int *a, __global int *b) { vstore4((vload4(0, b) != (int4)0) & (int4)1, 0, a); }"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.array([0, 1, 2, 255], np.int32)),
    (0, np.array([0, 1, 2, 255], np.int32)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(4), [np.array([0, 1, 1, 1], np.int32)], None, None),
]
memory = [np.concatenate([np.zeros(at, np.uint8), x.view(np.uint8)]) for at, x in arrays]
try:
    devices = [d for p in cl.get_platforms() if 'Oclgrind' in p.name for d in p.get_devices()]
except cl.Error:
    devices = []
if not devices:
    sys.exit(print("no device of the platform", 'Oclgrind') or 2)
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build(options=[])
kernel = cl.Kernel(program, "k")
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
buffers = [cl.Buffer(context, flags, hostbuf=part) for part in memory]
kernel.set_args(buffers[0], buffers[1])
cl.enqueue_nd_range_kernel(queue, kernel, (4, 1, 1), (4, 1, 1))
for part, buffer in zip(memory, buffers):
    cl.enqueue_copy(queue, part, buffer)
queue.finish()
wrong = 0
for number, elements, values, low, high in checks:
    at, array = arrays[number]
    got = memory[number][at : at + array.nbytes].view(values[0].dtype)[elements]
    bits = f"u{got.itemsize}"
    good = low is not None and (low <= got) & (got <= high)
    for value in values:
        good = good | (got.view(bits) == value.view(bits)) | (got != got) & (value != value)
    print(f"array {number}: expected {values[0]}, got {got}")
    wrong += np.count_nonzero(~good)
print("wrong" if wrong else "right")
sys.exit(1 if wrong else 0)
