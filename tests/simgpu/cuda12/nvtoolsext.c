/* libnvToolsExt.so.1, which PyTorch 2.6 of Debian links: NVTX 3 of NVIDIA's headers as a library.  Newer PyTorch has the same inside. */
#define NVTX_EXPORT_API
#include <nvtx3/nvToolsExt.h>
