#include "runtime/cuda_device.h"

arke_status cuda_stream_create(device *d, void **stream, arke_error *err) {
  cuda_stream s = NULL;
  *stream = NULL;
  CUDA_CALL(cuda_of(d), err, stream_create, "cuStreamCreate", &s, CUDA_STREAM_NON_BLOCKING);
  *stream = s;
  return ARKE_OK;
}

void cuda_stream_destroy(device *d, void *stream) {
  cuda_gpu *g = cuda_of(d);
  bool pushed;
  if (stream == NULL || cuda_enter(g, &pushed, NULL) != ARKE_OK) return;
  g->api.stream_destroy(stream);
  cuda_leave(g, pushed);
}

arke_status cuda_stream_fill(device *d, device_ptr p, int byte, size_t bytes, void *stream, arke_error *err) {
  if (bytes == 0) return ARKE_OK;
  CUDA_CALL(cuda_of(d), err, stream_fill, "cuMemsetD8Async", p, (unsigned char)byte, bytes, stream);
  return ARKE_OK;
}

arke_status cuda_event_create(device *d, void **event, arke_error *err) {
  cuda_event e = NULL;
  *event = NULL;
  CUDA_CALL(cuda_of(d), err, event_create, "cuEventCreate", &e, 0);
  *event = e;
  return ARKE_OK;
}

void cuda_event_destroy(device *d, void *event) {
  cuda_gpu *g = cuda_of(d);
  bool pushed;
  if (event == NULL || cuda_enter(g, &pushed, NULL) != ARKE_OK) return;
  g->api.event_destroy(event);
  cuda_leave(g, pushed);
}

arke_status cuda_event_record(device *d, void *event, void *stream, arke_error *err) {
  CUDA_CALL(cuda_of(d), err, event_record, "cuEventRecord", event, stream);
  return ARKE_OK;
}

arke_status cuda_event_elapsed(device *d, void *begin, void *end, double *ns, arke_error *err) {
  cuda_gpu *g = cuda_of(d);
  float ms = 0;
  CUDA_CALL(g, err, event_synchronize, "cuEventSynchronize", end);
  CUDA_CALL(g, err, event_elapsed, "cuEventElapsedTime", &ms, begin, end);
  *ns = (double)ms * 1e6;
  return ARKE_OK;
}

arke_status cuda_graph_begin(device *d, void *stream, arke_error *err) {
  CUDA_CALL(cuda_of(d), err, capture_begin, "cuStreamBeginCapture", stream, CUDA_CAPTURE_RELAXED);
  return ARKE_OK;
}

arke_status cuda_graph_end(device *d, void *stream, void **graph_exec, arke_error *err) {
  cuda_gpu *g = cuda_of(d);
  cuda_graph graph = NULL;
  cuda_graph_exec exec = NULL;
  *graph_exec = NULL;
  CUDA_CALL(g, err, capture_end, "cuStreamEndCapture", stream, &graph);
  bool pushed;
  arke_status status = cuda_enter(g, &pushed, err);
  if (status != ARKE_OK) return status;
  status = cuda_check(&g->api, g->api.graph_instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags", err);
  g->api.graph_destroy(graph);
  cuda_leave(g, pushed);
  *graph_exec = exec;
  return status;
}

arke_status cuda_graph_launch(device *d, void *graph_exec, void *stream, arke_error *err) {
  CUDA_CALL(cuda_of(d), err, graph_launch, "cuGraphLaunch", graph_exec, stream);
  return ARKE_OK;
}

void cuda_graph_destroy(device *d, void *graph_exec) {
  cuda_gpu *g = cuda_of(d);
  bool pushed;
  if (graph_exec == NULL || cuda_enter(g, &pushed, NULL) != ARKE_OK) return;
  g->api.graph_exec_destroy(graph_exec);
  cuda_leave(g, pushed);
}
