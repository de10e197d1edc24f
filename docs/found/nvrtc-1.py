# nvrtc-1, NVRTC 13.0 to 13.5: a byte that is computed is taken for the byte of a word; look for dp4a in the PTX
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
SOURCE = r"""typedef struct __align__(16) { int x, y, z, w, s4, s5, s6, s7; } tinyref_int32x8;
__device__ __forceinline__ tinyref_int32x8 make_tinyref_int32x8(int x, int y, int z, int w, int s4, int s5, int s6, int s7) { tinyref_int32x8 v; v.x = x; v.y = y; v.z = z; v.w = w; v.s4 = s4; v.s5 = s5; v.s6 = s6; v.s7 = s7; return v; }
typedef struct __align__(8) { signed char x, y, z, w, s4, s5, s6, s7; } tinyref_int8x8;
__device__ __forceinline__ tinyref_int8x8 make_tinyref_int8x8(signed char x, signed char y, signed char z, signed char w, signed char s4, signed char s5, signed char s6, signed char s7) { tinyref_int8x8 v; v.x = x; v.y = y; v.z = z; v.w = w; v.s4 = s4; v.s5 = s5; v.s6 = s6; v.s7 = s7; return v; }
__device__ __forceinline__ int tinyref_widened(int byte) {
  return byte;
}
extern "C" __global__ void __launch_bounds__(1) k_r_8(int *data0, signed char *data1) {
  tinyref_int8x8 v1;
  v1 = *(const tinyref_int8x8 *)&data1[0];
  tinyref_int8x8 v2 = make_tinyref_int8x8((signed char)((unsigned int)tinyref_widened(v1.x) * (unsigned int)tinyref_widened(((signed char)2))), (signed char)((unsigned int)tinyref_widened(v1.y) * (unsigned int)tinyref_widened(((signed char)2))), (signed char)((unsigned int)tinyref_widened(v1.z) * (unsigned int)tinyref_widened(((signed char)2))), (signed char)((unsigned int)tinyref_widened(v1.w) * (unsigned int)tinyref_widened(((signed char)2))), (signed char)((unsigned int)tinyref_widened(v1.s4) * (unsigned int)tinyref_widened(((signed char)2))), (signed char)((unsigned int)tinyref_widened(v1.s5) * (unsigned int)tinyref_widened(((signed char)2))), (signed char)((unsigned int)tinyref_widened(v1.s6) * (unsigned int)tinyref_widened(((signed char)2))), (signed char)((unsigned int)tinyref_widened(v1.s7) * (unsigned int)tinyref_widened(((signed char)2))));
  tinyref_int32x8 v3 = make_tinyref_int32x8((int)tinyref_widened(v2.x), (int)tinyref_widened(v2.y), (int)tinyref_widened(v2.z), (int)tinyref_widened(v2.w), (int)tinyref_widened(v2.s4), (int)tinyref_widened(v2.s5), (int)tinyref_widened(v2.s6), (int)tinyref_widened(v2.s7));
  tinyref_int32x8 v4 = make_tinyref_int32x8((int)tinyref_widened(v1.x), (int)tinyref_widened(v1.y), (int)tinyref_widened(v1.z), (int)tinyref_widened(v1.w), (int)tinyref_widened(v1.s4), (int)tinyref_widened(v1.s5), (int)tinyref_widened(v1.s6), (int)tinyref_widened(v1.s7));
  tinyref_int32x8 v5 = make_tinyref_int32x8((int)((unsigned int)v3.x * (unsigned int)v4.x), (int)((unsigned int)v3.y * (unsigned int)v4.y), (int)((unsigned int)v3.z * (unsigned int)v4.z), (int)((unsigned int)v3.w * (unsigned int)v4.w), (int)((unsigned int)v3.s4 * (unsigned int)v4.s4), (int)((unsigned int)v3.s5 * (unsigned int)v4.s5), (int)((unsigned int)v3.s6 * (unsigned int)v4.s6), (int)((unsigned int)v3.s7 * (unsigned int)v4.s7));
  int4 v6 = make_int4(v5.x, v5.y, v5.z, v5.w);
  int4 v7 = make_int4(v5.s4, v5.s5, v5.s6, v5.s7);
  int4 v8 = make_int4((int)((unsigned int)v6.x + (unsigned int)v7.x), (int)((unsigned int)v6.y + (unsigned int)v7.y), (int)((unsigned int)v6.z + (unsigned int)v7.z), (int)((unsigned int)v6.w + (unsigned int)v7.w));
  int2 v9 = make_int2(v8.x, v8.y);
  int2 v10 = make_int2(v8.z, v8.w);
  int2 v11 = make_int2((int)((unsigned int)v9.x + (unsigned int)v10.x), (int)((unsigned int)v9.y + (unsigned int)v10.y));
  int v12 = v11.x;
  int v13 = v11.y;
  int v14 = (int)((unsigned int)v12 + (unsigned int)v13);
  data0[0] = v14;
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.array([0], np.int32)),
    (0, np.array([113, 32, 47, 101, 20, 70, 85, -71], np.int8)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(1), [np.array([-25102], np.int32)], None, None),
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
kernel = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(bytes(code))), b"k_r_8"))
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
