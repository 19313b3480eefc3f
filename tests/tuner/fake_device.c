#include "tests/tuner/fake_device.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"

#define FILL_BYTES_PER_NS 3000

typedef struct fake_graph {
  int n, capacity;
  fake_kernel *kernels;
} fake_graph;

typedef struct fake_event {
  double at_ns;
} fake_event;

static fake_device *fake(device *d) {
  return (fake_device *)d;
}

static void advance(fake_device *d, const fake_kernel *k) {
  double factor = 1 + d->drift * sin(6.283185307179586 * d->now_ns / d->period_ns);
  factor *= exp(d->noise * random_normal(d->seed, d->draws++));
  if (random_uniform(d->seed + 1, d->draws++) < d->hiccup) factor *= 3;
  double ns = (d->filled && k->filled_ns > 0 ? k->filled_ns : k->true_ns) * factor * (1 + k->power * d->heat);
  d->now_ns += ns;
  d->filled = false;
  d->heat += (1 - d->heat) * (1 - exp(-ns / d->heating_ns));
}

static arke_status launch(device *d, device_kernel *k, const device_launch *l, arke_error *err) {
  (void)l;
  fake_device *f = fake(d);
  f->launches++;
  if (f->fail_launch && f->launches >= f->fail_launch)
    return error_set(err, ARKE_ERR_FAULT, "fake", "planted fault");
  const fake_kernel *kernel = (const void *)k;
  if (!f->capturing) {
    if (f->recorded) f->now_ns += f->event_ns;
    f->recorded = false;
    advance(f, kernel);
    return ARKE_OK;
  }
  fake_graph *g = f->graph;
  if (g->n == g->capacity) {
    g->capacity = g->capacity ? 2 * g->capacity : 64;
    g->kernels = realloc(g->kernels, (size_t)g->capacity * sizeof *g->kernels);
  }
  g->kernels[g->n++] = *kernel;
  return ARKE_OK;
}

static arke_status object_create(device *d, void **object, arke_error *err) {
  (void)err;
  fake(d)->open_objects++;
  *object = calloc(1, sizeof(fake_event));
  return ARKE_OK;
}

static void object_destroy(device *d, void *object) {
  fake(d)->open_objects--;
  free(object);
}

static arke_status event_record(device *d, void *event, void *stream, arke_error *err) {
  (void)stream;
  (void)err;
  fake_device *f = fake(d);
  f->now_ns += f->event_ns;
  f->recorded = true;
  ((fake_event *)event)->at_ns = f->tick_ns > 0 ? floor(f->now_ns / f->tick_ns) * f->tick_ns : f->now_ns;
  return ARKE_OK;
}

static arke_status event_elapsed(device *d, void *begin, void *end, double *ns, arke_error *err) {
  (void)d;
  (void)err;
  *ns = ((fake_event *)end)->at_ns - ((fake_event *)begin)->at_ns;
  return ARKE_OK;
}

static arke_status graph_begin(device *d, void *stream, arke_error *err) {
  (void)stream;
  (void)err;
  fake(d)->capturing = true;
  fake(d)->heat = 0;
  fake(d)->graph = calloc(1, sizeof(fake_graph));
  return ARKE_OK;
}

static arke_status graph_end(device *d, void *stream, void **graph, arke_error *err) {
  (void)stream;
  (void)err;
  fake(d)->capturing = false;
  fake(d)->open_objects++;
  *graph = fake(d)->graph;
  return ARKE_OK;
}

static arke_status graph_launch(device *d, void *graph, void *stream, arke_error *err) {
  (void)stream;
  (void)err;
  const fake_graph *g = graph;
  for (int i = 0; i < g->n; i++) advance(fake(d), &g->kernels[i]);
  return ARKE_OK;
}

static void graph_destroy(device *d, void *graph) {
  fake(d)->open_objects--;
  free(((fake_graph *)graph)->kernels);
  free(graph);
}

static arke_status stream_fill(device *d, device_ptr p, int byte, size_t bytes, void *stream,
                               arke_error *err) {
  (void)p, (void)byte, (void)stream, (void)err;
  fake_device *f = fake(d);
  f->fills++;
  f->filled = true;
  f->now_ns += (double)bytes / FILL_BYTES_PER_NS;
  return ARKE_OK;
}

static arke_status mem_alloc(device *d, size_t bytes, const char *name, device_ptr *p, arke_error *err) {
  (void)bytes, (void)name, (void)err;
  *p = (device_ptr)++fake(d)->open_objects; /* nobody looks at what is there */
  return ARKE_OK;
}

static void mem_free(device *d, device_ptr p) {
  (void)p;
  fake(d)->open_objects--;
}

static const device_ops ops = {.mem_alloc = mem_alloc,
                               .mem_free = mem_free,
                               .launch = launch,
                               .stream_fill = stream_fill,
                               .stream_create = object_create,
                               .stream_destroy = object_destroy,
                               .event_create = object_create,
                               .event_destroy = object_destroy,
                               .event_record = event_record,
                               .event_elapsed = event_elapsed,
                               .graph_begin = graph_begin,
                               .graph_end = graph_end,
                               .graph_launch = graph_launch,
                               .graph_destroy = graph_destroy};

void fake_device_init(fake_device *d, uint64_t seed) {
  *d = (fake_device){
      .base = {&ops}, .drift = 0.15, .period_ns = 2e9, .noise = 0.01, .heating_ns = 1e8, .seed = seed};
}
