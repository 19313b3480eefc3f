#include "templates/lanes_pointer.h"

#include "templates/lanes_internal.h"

arke_status lanes_pointer(lanes *l, int access, gen_value *address, arke_error *err) {
  lanes_reference to;
  TRY(lanes_find(l, access, 0, &to, err));
  TRY(lanes_line_address(l, to.line, err));
  *address = lanes_element_address(l, to.line, to.at);
  return ARKE_OK;
}
