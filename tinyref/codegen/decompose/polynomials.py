"""Constants of the elementary functions.

Each polynomial minimises the sum of squared relative errors of the result over many Chebyshev
points of its interval. This is within a small factor of the best polynomial (Trefethen,
"Approximation Theory and Approximation Practice", 2013, chapter 16). The first three coefficients
were rounded to their format one after the other. The others were then fitted to the rest (compare
Brisebarre and Chevillard, "Efficient polynomial L-infinity approximations", 2007). The comments
state the errors; `tests/codegen/test_decompose_elementary.py` checks them.
"""

from __future__ import annotations

from tinyref.dtype import DType, dtypes

# Coefficients of a polynomial in each format, the constant term first.
Table = dict[DType, tuple[float, ...]]
# A number in each format as a sum of two floats.
Split = dict[DType, tuple[float, float]]

# The first bits of 2/pi after the point.
TWO_OVER_PI_BITS = 1280
TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)

# pi as its first 12 or 26 bits, and the rest.
PI: Split = {
    dtypes.float32: (3.140625, 0.0009676535846665502),
    dtypes.float64: (3.1415926218032837, 3.178650954705639e-08),
}

# pi / 2 as its bits down to these powers of two, and the rest. The multiples of the first three by
# integers of 10 or 22 bits are exact. The multiples of the first two end at the last bit of a
# float near pi / 4.
HALF_PI_ENDS: dict[DType, tuple[int, ...]] = {
    dtypes.float32: (-13, -24, -38),
    dtypes.float64: (-30, -53, -84),
}
HALF_PI: Table = {
    dtypes.float32: (
        1.5706787109375,
        0.0001175999641418457,
        1.5890691429376602e-08,
        2.5633440682570896e-12,
    ),
    dtypes.float64: (
        1.5707963267341256,
        6.077094383272197e-11,
        6.12323399409214e-17,
        1.6446256936324258e-26,
    ),
}
# Below these limits, the nearest multiple of pi / 2 has a factor of 10 or 22 bits.
NEAR = {dtypes.float32: 1608.0, dtypes.float64: 6588000.0}

THIRD: Split = {
    dtypes.float32: (0.3333333432674408, -9.934107758624577e-09),
    dtypes.float64: (0.3333333333333333, 1.850371707708594e-17),
}
TWO_OVER_LN_2: Split = {
    dtypes.float32: (2.885390043258667, 3.851926067000022e-08),
    dtypes.float64: (2.8853900817779268, 4.0710547481862066e-17),
}

# 2^r == 1 + r * P(r) for |r| <= 1/2. All errors are relative errors of the result.
EXPONENTIAL: Table = {
    # Within 2^-28.1.
    dtypes.float32: (
        0.6931471824645996,
        0.24022644758224487,
        0.055503591895103455,
        0.00961883831769228,
        0.0013391210231930017,
        0.0001523906976217404,
    ),
    # Within 2^-57.3.
    dtypes.float64: (
        0.6931471805599453,
        0.24022650695910133,
        0.05550410866482226,
        0.009618129107593498,
        0.0013333558146381367,
        0.00015403530457763922,
        1.5252733804808244e-05,
        1.321543500169918e-06,
        1.0178087061883287e-07,
        7.0738259448336906e-09,
        4.4499131024700257e-10,
    ),
}

# log2(1 + f) == 3/2 f + f * P(f) for sqrt(1/2) <= 1 + f <= sqrt(2).
LOGARITHM: Table = {
    # Within 2^-27.6.
    dtypes.float32: (
        -0.05730495974421501,
        -0.7213473916053772,
        0.48089876770973206,
        -0.36069414019584656,
        0.28853458166122437,
        -0.2396411895751953,
        0.20521698892116547,
        -0.19152343273162842,
        0.1825968474149704,
        -0.10449803620576859,
    ),
    # Within 2^-56.2.
    dtypes.float64: (
        -0.057304959111036585,
        -0.7213475204444822,
        0.48089834696297623,
        -0.3606737602218993,
        0.2885390081807651,
        -0.24044917354568435,
        0.20609929128899912,
        -0.18033687457090627,
        0.16029945835192114,
        -0.14426976307318903,
        0.1311540680361022,
        -0.12021757462154722,
        0.11096915683508998,
        -0.10315991318915822,
        0.09640432207400919,
        -0.08924422697719074,
        0.08190393903728509,
        -0.0828032625936557,
        0.09400612262889474,
        -0.08410070146132742,
        0.0356913312921839,
    ),
}

# atanh(s) == s * (1 + z / 3 + z^2 * P(z)) with z = s^2, for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
AREA: Table = {
    # Within 2^-28.3.
    dtypes.float32: (
        0.20000000298023224,
        0.14285671710968018,
        0.11108788847923279,
        0.09435764700174332,
    ),
    # Within 2^-56.3.
    dtypes.float64: (
        0.2,
        0.1428571428571316,
        0.11111111111386056,
        0.09090909077458584,
        0.07692304971754209,
        0.06667069334089223,
        0.0586065830392196,
        0.05793295846383435,
    ),
}

# sin(r) == r + r * z * P(z) with z = r^2, for |r| <= pi / 4.
SINE: Table = {
    # Within 2^-32.3.
    dtypes.float32: (
        -0.1666666716337204,
        0.008333372883498669,
        -0.0001985029230127111,
        2.8043166366842343e-06,
    ),
    # Within 2^-62.9.
    dtypes.float64: (
        -0.16666666666666666,
        0.008333333333333099,
        -0.00019841269841054608,
        2.755731912793155e-06,
        -2.5052085628957495e-08,
        1.6056207213535326e-10,
        -7.482915695756808e-13,
    ),
}

# cos(r) == 1 + z * P(z) with z = r^2, for |r| <= pi / 4.
COSINE: Table = {
    # Within 2^-33.0.
    dtypes.float32: (
        -0.5,
        0.04166664555668831,
        -0.0013887310633435845,
        2.4432574718957767e-05,
    ),
    # Within 2^-63.4.
    dtypes.float64: (
        -0.5,
        0.04166666666666659,
        -0.001388888888887234,
        2.4801587288459433e-05,
        -2.755731407763519e-07,
        2.087568822781481e-09,
        -1.1357932447572146e-11,
    ),
}
