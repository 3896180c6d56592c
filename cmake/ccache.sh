#!/bin/sh
# ccache.sh CCACHE COMPILER ARGUMENT...: ccache with what precompiled headers need.
#
# A precompiled header holds absolute paths, so each checkout compiles its own, past ccache. What is compiled
# with one is looked up by the sum beside it instead: of all headers that went into it, whose texts are the
# same everywhere. For the same reason CMake's absolute paths to it become relative ones; ccache does so only
# with arguments it knows.
set -eu
emits=no
for argument in "$@"; do
  case $argument in
    -emit-pch) emits=yes ;;
    *.pch) header=$argument ;;
    *.pch.d) dependencies=$argument ;;
  esac
done
if [ $emits = no ]; then
  for argument in "$@"; do
    shift
    set -- "$@" "${argument#"$PWD"/}"
  done
  export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
  exec "$@"
fi
shift
"$@"
# The files that CMake wrote hold a path and nothing else.
sed -e 's/^[^ ]*: //' -e 's/\\$//' "$dependencies" | tr -s ' ' '\n' | grep -v -e '^$' -e cmake_pch |
  xargs cat | sha256sum >"$header.sum"
