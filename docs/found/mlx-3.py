# mlx-3, MLX 0.32.4: sigmoid of float16 is 0 below -11.1, where the value is up to 1.5e-5.
# It needs mlx and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import mlx.core as mx, numpy as np
except ImportError as error:
    sys.exit(print(f"{error}. It needs mlx and numpy") or 2)
mx.set_default_device(mx.cpu)
x = np.array([-10.0, -11.25, -13.0], "float16")
expected = (1 / (1 + np.exp(-x.astype("float64")))).astype("float16")
got = np.array(mx.sigmoid(mx.array(x)))
print(f"expected {expected.tolist()}, got {got.tolist()}")
wrong = not np.allclose(got, expected, rtol=0.1, atol=0)
sys.exit(print("wrong" if wrong else "right") or wrong)
