/* An NVIDIA driver as FFmpeg loads it, with a GPU that fails as MMLAKE_DRIVER says: built twice, as libcuda and as
   libnvcuvid. STUBS are the functions of which no test wants more than that they succeed. */
#include <stdlib.h>
#include <string.h>

static int says(const char *what) {
    const char *mode = getenv("MMLAKE_DRIVER");
    return mode && !strcmp(mode, what);
}
#define OK(name) int name(void) { return 0; }
int cuInit(unsigned flags) { return says("absent") ? 100 : 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) {
    *context = (void *)1;
    return says("memory") ? 2 : 0;
}
int cuGetErrorName(int error, const char **name) {
    *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
int cuGetErrorString(int error, const char **text) { *text = "as the driver says"; return 0; }
int cuvidCreateVideoParser(void **parser, void *wanted) { *parser = (void *)1; return says("failure") ? 999 : 0; }
struct caps { int codec, chroma; unsigned depth, reserved[3]; unsigned char supported, engines; unsigned short formats;
              unsigned width, height, blocks; unsigned short least_width, least_height; };
int cuvidGetDecoderCaps(struct caps *caps) {
    caps->supported = !says("codec");
    caps->formats = 3, caps->width = caps->height = 8192, caps->blocks = 1 << 20;
    caps->least_width = caps->least_height = 16;
    return 0;
}
STUBS
