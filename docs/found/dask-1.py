# dask-1, dask 2026.8.0: eye of more columns than rows raises an error when it is computed.
# It needs dask and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import dask.array as da, numpy as np
except ImportError as error:
    sys.exit(print(f"{error}. It needs dask and numpy") or 2)
expected = np.eye(2, 3)
try:
    got = da.eye(2, M=3).compute()
except Exception as error:
    got = error
print(f"expected {expected.tolist()}, got {got!r}")
wrong = not np.array_equal(got, expected)
sys.exit(print("wrong" if wrong else "right") or wrong)
