#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/ptx_parser.h"

/* The module and the memory it lives in; the public pointer is to the first member. */
typedef struct owned_module {
  ptx_module module;
  arena memory;
} owned_module;

enum { MAX_PARAM_BYTES = 32764 }; /* PTX ISA 6.4.2, from PTX 8.1 on */

void *ptx_append(ptx_parser *p, ptx_array *a, size_t size) {
  if (a->n == a->capacity) {
    uint32_t capacity = a->capacity == 0 ? 8 : 2 * a->capacity;
    void *items = arena_array(p->scratch, capacity, size);
    if (items == NULL || capacity < a->capacity) return NULL;
    if (a->n != 0) memcpy(items, a->items, a->n * size);
    a->items = items;
    a->capacity = capacity;
  }
  return memset((char *)a->items + size * a->n++, 0, size);
}

arke_status ptx_fail(ptx_parser *p, arke_status code, const ptx_token *t, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return error_set(p->err, code, "ptx", "line %d:%d: %s", t->line, t->column, text);
}

arke_status ptx_out_of_memory(ptx_parser *p) {
  return error_memory(p->err, "ptx");
}

void ptx_advance(ptx_parser *p) {
  p->token = ptx_lex_next(&p->lexer);
}

bool ptx_is_punct(const ptx_token *t, char c) {
  return t->kind == PTX_TOKEN_PUNCT && t->text[0] == c;
}

bool ptx_is_word(const ptx_token *t, const char *text) {
  return (t->kind == PTX_TOKEN_WORD || t->kind == PTX_TOKEN_DOT_WORD) && t->length == strlen(text) &&
         memcmp(t->text, text, t->length) == 0;
}

arke_status ptx_expect(ptx_parser *p, char c, const char *after) {
  if (!ptx_is_punct(&p->token, c)) {
    if (p->token.kind == PTX_TOKEN_END)
      return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "'%c' is expected after %s, but the text ends", c,
                      after);
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "'%c' is expected after %s, found '%.*s'", c, after,
                    (int)p->token.length, p->token.text);
  }
  ptx_advance(p);
  return ARKE_OK;
}

static arke_status unexpected(ptx_parser *p, const char *where) {
  return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "'%.*s' is not expected %s", (int)p->token.length,
                  p->token.text, where);
}

/* A list of up to three numbers: 384 or 2, 1, 1. */
static arke_status parse_dimensions(ptx_parser *p, uint32_t out[3]) {
  out[0] = out[1] = out[2] = 1;
  for (int k = 0; k < 3; k++) {
    uint64_t v = 0;
    TRY(ptx_parse_integer(p, "a dimension", 1, 65535, &v));
    out[k] = (uint32_t)v;
    if (!ptx_is_punct(&p->token, ',')) return ARKE_OK;
    if (k < 2) ptx_advance(p);
  }
  return unexpected(p, "after three dimensions");
}

static arke_status parse_kernel_directives(ptx_parser *p) {
  ptx_kernel *k = p->kernel;
  const struct {
    const char *text;
    uint32_t *dimensions, *number;
    bool of_clusters;
  } directives[] = {
      {".reqntid", k->reqntid, NULL, false},
      {".maxntid", k->maxntid, NULL, false},
      {".reqnctapercluster", k->reqnctapercluster, NULL, true},
      {".minnctapersm", NULL, &k->minnctapersm, false},
      {".maxnreg", NULL, &k->maxnreg, false},
      {".maxclusterrank", NULL, &k->maxclusterrank, true},
  };
  while (p->token.kind == PTX_TOKEN_DOT_WORD) {
    if (ptx_is_word(&p->token, ".explicitcluster")) {
      TRY(ptx_check_cluster_directive(p, &p->token));
      k->explicit_cluster = true;
      ptx_advance(p);
      continue;
    }
    if (ptx_is_word(&p->token, ".pragma")) {
      while (p->token.kind != PTX_TOKEN_END && !ptx_is_punct(&p->token, ';')) ptx_advance(p);
      TRY(ptx_expect(p, ';', "a .pragma"));
      continue;
    }
    size_t d = 0;
    while (d < COUNT_OF(directives) && !ptx_is_word(&p->token, directives[d].text)) d++;
    if (d == COUNT_OF(directives))
      return ptx_fail(p, ARKE_ERR_UNSUPPORTED, &p->token, "unknown kernel directive '%.*s'",
                      (int)p->token.length, p->token.text);
    if (directives[d].of_clusters) TRY(ptx_check_cluster_directive(p, &p->token));
    ptx_advance(p);
    if (directives[d].dimensions != NULL) {
      TRY(parse_dimensions(p, directives[d].dimensions));
    } else {
      uint64_t v = 0;
      TRY(ptx_parse_integer(p, "a number", 1, 65535, &v));
      *directives[d].number = (uint32_t)v;
    }
  }
  return ARKE_OK;
}

static arke_status parse_params(ptx_parser *p) {
  if (!ptx_is_punct(&p->token, '(')) return ARKE_OK;
  ptx_advance(p);
  uint64_t at = 0;
  while (!ptx_is_punct(&p->token, ')')) {
    ptx_declaration d;
    if (!ptx_is_word(&p->token, ".param")) return unexpected(p, "among parameters: .param is");
    ptx_advance(p);
    TRY(ptx_parse_declaration(p, &d));
    at = (at + d.align - 1) & ~(uint64_t)(d.align - 1);
    if (d.unsized || at + d.bytes > MAX_PARAM_BYTES)
      return ptx_fail(p, ARKE_ERR_INVALID, &d.name, "the parameters take more than %d bytes",
                      MAX_PARAM_BYTES);
    if (ptx_names_find(&p->names, d.name.text, d.name.length) != NULL &&
        ptx_names_find(&p->names, d.name.text, d.name.length)->scope == p->names.scope)
      return ptx_fail(p, ARKE_ERR_INVALID, &d.name, "parameter '%.*s' is declared twice", (int)d.name.length,
                      d.name.text);
    ptx_param *param = ptx_append(p, &p->params, sizeof *param);
    if (param == NULL) return ptx_out_of_memory(p);
    *param = (ptx_param){arena_strndup(p->out, d.name.text, d.name.length), (uint32_t)at, (uint32_t)d.bytes,
                         d.align};
    if (param->name == NULL ||
        !ptx_names_add(&p->names, d.name.text, d.name.length, PTX_NAME_PARAM, p->params.n - 1))
      return ptx_out_of_memory(p);
    at += d.bytes;
    if (!ptx_is_punct(&p->token, ',')) break;
    ptx_advance(p);
  }
  p->kernel->param_bytes = (uint32_t)at;
  return ptx_expect(p, ')', "the parameters");
}

/* Copies a growing array into the module. */
static bool keep(ptx_parser *p, const ptx_array *a, size_t size, const void *to, uint32_t *n) {
  void *items = arena_array(p->out, a->n, size);
  if (items == NULL) return false;
  if (a->n != 0) memcpy(items, a->items, a->n * size);
  memcpy((void *)to, &items, sizeof items);
  *n = a->n;
  return true;
}

static bool ends_kernel(const ptx_instruction *i) {
  return i->guard == PTX_NOWHERE && (i->opcode == PTX_RET || i->opcode == PTX_EXIT || i->opcode == PTX_BRA ||
                                     i->opcode == PTX_BRX || i->opcode == PTX_TRAP);
}

/* Running off the end means ret: makes it explicit, so that every label and successor is an instruction. */
static arke_status close_kernel(ptx_parser *p, int line) {
  const ptx_instruction *all = p->instructions.items;
  bool needed = p->instructions.n == 0 || !ends_kernel(&all[p->instructions.n - 1]) ||
                p->end_label == p->instructions.n;
  if (needed) {
    ptx_instruction *i = ptx_append(p, &p->instructions, sizeof *i);
    if (i == NULL) return ptx_out_of_memory(p);
    *i = (ptx_instruction){.opcode = PTX_RET,
                           .unit = PTX_UNIT_CONTROL,
                           .vector = 1,
                           .guard = PTX_NOWHERE,
                           .target = PTX_NOWHERE,
                           .reconverge = PTX_NOWHERE,
                           .line = line,
                           .column = 1,
                           .text = "ret"};
  }
  ptx_kernel *k = p->kernel;
  if (!keep(p, &p->params, sizeof(ptx_param), &k->params, &k->n_params) ||
      !keep(p, &p->families, sizeof(ptx_register_family), &k->families, &k->n_families) ||
      !keep(p, &p->instructions, sizeof(ptx_instruction), &k->instructions, &k->n_instructions))
    return ptx_out_of_memory(p);
  return ptx_find_reconvergence(p, (ptx_instruction *)k->instructions, k->n_instructions);
}

static arke_status parse_entry(ptx_parser *p) {
  ptx_advance(p);
  ptx_token name = p->token;
  if (name.kind != PTX_TOKEN_WORD) return unexpected(p, "where a kernel's name is");
  ptx_advance(p);
  for (uint32_t k = 0; k < p->kernels.n; k++) {
    const char *other = ((const ptx_kernel *)p->kernels.items)[k].name;
    if (strlen(other) == name.length && memcmp(other, name.text, name.length) == 0)
      return ptx_fail(p, ARKE_ERR_INVALID, &name, "kernel '%s' is defined twice", other);
  }
  p->kernel = ptx_append(p, &p->kernels, sizeof *p->kernel);
  if (p->kernel == NULL) return ptx_out_of_memory(p);
  *p->kernel = (ptx_kernel){.name = arena_strndup(p->out, name.text, name.length),
                            .index = (int)p->kernels.n - 1,
                            .line = name.line};
  if (p->kernel->name == NULL) return ptx_out_of_memory(p);
  p->params = p->families = p->instructions = p->label_uses = p->tables = (ptx_array){0};
  p->uses = p->slot_stamps = p->predicate_stamps = (ptx_array){0};
  p->end_label = PTX_NOWHERE;
  ptx_names_open(&p->names);
  TRY(parse_params(p));
  TRY(parse_kernel_directives(p));
  if (!ptx_is_punct(&p->token, '{'))
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "the body '{' of kernel '%s' is expected",
                    p->kernel->name);
  TRY(ptx_parse_body(p));
  ptx_names_close(&p->names);
  return close_kernel(p, p->token.line);
}

static arke_status parse_header(ptx_parser *p) {
  ptx_module *m = p->module;
  if (!ptx_is_word(&p->token, ".version"))
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, "a PTX text starts with .version");
  ptx_advance(p);
  ptx_token version = p->token;
  char text[16] = "";
  if (version.length < sizeof text) memcpy(text, version.text, version.length);
  int used = 0;
  if (version.kind != PTX_TOKEN_F64 ||
      sscanf(text, "%2d.%2d%n", &m->version_major, &m->version_minor, &used) != 2 ||
      (size_t)used != version.length)
    return ptx_fail(p, ARKE_ERR_SYNTAX, &version, "a version such as 8.6 is expected after .version");
  ptx_advance(p);
  if (!ptx_is_word(&p->token, ".target"))
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, ".target is expected after .version");
  ptx_advance(p);
  ptx_token target = p->token;
  bool ok = target.kind == PTX_TOKEN_WORD && target.length >= 5 && target.length < sizeof m->target &&
            memcmp(target.text, "sm_", 3) == 0;
  if (ok) {
    memcpy(m->target, target.text, target.length);
    ok = sscanf(m->target + 3, "%4d", &m->sm) == 1;
  }
  if (!ok) return ptx_fail(p, ARKE_ERR_SYNTAX, &target, "a target such as sm_90a is expected after .target");
  ptx_advance(p);
  while (ptx_is_punct(&p->token, ',')) {
    ptx_advance(p);
    if (p->token.kind != PTX_TOKEN_WORD) return unexpected(p, "in .target");
    ptx_advance(p);
  }
  if (!ptx_is_word(&p->token, ".address_size"))
    return ptx_fail(p, ARKE_ERR_SYNTAX, &p->token, ".address_size 64 is expected after .target");
  ptx_advance(p);
  uint64_t bits = 0;
  return ptx_parse_integer(p, ".address_size", 64, 64, &bits);
}

/* .section .debug_info { … }: debug data, nested at most once. */
static arke_status skip_section(ptx_parser *p) {
  while (p->token.kind != PTX_TOKEN_END && !ptx_is_punct(&p->token, '{')) ptx_advance(p);
  while (p->token.kind != PTX_TOKEN_END && !ptx_is_punct(&p->token, '}')) ptx_advance(p);
  return ptx_expect(p, '}', "a .section");
}

static arke_status parse_top_level(ptx_parser *p) {
  bool is_extern = false;
  ptx_token start = p->token;
  if (ptx_is_word(&start, ".file") || ptx_is_word(&start, ".loc")) {
    ptx_lex_skip_line(&p->lexer);
    ptx_advance(p);
    return ARKE_OK;
  }
  if (ptx_is_word(&start, ".section")) return skip_section(p);
  if (ptx_is_word(&start, ".pragma")) {
    while (p->token.kind != PTX_TOKEN_END && !ptx_is_punct(&p->token, ';')) ptx_advance(p);
    return ptx_expect(p, ';', "a .pragma");
  }
  while (ptx_is_word(&p->token, ".extern") || ptx_is_word(&p->token, ".visible") ||
         ptx_is_word(&p->token, ".weak") || ptx_is_word(&p->token, ".common")) {
    is_extern = is_extern || ptx_is_word(&p->token, ".extern");
    ptx_advance(p);
  }
  ptx_token t = p->token;
  if (ptx_is_word(&t, ".entry")) return parse_entry(p);
  if (ptx_is_word(&t, ".func"))
    return ptx_fail(p, ARKE_ERR_UNSUPPORTED, &t, "the emulator runs kernels only, not .func");
  static const struct {
    const char *text;
    ptx_space space;
  } spaces[] = {{".shared", PTX_SPACE_SHARED}, {".global", PTX_SPACE_GLOBAL}, {".const", PTX_SPACE_CONST}};
  for (size_t k = 0; k < COUNT_OF(spaces); k++)
    if (ptx_is_word(&t, spaces[k].text)) {
      ptx_advance(p);
      return ptx_parse_variable(p, spaces[k].space, is_extern, -1);
    }
  return unexpected(p, "at module level");
}

static arke_status parse_all(ptx_parser *p) {
  ptx_advance(p);
  TRY(parse_header(p));
  while (p->token.kind != PTX_TOKEN_END) TRY(parse_top_level(p));
  ptx_module *m = p->module;
  if (!keep(p, &p->symbols, sizeof(ptx_symbol), &m->symbols, &m->n_symbols) ||
      !keep(p, &p->kernels, sizeof(ptx_kernel), &m->kernels, &m->n_kernels))
    return ptx_out_of_memory(p);
  return ARKE_OK;
}

arke_status ptx_parse(const char *text, size_t bytes, ptx_module **module, arke_error *err) {
  arena scratch = ARENA_INIT;
  owned_module *owned = calloc(1, sizeof *owned);
  *module = NULL;
  if (owned == NULL) return error_memory(err, "ptx");
  ptx_parser p = {.out = &owned->memory, .scratch = &scratch, .err = err, .module = &owned->module};
  ptx_lex_init(&p.lexer, text, bytes);
  arke_status status = ARKE_OK;
  if (!ptx_vocabulary_init(&p.vocabulary, &scratch) || !ptx_names_init(&p.names, &scratch, bytes / 32))
    status = error_memory(err, "ptx");
  if (status == ARKE_OK) status = parse_all(&p);
  arena_release(&scratch);
  if (status != ARKE_OK) {
    ptx_module_free(&owned->module);
    return status;
  }
  *module = &owned->module;
  return ARKE_OK;
}

void ptx_module_free(ptx_module *module) {
  if (module == NULL) return;
  owned_module *owned = (owned_module *)module;
  arena_release(&owned->memory);
  free(owned);
}

const ptx_kernel *ptx_find_kernel(const ptx_module *module, const char *name) {
  for (uint32_t k = 0; k < module->n_kernels; k++)
    if (strcmp(module->kernels[k].name, name) == 0) return &module->kernels[k];
  return NULL;
}
