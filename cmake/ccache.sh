#!/bin/sh
# ccache.sh CCACHE COMPILER ARGUMENT...: ccache with what precompiled headers need.
#
# A precompiled header holds absolute paths, so no two checkouts have the same one. ccache reads the sum
# beside it instead: of all headers that went into it, whose texts are the same everywhere. For the same
# reason CMake's absolute paths to it become relative ones; ccache does so only with arguments it knows.
set -eu
for argument in "$@"; do
  shift
  set -- "$@" "${argument#"$PWD"/}"
done
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
"$@"
case " $* " in
  *" -emit-pch "*) ;;
  *) exit 0 ;;
esac
for argument in "$@"; do
  case $argument in
    *.pch) header=$argument ;;
    *.pch.d) dependencies=$argument ;;
  esac
done
# The files that CMake wrote hold a path and nothing else.
sed -e 's/^[^ ]*: //' -e 's/\\$//' "$dependencies" | tr -s ' ' '\n' | grep -v -e '^$' -e cmake_pch |
  xargs cat | sha256sum >"$header.sum"
