#include "templates/lanes_pointer.h"

#include "templates/lanes_internal.h"

arke_status lanes_pointer(lanes *l, int access, gen_value *address, arke_error *err) {
  lanes_reference to;
  TRY(lanes_find(l, access, 0, &to, err));
  TRY(lanes_line_address(l, to.line, err));
  *address = lanes_element_address(l, to.line, to.at);
  return ARKE_OK;
}

arke_status lanes_pointer_tested(lanes *l, int access, gen_value *address, gen_value *inside,
                                 arke_error *err) {
  *inside = NULL;
  if (lanes_is_tested(l->form, &l->o, access)) TRY(lanes_inside(l, access, 0, inside, err));
  return lanes_pointer(l, access, address, err);
}
