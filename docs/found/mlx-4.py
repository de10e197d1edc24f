# mlx-4, MLX 0.32.4: a convolution and layer_norm of float64 compute in float32.
# It needs mlx and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import mlx.core as mx, numpy as np
except ImportError as error:
    sys.exit(print(f"{error}. It needs mlx and numpy") or 2)
mx.set_default_device(mx.cpu)
x = np.array([1 / 3, 0.1, 0.7, 2.0])
expected = np.stack([x / 3, (x - x.mean()) / np.sqrt(x.var() + 2.0**-10)])
scaled = mx.conv_general(mx.array(x, mx.float64).reshape(1, 4, 1), mx.full((1, 1, 1), 1 / 3, mx.float64))
got = np.stack([np.array(scaled).ravel(), np.array(mx.fast.layer_norm(mx.array(x, mx.float64), None, None, 2.0**-10))])
print(f"expected {expected.tolist()}, got {got.tolist()}")
sys.exit(print("wrong" if (wrong := not np.allclose(got, expected, rtol=1e-12)) else "right") or wrong)
