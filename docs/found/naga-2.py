# naga-2, naga of wgpu 0.32: a barrier that one work-item reaches is accepted; issue 4369 of gfx-rs/wgpu
# It needs numpy and wgpu. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess
import sys

import numpy as np

if "--child" not in sys.argv:  # A crash and a hang are answers, too.
    done = subprocess.run([sys.executable, __file__, "--child"], timeout=60)
    sys.exit({0: 0, 2: 2}.get(done.returncode, 1))
SOURCE = r"""@compute @workgroup_size(4)
fn k(@builtin(local_invocation_id) id: vec3<u32>) {
  if (id.x == 1u) { workgroupBarrier(); }
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.array([0], np.uint32)),
]
checks = [  # An array, its elements, values that are right, the least and the largest right value.
]
memory = [np.concatenate([np.zeros(at, np.uint8), x.view(np.uint8)]) for at, x in arrays]
try:
    import wgpu

    adapters = [a for a in wgpu.gpu.enumerate_adapters_sync() if '' in a.summary]
    adapter = [a for a in adapters if a.info["backend_type"] in ("Vulkan", "Metal", "D3D12")][0]
except Exception as error:
    print("no adapter of", '', error)
    sys.exit(2)
features = [name for name in adapter.features if name in ("shader-f16", "shader-int64", "shader-f64")]
device = adapter.request_device_sync(required_features=features, required_limits=adapter.limits)
try:
    device.create_shader_module(code=SOURCE)
except wgpu.GPUError as error:
    print("right: it is refused:", error)
    sys.exit(0)
print("wrong: it compiles")
sys.exit(1)
