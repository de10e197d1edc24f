# ptxas-1, ptxas 13.0 to 13.3 for sm_90: the second of three integers is not negated; look for VIMNMX3 in nvdisasm kernel.cubin
# It needs numpy, cuda-bindings and ptxas. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess, sys
if "--child" not in sys.argv:  # A crash and a hang count as wrong.
    done = subprocess.run([sys.executable, __file__, "--child"], timeout=60)
    sys.exit(done.returncode if done.returncode in (0, 2) else 1)
try:
    import numpy as np
    import ctypes; from cuda.bindings import driver, nvrtc
except ImportError as error:
    sys.exit(print(f"{error}. It needs numpy, cuda-bindings and ptxas") or 2)
SOURCE = r""".version 9.0
.target sm_90
.address_size 64

.visible .entry k_r_7_3(
    .param .u64 data0,
    .param .u64 data1
)
.maxntid 1, 1, 1
{
    .reg .b32 %r<18>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [data0];
    cvta.to.global.u64 %rd2, %rd1;
    ld.param.u64 %rd3, [data1];
    cvta.to.global.u64 %rd4, %rd3;
    mov.b32 %r1, 7;
    mov.b32 %r2, 3;
    mov.b32 %r3, 4294967295;
    mov.b32 %r4, 1;
    mov.b32 %r5, 2;
    mov.u32 %r6, %ctaid.x;
    mad.wide.s32 %rd5, %r6, 4, %rd2;
    mul.lo.s32 %r7, %r6, %r2;
    mad.wide.s32 %rd6, %r7, 4, %rd4;
    ld.global.b32 %r8, [%rd6];
    mul.lo.s32 %r9, %r8, %r3;
    add.s32 %r10, %r7, %r4;
    mad.wide.s32 %rd7, %r10, 4, %rd4;
    ld.global.b32 %r11, [%rd7];
    mul.lo.s32 %r12, %r11, %r3;
    max.s32 %r13, %r9, %r12;
    add.s32 %r14, %r7, %r5;
    mad.wide.s32 %rd8, %r14, 4, %rd4;
    ld.global.b32 %r15, [%rd8];
    mul.lo.s32 %r16, %r15, %r3;
    max.s32 %r17, %r13, %r16;
    st.global.b32 [%rd5], %r17;
    ret;
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.full(7, [0], np.int32)),
    (0, np.array([1, 2, 3, 1, 3, 2, 2, 1, 3, 2, 3, 1, 3, 1, 2, -3, 0, 2, -5, 2147483647, 7], np.int32)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(7), [np.array([-1, -1, -1, -1, -1, 3, 5], np.int32)], None, None),
]
memory = [np.concatenate([np.zeros(at, np.uint8), x.view(np.uint8)]) for at, x in arrays]
def call(answer):
    if int(answer[0]):
        raise RuntimeError(str(answer[0]))
    return answer[1] if len(answer) > 1 else None

try:
    call(driver.cuInit(0))
    device = call(driver.cuDeviceGet(0))
except RuntimeError as error:
    sys.exit(print("no GPU of CUDA:", error) or 2)
call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(device))))
open("kernel.ptx", "w").write(SOURCE)
try:
    subprocess.run(["ptxas", *['--gpu-name=sm_90', '--fmad=false'], "-o", "kernel.cubin", "kernel.ptx"], check=True)
except FileNotFoundError:
    sys.exit(print("no ptxas: it is part of the CUDA Toolkit") or 2)
code = open("kernel.cubin", "rb").read()
kernel = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(bytes(code))), b"k_r_7_3"))
stream = call(driver.cuStreamCreate(0))
starts = [int(call(driver.cuMemAlloc(max(part.size, 1)))) for part in memory]
for part, start in zip(memory, starts):
    call(driver.cuMemcpyHtoDAsync(start, part.ctypes.data, part.size, stream))
values = [ctypes.c_uint64(start + at) for start, (at, _) in zip(starts, arrays)]
values += [ctypes.c_int32(value) for value in []]
pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
call(driver.cuLaunchKernel(kernel, 7, 1, 1, 1, 1, 1, 0, stream, ctypes.addressof(pointers), 0))
for part, start in zip(memory, starts):
    call(driver.cuMemcpyDtoHAsync(part.ctypes.data, start, part.size, stream))
call(driver.cuStreamSynchronize(stream))
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
