/* Functions that take floats and doubles by one name. */
#define sqrt(x) TINYREF_BY_TYPE(sqrt, x)(x)
#define trunc(x) TINYREF_BY_TYPE(trunc, x)(x)
#define exp2(x) TINYREF_BY_TYPE(exp2, x)(x)
#define log2(x) TINYREF_BY_TYPE(log2, x)(x)
#define sin(x) TINYREF_BY_TYPE(sin, x)(x)
#define pow(x, y) TINYREF_BY_TYPE(pow, x)(x, y)
