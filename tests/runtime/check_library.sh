#!/bin/sh
# check_library.sh libarke.so arke.h: the library needs no library but the ones listed here, and exports exactly the
# functions that the header declares.
set -eu
library=$1
header=$2
export LC_ALL=C

# The sanitizers' runtimes are there in builds that ask for them.
allowed='^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux-.*|libjansson\.so\.4|libsqlite3\.so\.0|lib[atu]b?san\.so.*)$'
needed=$(readelf --dynamic --wide "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -n "$needed" ] || { echo "$library: readelf shows no dependencies" >&2; exit 1; }
unwanted=$(echo "$needed" | grep -Ev "$allowed" || true)
if [ -n "$unwanted" ]; then
  echo "$library needs" $unwanted >&2
  exit 1
fi

declared=$(tr '\n' ' ' <"$header" | grep -o 'ARKE_API [^;]*;' | sed -n 's/[^(]*[ *]\(arke_[a-z_]*\)(.*/\1/p' | sort)
exported=$(nm --dynamic --defined-only "$library" | awk '{ print $NF }' | sort)
if [ "$declared" != "$exported" ]; then
  echo "declared in $header:" $declared >&2
  echo "exported by $library:" $exported >&2
  exit 1
fi
