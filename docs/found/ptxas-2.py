# ptxas-2, ptxas of CUDA 13.4 and 13.5: a product of many bytes is taken for zero; the code stores a zero and loads nothing
# It needs numpy and cuda-bindings. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess, sys
if "--child" not in sys.argv:  # A crash and a hang count as wrong.
    done = subprocess.run([sys.executable, __file__, "--child"], timeout=60)
    sys.exit(done.returncode if done.returncode in (0, 2) else 1)
try:
    import numpy as np
    import ctypes; from cuda.bindings import driver, nvrtc
except ImportError as error:
    sys.exit(print(f"{error}. It needs numpy and cuda-bindings") or 2)
SOURCE = r"""__device__ __forceinline__ int tinyref_widened(int byte) {
  asm("" : "+r"(byte));
  return byte;
}
extern "C" __global__ void __launch_bounds__(1) k_r_15(unsigned char *data0, unsigned char *data1) {
  unsigned char acc1 = ((unsigned char)1);
  for (int i2 = 0; i2 < 5; i2++) {
    int v3 = (int)((unsigned int)i2 * (unsigned int)3);
    unsigned char v4 = data1[v3];
    unsigned char v5 = (unsigned char)(tinyref_widened(v4) | ((unsigned char)3));
    int v6 = (int)((unsigned int)v3 + (unsigned int)1);
    unsigned char v7 = data1[v6];
    unsigned char v8 = (unsigned char)(tinyref_widened(v7) | ((unsigned char)3));
    unsigned char v9 = (unsigned char)((unsigned int)tinyref_widened(v5) * (unsigned int)tinyref_widened(v8));
    int v10 = (int)((unsigned int)v3 + (unsigned int)2);
    unsigned char v11 = data1[v10];
    unsigned char v12 = (unsigned char)(tinyref_widened(v11) | ((unsigned char)3));
    unsigned char v13 = (unsigned char)((unsigned int)tinyref_widened(v9) * (unsigned int)tinyref_widened(v12));
    unsigned char v14 = (unsigned char)((unsigned int)tinyref_widened(acc1) * (unsigned int)tinyref_widened(v13));
    acc1 = v14;
  }
  data0[0] = acc1;
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.array([90], np.uint8)),
    (0, np.full(15, [0], np.uint8)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(1), [np.array([107], np.uint8)], None, None),
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
names = [f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}" for part in ("MAJOR", "MINOR")]
target = "".join(str(call(driver.cuDeviceGetAttribute(getattr(driver.CUdevice_attribute, x), device))) for x in names)
program = call(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernel.cu", 0, [], []))
options = [f"--gpu-architecture=sm_{target}".encode(), *[b'--std=c++17', b'--ftz=false', b'--prec-div=true', b'--prec-sqrt=true', b'--fmad=false']]
call(nvrtc.nvrtcCompileProgram(program, len(options), options))
code = bytearray(call(nvrtc.nvrtcGetCUBINSize(program)))
call(nvrtc.nvrtcGetCUBIN(program, code))
kernel = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(bytes(code))), b"k_r_15"))
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
