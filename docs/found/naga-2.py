# naga-2, naga of wgpu 0.32: a barrier that one work-item reaches is accepted; issue 4369 of gfx-rs/wgpu
# It needs numpy and wgpu. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess, sys
if "--child" not in sys.argv:  # A crash and a hang count as wrong.
    done = subprocess.run([sys.executable, __file__, "--child"], timeout=60)
    sys.exit(done.returncode if done.returncode in (0, 2) else 1)
try:
    import numpy as np
    import wgpu
except ImportError as error:
    sys.exit(print(f"{error}. It needs numpy and wgpu") or 2)
SOURCE = r"""@compute @workgroup_size(4)
fn k(@builtin(local_invocation_id) id: vec3<u32>) {
  if (id.x == 1u) { workgroupBarrier(); }
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.array([0], np.uint32)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
]
memory = [np.concatenate([np.zeros(at, np.uint8), x.view(np.uint8)]) for at, x in arrays]
adapters = [a for a in wgpu.gpu.enumerate_adapters_sync() if '' in a.summary]
adapters = [a for a in adapters if a.info["backend_type"] in ("Vulkan", "Metal", "D3D12")]
if not adapters:
    sys.exit(print("no adapter of", '') or 2)
adapter = adapters[0]
features = [name for name in adapter.features if name in ("shader-f16", "shader-int64", "shader-f64")]
device = adapter.request_device_sync(required_features=features, required_limits=adapter.limits)
try:
    device.create_shader_module(code=SOURCE)
except wgpu.GPUError as error:
    print("right: it is refused:", error)
    sys.exit(0)
print("wrong: it compiles")
sys.exit(1)
