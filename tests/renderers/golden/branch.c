typedef _Bool boolean;
typedef int int32;
void branch(void **buffers, const int *variables) {
  int32 *data0 = buffers[0];
  int32 var_n = variables[0];
  boolean v1 = var_n < 5;
  if (v1) {
    data0[0] = var_n;
  }
}
