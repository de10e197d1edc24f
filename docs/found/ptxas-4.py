# ptxas-4, ptxas 13.0 to 13.5 for sm_90: unsigned numbers are taken for signed bytes; look for I2F.S8 in nvdisasm kernel.cubin
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

.visible .entry k_e_2(
    .param .u64 data0,
    .param .u64 data1
)
.maxntid 1, 1, 1
{
    .reg .b16 %rs<3>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<7>;
    ld.param.u64 %rd1, [data0];
    cvta.to.global.u64 %rd2, %rd1;
    ld.param.u64 %rd3, [data1];
    cvta.to.global.u64 %rd4, %rd3;
    mov.b32 %r1, 0;
    mad.wide.s32 %rd5, %r1, 4, %rd2;
    mad.wide.s32 %rd6, %r1, 1, %rd4;
    ld.global.v2.s8 {%rs1, %rs2}, [%rd6];
    cvt.s32.s16 %r2, %rs1;
    cvt.s32.s16 %r3, %rs2;
    cvt.rn.f32.u32 %r4, %r2;
    cvt.rn.f32.u32 %r5, %r3;
    st.global.v2.b32 [%rd5], {%r4, %r5};
    ret;
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.array([float.fromhex(x) for x in "0x1.2c61f2p+2 0x1.ead37ap+1".split()], np.float32)),
    (0, np.array([-9, 0], np.int8)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(2), [np.array([float.fromhex(x) for x in "0x1p+32 0x0p+0".split()], np.float32)], None, None),
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
kernel = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(bytes(code))), b"k_e_2"))
stream = call(driver.cuStreamCreate(0))
starts = [int(call(driver.cuMemAlloc(max(part.size, 1)))) for part in memory]
for part, start in zip(memory, starts):
    call(driver.cuMemcpyHtoDAsync(start, part.ctypes.data, part.size, stream))
values = [ctypes.c_uint64(start + at) for start, (at, _) in zip(starts, arrays)]
values += [ctypes.c_int32(value) for value in []]
pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
call(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, ctypes.addressof(pointers), 0))
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
