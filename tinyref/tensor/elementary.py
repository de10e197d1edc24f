"""Polynomials for functions without a primitive op. Highest power first; z = x * x.

The coefficients interpolate at Chebyshev nodes (Trefethen, "Approximation Theory and Approximation
Practice", chapter 3), and were computed with 50 digits. A test checks that the error is below half
an ULP of the type. The argument reductions are from Cody and Waite, "Software Manual for the
Elementary Functions", 1980.
"""

from __future__ import annotations

from tinyref.dtype import DType, dtypes

Coefficients = tuple[float, ...]

# atan(x) = x + x z P(z) for |x| up to tan(pi/8).
ATAN_FLOAT32 = (
    -0.06449835225,
    0.1074309967,
    -0.1426389711,
    0.1999953879,
    -0.3333333175,
)
ATAN_FLOAT64 = (
    -0.0191620689159025739,
    0.0392195525325512941,
    -0.0508503049281094054,
    0.0585806875686151055,
    -0.066645022156714471,
    0.076921825351166482,
    -0.0909090454988461095,
    0.111111110145610136,
    -0.142857142846578936,
    0.199999999999954792,
    -0.333333333333333301,
)

# asin(x) = x + x z P(z) for |x| up to 1/2.
ASIN_FLOAT32 = (
    0.03809396215,
    0.02655066296,
    0.04500189409,
    0.07498852962,
    0.1666667243,
)
ASIN_FLOAT64 = (
    0.0287784426125930408,
    -0.0148814093928180666,
    0.0174193579648848572,
    0.00545087818772054995,
    0.010324318288744112,
    0.0114789526902573867,
    0.0139712353011245391,
    0.0173523912659092279,
    0.0223721730020055974,
    0.0303819441370852143,
    0.0446428571463733809,
    0.0749999999999842426,
    0.166666666666666678,
)

# erf(x) = x + x P(z) for |x| up to 1. Above it, erf(x) = 1 - P(x - 1) ** 8 until it rounds to 1.
# Both are fitted to the relative error of the result, as in codegen/decompose. The eighth root of
# erfc is smooth, and three squarings restore erfc. This follows Hastings, "Approximations for
# Digital Computers", 1955, which has a sixteenth power in the denominator.
ERF_FLOAT32 = (
    7.843058119760826e-05,
    -0.0008007017895579338,
    0.005187986418604851,
    -0.02685365453362465,
    0.1128358244895935,
    -0.3761262595653534,
    0.12837916612625122,
)
ERF_FLOAT64 = (
    6.684615836563969e-11,
    -1.1830460332017383e-09,
    1.4786513982117005e-08,
    -1.63706330642085e-07,
    1.6463086593162611e-06,
    -1.492573847256115e-05,
    0.00012055337776491708,
    -0.0008548327189571041,
    0.005223977629095071,
    -0.026866170645619487,
    0.11283791670958743,
    -0.37612638903183876,
    0.1283791670955126,
)
ERFC_FLOAT32 = (
    0.0001481243671150878,
    -0.0015619146870449185,
    0.002809138037264347,
    0.018642311915755272,
    -0.040446002036333084,
    -0.26177942752838135,
    0.793580174446106,
)
ERFC_FLOAT64 = (
    8.483929625065738e-14,
    -2.5022871357059545e-12,
    3.449799870028841e-11,
    -2.991009942815921e-10,
    1.8217389358398008e-09,
    -7.713993126207007e-09,
    1.7674962530235553e-08,
    1.0952209360165359e-08,
    -1.2381234307080896e-07,
    -4.955877473945942e-08,
    -4.516958606917476e-06,
    5.085834320964085e-05,
    -2.531517064403721e-05,
    -0.0012935952388793582,
    0.0026035470846782907,
    0.01871814427595448,
    -0.04045750261168953,
    -0.2617790418255845,
    0.7935801874438461,
)

# sinh(x) = x + x z P(z) for |x| up to 1.
SINH_FLOAT32 = (
    2.806331254e-6,
    0.0001983809559,
    0.008333339695,
    0.1666666665,
)
SINH_FLOAT64 = (
    2.84455967364232391e-15,
    7.6466242803245125e-13,
    1.60590484100812922e-10,
    2.50521083639721862e-8,
    2.75573192240406119e-6,
    0.000198412698412697728,
    0.00833333333333333337,
    0.166666666666666667,
)


def for_dtype(dtype: DType, float32: Coefficients, float64: Coefficients) -> Coefficients:
    """Return the table for a computation in `dtype`."""
    return float64 if dtype is dtypes.float64 else float32
