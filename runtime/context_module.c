#include <stdlib.h>
#include <string.h>

#include "runtime/context.h"

/* A cubin is for one architecture and one driver generation; PTX is for all that come later. */
static arke_status load_image(device *d, const cache_entry *e, device_module **m, arke_error *err) {
  bool cubin = e->kernel.cubin != NULL && d->ops->assemble != NULL;
  if (cubin && d->ops->module_load(d, e->kernel.cubin, e->kernel.cubin_bytes, m, NULL) == ARKE_OK)
    return ARKE_OK;
  return d->ops->module_load(d, e->kernel.ptx, e->kernel.ptx_bytes, m, err);
}

arke_status context_module(arke_context *ctx, device *d, const cache_entry *e, loaded_module **m,
                           arke_error *err) {
  for (*m = ctx->modules; *m != NULL; *m = (*m)->next)
    if ((*m)->device == d && strcmp((*m)->sha256, e->kernel.sha256) == 0) {
      (*m)->uses++;
      return ARKE_OK;
    }
  loaded_module *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) return error_memory(err, "plan");
  arke_status status = load_image(d, e, &fresh->module, err);
  if (status != ARKE_OK) {
    free(fresh);
    return status;
  }
  fresh->device = d;
  fresh->uses = 1;
  memcpy(fresh->sha256, e->kernel.sha256, sizeof fresh->sha256);
  fresh->next = ctx->modules;
  ctx->modules = *m = fresh;
  return ARKE_OK;
}

void context_module_release(arke_context *ctx, loaded_module *m) {
  if (--m->uses > 0) return;
  loaded_module **link = &ctx->modules;
  while (*link != m) link = &(*link)->next;
  *link = m->next;
  m->device->ops->module_unload(m->device, m->module);
  free(m);
}
