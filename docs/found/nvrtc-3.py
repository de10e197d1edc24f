# nvrtc-3, NVRTC 13.0 to 13.5: the compiler crashes on sums of negated bytes behind a gate
# It needs cuda-bindings and nvidia-cuda-nvrtc, and no GPU. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess, sys
if "--child" not in sys.argv:  # The crash counts as wrong.
    done = subprocess.run([sys.executable, __file__, "--child"], timeout=60)
    if done.returncode < 0:
        print("wrong: the compiler ended its process by signal", -done.returncode)
    sys.exit(done.returncode if done.returncode in (0, 2) else 1)
try:
    from cuda.bindings import nvrtc

    version = nvrtc.nvrtcVersion()[1:]
except (ImportError, RuntimeError) as error:
    sys.exit(print(f"{error}. It needs cuda-bindings and nvidia-cuda-nvrtc") or 2)
SOURCE = r"""extern "C" __global__ void __launch_bounds__(32) k(int *data0, signed char *data1, short *data2, signed char *data3, int *data4) {
  int item_0 = threadIdx.x;
  int item_1 = threadIdx.y;
  int group_1 = blockIdx.y;
  int group_0 = blockIdx.x;
  int item_2 = threadIdx.z;
  int v1 = (int)((unsigned int)item_1 * (unsigned int)2);
  int v2 = (int)((unsigned int)item_0 + (unsigned int)v1);
  bool v3 = v2 < 1;
  int v4 = (int)((unsigned int)group_1 * (unsigned int)216);
  int v5 = (int)((unsigned int)group_0 * (unsigned int)72);
  int v6 = (int)((unsigned int)v4 + (unsigned int)v5);
  int v7 = (int)((unsigned int)item_2 * (unsigned int)9);
  int v8 = (int)((unsigned int)v6 + (unsigned int)v7);
  signed char v9 = data1[v8];
  short v10 = (short)(v9);
  short v11 = (short)((unsigned int)v10 * (unsigned int)((short)-1));
  signed char v12 = (signed char)v11;
  int v13 = (int)(v12);
  int v14 = (int)((unsigned int)item_0 * (unsigned int)18);
  int v15 = (int)((unsigned int)item_1 * (unsigned int)36);
  int v16 = (int)((unsigned int)v14 + (unsigned int)v15);
  int v17 = (int)((unsigned int)group_1 * (unsigned int)153);
  int v18 = (int)((unsigned int)v16 + (unsigned int)v17);
  int v19 = (int)((unsigned int)v18 + (unsigned int)2);
  signed char v20 = v3 ? data3[v19] : ((signed char)0);
  int v21 = (int)(v20);
  int v22 = (int)((unsigned int)v21 * (unsigned int)v13);
  int v23 = (int)((unsigned int)v18 + (unsigned int)11);
  signed char v24 = v3 ? data3[v23] : ((signed char)0);
  int v25 = (int)(v24);
  int v26 = (int)((unsigned int)v25 * (unsigned int)v13);
  int v27 = (int)((unsigned int)v8 + (unsigned int)1);
  signed char v28 = data1[v27];
  short v29 = (short)(v28);
  short v30 = (short)((unsigned int)v29 * (unsigned int)((short)-1));
  signed char v31 = (signed char)v30;
  int v32 = (int)(v31);
  int v33 = (int)((unsigned int)v18 + (unsigned int)3);
  signed char v34 = v3 ? data3[v33] : ((signed char)0);
  int v35 = (int)(v34);
  int v36 = (int)((unsigned int)v35 * (unsigned int)v32);
  int v37 = (int)((unsigned int)v22 + (unsigned int)v36);
  int v38 = (int)((unsigned int)v18 + (unsigned int)12);
  signed char v39 = v3 ? data3[v38] : ((signed char)0);
  int v40 = (int)(v39);
  int v41 = (int)((unsigned int)v40 * (unsigned int)v32);
  int v42 = (int)((unsigned int)v26 + (unsigned int)v41);
  int v43 = (int)((unsigned int)v8 + (unsigned int)2);
  signed char v44 = data1[v43];
  signed char v50 = v3 ? data3[0] : ((signed char)0);
  int v52 = (int)((unsigned int)v50 * (unsigned int)v44);
  signed char v54 = v3 ? data3[0] : ((signed char)0);
  int v56 = (int)((unsigned int)v54 * (unsigned int)v44);
  signed char v64 = v3 ? data3[0] : ((signed char)0);
  int v67 = (int)((unsigned int)v52 + (unsigned int)v64);
  signed char v70 = v3 ? data3[0] : ((signed char)0);
  int v73 = (int)((unsigned int)v56 + (unsigned int)v70);
  int v74 = (int)((unsigned int)v42 + (unsigned int)v73);
  signed char v76 = data1[0];
  signed char v82 = v3 ? data3[0] : ((signed char)0);
  int v84 = (int)((unsigned int)v82 * (unsigned int)v76);
  signed char v86 = v3 ? data3[0] : ((signed char)0);
  int v88 = (int)((unsigned int)v86 * (unsigned int)v76);
  signed char v96 = v3 ? data3[0] : ((signed char)0);
  int v99 = (int)((unsigned int)v84 + (unsigned int)v96);
  signed char v101 = v3 ? data3[0] : ((signed char)0);
  int v104 = (int)((unsigned int)v88 + (unsigned int)v101);
  signed char v106 = data1[0];
  signed char v112 = v3 ? data3[0] : ((signed char)0);
  int v114 = (int)((unsigned int)v112 * (unsigned int)v106);
  signed char v116 = v3 ? data3[0] : ((signed char)0);
  int v118 = (int)((unsigned int)v116 * (unsigned int)v106);
  signed char v126 = v3 ? data3[0] : ((signed char)0);
  int v129 = (int)((unsigned int)v114 + (unsigned int)v126);
  int v130 = (int)((unsigned int)v99 + (unsigned int)v129);
  int v131 = (int)((unsigned int)v67 + (unsigned int)v130);
  signed char v133 = v3 ? data3[0] : ((signed char)0);
  int v136 = (int)((unsigned int)v118 + (unsigned int)v133);
  int v137 = (int)((unsigned int)v104 + (unsigned int)v136);
  int v138 = (int)((unsigned int)v74 + (unsigned int)v137);
  signed char v146 = v3 ? data3[0] : ((signed char)0);
  int v152 = (int)((unsigned int)v131 + (unsigned int)v146);
  int v163 = v3 ? data4[0] : 0;
  int v164 = (int)((unsigned int)v152 + (unsigned int)v163);
  if (v3) { data0[0] = v164; }
  int v184 = v3 ? data4[0] : 0;
  int v185 = (int)((unsigned int)v138 + (unsigned int)v184);
  int v186 = (int)((unsigned int)v185 + (unsigned int)(-2));
  if (v3) { data0[0] = v186; }
}
"""
_, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernel.cu", 0, [], [])
(status,) = nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])
print("NVRTC", version, "says", status)
sys.exit(1 if int(status) else 0)
