/* A GPU for tests of the whole tuner: kernels run on the emulator, so that right and wrong are real; their
 * times come from planted_times on a drifting clock; a fault leaves the context useless, as on a real GPU.
 */
#ifndef ARKE_TESTS_FAKE_GPU_H
#define ARKE_TESTS_FAKE_GPU_H

#include "runtime/device.h"

#define FAKE_GPU_NAME "NVIDIA Fake"

arke_status fake_gpu_open(int index, device **d, arke_error *err);

#endif
