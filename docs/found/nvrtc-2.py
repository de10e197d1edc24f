# nvrtc-2, NVRTC 13.0 to 13.5: a division of bytes sees the next byte of the word
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
SOURCE = r"""typedef struct __align__(16) { int x, y, z, w, s4, s5, s6, s7, s8, s9, sa, sb, sc, sd, se, sf; } tinyref_int32x16;
__device__ __forceinline__ tinyref_int32x16 make_tinyref_int32x16(int x, int y, int z, int w, int s4, int s5, int s6, int s7, int s8, int s9, int sa, int sb, int sc, int sd, int se, int sf) { tinyref_int32x16 v; v.x = x; v.y = y; v.z = z; v.w = w; v.s4 = s4; v.s5 = s5; v.s6 = s6; v.s7 = s7; v.s8 = s8; v.s9 = s9; v.sa = sa; v.sb = sb; v.sc = sc; v.sd = sd; v.se = se; v.sf = sf; return v; }
typedef struct __align__(16) { int x, y, z, w, s4, s5, s6, s7; } tinyref_int32x8;
__device__ __forceinline__ tinyref_int32x8 make_tinyref_int32x8(int x, int y, int z, int w, int s4, int s5, int s6, int s7) { tinyref_int32x8 v; v.x = x; v.y = y; v.z = z; v.w = w; v.s4 = s4; v.s5 = s5; v.s6 = s6; v.s7 = s7; return v; }
typedef struct __align__(16) { signed char x, y, z, w, s4, s5, s6, s7, s8, s9, sa, sb, sc, sd, se, sf; } tinyref_int8x16;
__device__ __forceinline__ tinyref_int8x16 make_tinyref_int8x16(signed char x, signed char y, signed char z, signed char w, signed char s4, signed char s5, signed char s6, signed char s7, signed char s8, signed char s9, signed char sa, signed char sb, signed char sc, signed char sd, signed char se, signed char sf) { tinyref_int8x16 v; v.x = x; v.y = y; v.z = z; v.w = w; v.s4 = s4; v.s5 = s5; v.s6 = s6; v.s7 = s7; v.s8 = s8; v.s9 = s9; v.sa = sa; v.sb = sb; v.sc = sc; v.sd = sd; v.se = se; v.sf = sf; return v; }
__device__ __forceinline__ int tinyref_widened(int byte) {
  return byte;
}
extern "C" __global__ void __launch_bounds__(1) k_r_16(int *data0, signed char *data1) {
  tinyref_int8x16 v1;
  v1 = *(const tinyref_int8x16 *)&data1[0];
  tinyref_int8x16 v2 = make_tinyref_int8x16((signed char)(tinyref_widened(v1.x) / ((signed char)-16)), (signed char)(tinyref_widened(v1.y) / ((signed char)-16)), (signed char)(tinyref_widened(v1.z) / ((signed char)-16)), (signed char)(tinyref_widened(v1.w) / ((signed char)-16)), (signed char)(tinyref_widened(v1.s4) / ((signed char)-16)), (signed char)(tinyref_widened(v1.s5) / ((signed char)-16)), (signed char)(tinyref_widened(v1.s6) / ((signed char)-16)), (signed char)(tinyref_widened(v1.s7) / ((signed char)-16)), (signed char)(tinyref_widened(v1.s8) / ((signed char)-16)), (signed char)(tinyref_widened(v1.s9) / ((signed char)-16)), (signed char)(tinyref_widened(v1.sa) / ((signed char)-16)), (signed char)(tinyref_widened(v1.sb) / ((signed char)-16)), (signed char)(tinyref_widened(v1.sc) / ((signed char)-16)), (signed char)(tinyref_widened(v1.sd) / ((signed char)-16)), (signed char)(tinyref_widened(v1.se) / ((signed char)-16)), (signed char)(tinyref_widened(v1.sf) / ((signed char)-16)));
  tinyref_int32x16 v3 = make_tinyref_int32x16((int)tinyref_widened(v2.x), (int)tinyref_widened(v2.y), (int)tinyref_widened(v2.z), (int)tinyref_widened(v2.w), (int)tinyref_widened(v2.s4), (int)tinyref_widened(v2.s5), (int)tinyref_widened(v2.s6), (int)tinyref_widened(v2.s7), (int)tinyref_widened(v2.s8), (int)tinyref_widened(v2.s9), (int)tinyref_widened(v2.sa), (int)tinyref_widened(v2.sb), (int)tinyref_widened(v2.sc), (int)tinyref_widened(v2.sd), (int)tinyref_widened(v2.se), (int)tinyref_widened(v2.sf));
  tinyref_int32x8 v4 = make_tinyref_int32x8(v3.x, v3.y, v3.z, v3.w, v3.s4, v3.s5, v3.s6, v3.s7);
  tinyref_int32x8 v5 = make_tinyref_int32x8(v3.s8, v3.s9, v3.sa, v3.sb, v3.sc, v3.sd, v3.se, v3.sf);
  tinyref_int32x8 v6 = make_tinyref_int32x8((int)((unsigned int)v4.x + (unsigned int)v5.x), (int)((unsigned int)v4.y + (unsigned int)v5.y), (int)((unsigned int)v4.z + (unsigned int)v5.z), (int)((unsigned int)v4.w + (unsigned int)v5.w), (int)((unsigned int)v4.s4 + (unsigned int)v5.s4), (int)((unsigned int)v4.s5 + (unsigned int)v5.s5), (int)((unsigned int)v4.s6 + (unsigned int)v5.s6), (int)((unsigned int)v4.s7 + (unsigned int)v5.s7));
  int4 v7 = make_int4(v6.x, v6.y, v6.z, v6.w);
  int4 v8 = make_int4(v6.s4, v6.s5, v6.s6, v6.s7);
  int4 v9 = make_int4((int)((unsigned int)v7.x + (unsigned int)v8.x), (int)((unsigned int)v7.y + (unsigned int)v8.y), (int)((unsigned int)v7.z + (unsigned int)v8.z), (int)((unsigned int)v7.w + (unsigned int)v8.w));
  int2 v10 = make_int2(v9.x, v9.y);
  int2 v11 = make_int2(v9.z, v9.w);
  int2 v12 = make_int2((int)((unsigned int)v10.x + (unsigned int)v11.x), (int)((unsigned int)v10.y + (unsigned int)v11.y));
  int v13 = v12.x;
  int v14 = v12.y;
  int v15 = (int)((unsigned int)v13 + (unsigned int)v14);
  data0[0] = v15;
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.array([0], np.int32)),
    (0, np.array([-21, 94, 118, -55, -99, 26, 42, 71, 36, 55, 106, 106, 109, 92, 56, 107], np.int8)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(1), [np.array([-46], np.int32)], None, None),
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
kernel = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(bytes(code))), b"k_r_16"))
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
